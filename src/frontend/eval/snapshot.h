/*
 * snapshot.h - the host's state before staged code runs, to compare with and to go back to.
 *
 * While a branch or a loop on a tensor is staged, its arms run on the host
 * although only the graph will know which of them counts.  A Shot holds what
 * those arms can reach and change: lists, dicts, sets, attributes, closure
 * cells, globals, the positions of iterators.  After an arm it says what
 * changed, as Spots, and puts everything back.
 *
 * What an arm makes itself is its own; objects that the arm can reach were
 * reachable before from the frame's variables, or come from globals and cells
 * whose reads and stores are reported (reads.h) before they happen.
 */
#ifndef TSR_FRONTEND_SNAPSHOT_H
#define TSR_FRONTEND_SNAPSHOT_H

#include "frontend/eval/staged.h"

typedef enum { SPOT_LOCAL, SPOT_GLOBAL, SPOT_CELL, SPOT_ELEMENT, SPOT_KEY, SPOT_WHOLE } SpotKind;

/* Something whose value differs from arm to arm. SPOT_WHOLE: the elements of a list; SPOT_KEY: of a dict or of attributes. */
typedef struct Spot {
    SpotKind kind;
    bool by_value;              /* containers are joined as values: the arms put different ones there */
    bool dropped;               /* set in one arm only: unset afterwards */
    int64_t at;                 /* slot; element */
    Value of;                   /* module, cell or container. Owned */
    Value key;                  /* owned */
    Sym name;                   /* of a variable */
    Value number;               /* the mark for a host number there (scene.h). Owned */
} Spot;
typedef Vec(Spot) Spots;

Value spot_read(Interp *I, const Spot *p, Frame *f);          /* V_ERR: unset, absent. A new reference */
bool spot_write(Interp *I, const Spot *p, Frame *f, Value v); /* borrows v; V_ERR unsets */
bool spot_equal(Interp *I, const Spot *a, const Spot *b);
void spot_free(Spot *p);

Sym local_name(const Code *c, int slot);                 /* of a frame's slot; NULL: it has none */

typedef struct Shot Shot;
Shot *shot_take(Interp *I, Frame *f);
void shot_free(Shot *s);
bool shot_has(const Shot *s, Value v);                  /* did this object exist before? */
/* Add a place for everything that differs now and is not among the places; *found says whether there was something.
 * false: an exception is pending (what changed cannot be told apart or put back). */
bool shot_changes(Shot *s, Spots *places, bool *found);
bool shot_undo(Shot *s);
void shot_name(Shot *s, const Spot *p, StrBuf *out);   /* as the program would write it: xs, m.count, d['k'] */

#endif
