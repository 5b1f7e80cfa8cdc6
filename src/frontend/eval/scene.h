/*
 * scene.h - what the arms of one staged construct share.
 *
 * Each arm starts from the same host state and ends with some; a Scene knows
 * the places whose values the arms may leave different, turns them into a flat list of
 * tensors for the graph, and puts the joined tensors back.
 *
 * Which places there are is known for certain only after all arms ran. An arm that
 * finds one more says so in `again`, and the construct is staged once more.
 */
#ifndef TSR_FRONTEND_SCENE_H
#define TSR_FRONTEND_SCENE_H

#include "frontend/eval/snapshot.h"
#include "frontend/tensor/transform.h"

typedef struct Scene {
    Interp *I;
    Frame *f;
    Shot *shot;
    Value *slot;                /* the frame's variables as they were */
    Spots place;
    Map mark;                   /* object that was there before -> the cell that stands for it */
    Vec(Value) marks;
    Value absent;               /* the mark for no value */
    bool again;                 /* an arm found what the others should have known */
    bool locals;                /* variables that arms set count afterwards */
    bool loop;                  /* the arms are the start of a loop and a round of it */
    bool hold_numbers;          /* a host number stays one as long as no arm makes a tensor of it */
    bool may_drop;              /* a variable that only one arm sets is unset afterwards */
    const AstIf *branch;        /* whose arms they are: a variable that nothing reads behind it may differ, and is unset afterwards; or NULL */
    int tries;
    Value ret;                  /* skeleton of what is returned, with marks; V_ERR: nothing is, so far */
    bool ret_by_value;          /* arms return different objects that were there before: copies, then */
    TType *ret_type;
    int nret;
    Span ret_at;
    Vec(uint8_t) want;          /* dtypes that numbers must take, by position in the flat list */
} Scene;

/* What arms give beside the places: how they left and what they return, or only the latter. */
typedef enum { GIVE_PLACES, GIVE_LEFT, GIVE_RETURN } GiveKind;

/* What one arm gave, flat: places, then the exit's code, then what it returns. */
typedef struct Gift {
    Value skeleton;             /* of the places */
    Value raw;                  /* their values as they were given */
    Value ret;                  /* skeleton of what is returned; V_ERR: it does not return */
    TType *type;
    int n, npad;                /* npad: zeros at the end, for what it does not return */
    Span at, ret_at;
} Gift;
#define NO_GIFT ((Gift){.skeleton = VERR, .raw = VERR, .ret = VERR})

void scene_begin(Scene *s, Frame *f);
void scene_end(Scene *s);
void scene_add(Scene *s, const Vars *vars);             /* places that the syntax shows */
void scene_reset(Scene *s);                             /* the host as it was before the construct */
bool scene_settled(Scene *s);                           /* end of an arm: were all changes known? false: pending */

/* The places' values, marked and flat, and the rest. */
bool scene_give(Scene *s, Gift *g, GiveKind kind, const Left *left, Tensor **out, int *nout);
/* Do two arms' gifts fit together? Sets again, or raises. */
bool scene_compare(Scene *s, const Gift *a, const Gift *b, const char *first, const char *second);
/* Put joined tensors (consumed) back; *left: code and returned value. a's skeleton; b's raw values tell numbers that both gave. */
bool scene_take(Scene *s, const Gift *a, const Gift *b, GiveKind kind, Tensor **out, int n, Left *left);
bool scene_write(Scene *s, Value tuple);                /* a tuple of the places' values, marks undone */
bool scene_retry(Scene *s);                             /* must it be staged once more, and may it? */
void gift_done(Gift *g);
int line_of(Span at);

#endif
