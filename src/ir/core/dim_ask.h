/*
 * dim_ask.h - questions about sizes that the call at hand answers.
 *
 * While a function is staged for one call, every size of its arguments is a
 * variable that also knows its number in that call.  A question about sizes
 * (are they equal? is one at least the other?) that no fact decides is decided
 * by these numbers, and the answer becomes a condition: what is being built
 * serves every call that meets the conditions, and no other.
 *
 * Sizes that have no number (how many elements a mask chooses) stay unknown.
 */
#ifndef TSR_IR_DIM_ASK_H
#define TSR_IR_DIM_ASK_H

#include "base/map.h"
#include "base/vec.h"
#include "ir/core/dim.h"

typedef enum { DIM_IS_EQ, DIM_IS_NE, DIM_IS_GE } DimRel;        /* a == b, a != b, a >= b */
typedef struct DimCond { DimRel rel; Dim a, b; } DimCond;
typedef Vec(DimCond) DimConds;

/* A new variable, at least 0, that is `size` in the call at hand. */
Dim dim_sized(Sym name, int64_t size);
/* The size in the call at hand; false: it has no number. */
bool dim_at_hand(Dim d, int64_t *out);

/* From begin to end answers are noted as conditions. They do not nest. */
extern bool dim_ask_open;               /* between the two? */
void dim_ask_begin(void);
static inline bool dim_asking(void) { return dim_ask_open; }
uint64_t dim_asking_id(void);           /* of the questions that are open, 0: none */
void dim_ask_end(DimConds *out);        /* the conditions, added to *out; what was known is forgotten */

/* DIM_PROVED, DIM_REFUTED: so it is for every call that is served. Otherwise a size has no number, and what
 * dim_eq and dim_ge say of it. */
DimAnswer dim_ask_eq(Dim a, Dim b);
DimAnswer dim_ask_ge(Dim a, Dim b);
Dim dim_ask_min(Dim a, Dim b);          /* the smaller one, which is asked; dim_min leaves it open */
static inline bool dim_same(Dim a, Dim b) { return a == b || dim_ask_eq(a, b) == DIM_PROVED; }
/* Must a be b? False (silently) only when they are known to differ; what cannot be decided is checked when it runs. */
bool dim_may_equal(Dim a, Dim b);
/* Join under broadcasting: *out is the common size. */
bool dim_join(Dim a, Dim b, Dim *out);
/* Does an axis of `have` become one of `want` under broadcasting: equal, or 1? */
bool dim_stretches(Dim have, Dim want);
/* The number that d is for every call that is served. false: it has none. */
bool dim_settle(Dim d, int64_t *out);
/* d as the conditions have it: a number where they settle it. */
Dim dim_known(Dim d);

/* For messages: the number at hand, else the expression. The text lives until the eighth call after it. */
const char *dim_text(Dim d);
void dim_print_at_hand(Dim d, StrBuf *out);

/* Numbers of a run: set those of variables, then evaluate. Independent of the call at hand. */
void dim_set_now(Dim var, int64_t v);
bool dim_now(Dim d, int64_t *out);
bool dim_cond_now(const DimCond *c, bool *holds);       /* false: a size in it has no number */
void dim_cond_assume(const DimCond *c);                 /* a fact until dim_pop; one with != says nothing to types */
bool dim_is_var(Dim d);

#endif
