/*
 * dim.h - sizes: numbers, or interned integer polynomials over size variables.
 *
 * A Dim >= 0 is that number; a Dim < 0 names an interned expression, so equal
 * sizes are equal Dims and concrete code never leaves the fast path.  The
 * normal form is a sum of products, with floordiv and min as the only atoms;
 * questions are decided by substitution (divisibility), intervals, splits by
 * residue, and counterexamples.
 */
#ifndef TSR_IR_DIM_H
#define TSR_IR_DIM_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "base/sym.h"

#include <stdbool.h>
#include <stdint.h>

typedef int64_t Dim;
#define DIM_BAD INT64_MIN               /* overflow or an impossible size; every function passes it on */

static inline bool dim_is_const(Dim d) { return d >= 0; }

Dim dim_var(Sym name, int64_t lo, int64_t hi);      /* a new variable, distinct from all others; hi INT64_MAX: none */
Dim dim_const(int64_t v);                           /* any integer; negative numbers are interned expressions */
bool dim_const_value(Dim d, int64_t *out);          /* its value if it is a number */
Dim dim_add_slow(Dim a, Dim b);         /* for sizes that are not both numbers */
Dim dim_mul_slow(Dim a, Dim b);         /* a product too large to write out stays as it is written */
static inline Dim dim_add(Dim a, Dim b)
{
    int64_t r;
    return a >= 0 && b >= 0 && !__builtin_add_overflow(a, b, &r) ? r : dim_add_slow(a, b);
}
static inline Dim dim_mul(Dim a, Dim b)
{
    int64_t r;
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, &r) ? r : dim_mul_slow(a, b);
}
Dim dim_sub(Dim a, Dim b);                          /* may be negative, and is an expression then */
Dim dim_floordiv(Dim a, Dim b);                     /* towards minus infinity; b > 0 */
Dim dim_mod(Dim a, Dim b);                          /* a - b * (a // b): not negative; b > 0 */
Dim dim_cdiv(Dim a, Dim b);                         /* towards plus infinity; b > 0 */
Dim dim_min(Dim a, Dim b);                          /* an atom, unless intervals say which it is */
Dim dim_max(Dim a, Dim b);                          /* a + b - min(a, b) */

typedef enum { DIM_PROVED, DIM_REFUTED, DIM_DIFFERS, DIM_UNKNOWN } DimAnswer;
typedef struct { Sym name; int64_t value; } DimWitness;     /* of DIM_DIFFERS: values under which the sizes differ */
DimAnswer dim_eq(Dim a, Dim b, DimWitness *w, int *nw);     /* w may be NULL; room for 8 */
DimAnswer dim_ge(Dim a, Dim b, DimWitness *w, int *nw);     /* a >= b; w and nw as above */
DimAnswer dim_divides(Dim k, Dim e);                        /* proved, refuted or unknown: nobody asks for sizes that it does not divide */

/*
 * Facts hold from dim_push to the matching dim_pop; all questions, and the normal form of what is made meanwhile, go by them.
 * Sizes made under facts stay valid behind them.  false: it contradicts what is known.
 */
void dim_push(void);
void dim_pop(void);
bool dim_assume_eq(Dim a, Dim b);
bool dim_assume_ge(Dim a, Dim b);                   /* a >= b */
bool dim_assume_divides(Dim k, Dim e);              /* e % k == 0 */

/* Replace variables: from[i] (a variable) by to[i]. */
Dim dim_subst(Dim d, const Dim *from, const Dim *to, int n);
/* Its value for these of its variables, at most 64; false: one is missing, or the value has no int64. */
bool dim_eval(Dim d, const Dim *vars, const int64_t *values, int n, int64_t *out);
bool dim_eval_each(Dim d, int64_t each, int64_t *out);      /* every variable is that one number, which is not 0 */
int dim_vars(Dim d, Dim *out, int max);             /* how many variables it has, at most max and 64; these, in order of name */
bool dim_has_var(Dim d, char first);                /* is one of them, as printed, of a name that begins so? */
/* Unknown sizes are variables whose names begin with "?"; one that also has a name, "?p.D", shows that alone. */
static inline const char *dim_name_shown(const char *name) { return *name == '?' && name[1] ? name + 1 : name; }
void dim_print(Dim d, StrBuf *out);                 /* "B*S+4*D+1": terms by degree, then name, constant last */
/* "B*H", "4*(D+1)//2", "min(S, 8)", "1M": var gives the size of a name, DIM_BAD to refuse it. false: not a size. */
bool dim_parse(const char *s, Dim (*var)(void *st, Sym name), void *st, Dim *out);
/* The same size without what was solved under the facts in force: D//8 again, where D % 8 == 0 had named it. */
Dim dim_surface(Dim d);
/* What was made since a mark is forgotten: nobody may hold a size made since then, and the facts in force are those of then. */
typedef struct { uint32_t atoms, monos, polys, unknowns; ArenaMark pool; } DimMark;
DimMark dim_mark(void);
void dim_release(DimMark m);                        /* marks are released in the opposite order */
void dim_done(void);                                /* at exit, for leak checkers: forgets every expression */

#endif
