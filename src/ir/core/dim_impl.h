/*
 * dim_impl.h - size expressions inside: pools of atoms, monomials and polynomials.
 *
 * A polynomial is a sorted sum of terms c*m, a monomial m a sorted product of
 * atoms with exponents, an atom a variable, or floordiv, min or an unexpanded
 * product of two sizes.  All three are interned; a Dim below 0 is -1 - index of
 * a polynomial.  dim.c has pools and arithmetic, dim_norm.c substitution and
 * division, dim_facts.c what is known, dim_prove.c bounds and decisions, dim_text.c text.
 */
#ifndef TSR_IR_DIM_IMPL_H
#define TSR_IR_DIM_IMPL_H

#include "ir/core/dim.h"

#include "base/ints.h"
#include "base/vec.h"

typedef enum { DIM_AT_HAND, DIM_NOW } DimNumber;         /* dim_ask.h: of the call at hand, of the run */
typedef enum { ATOM_VAR, ATOM_FDIV, ATOM_MIN, ATOM_MUL } AtomKind;

typedef struct Atom {
    uint8_t kind;
    Sym name;                   /* VAR */
    int64_t lo, hi;             /* VAR: known bounds; hi INT64_MAX: none */
    Dim a, b;                   /* operands of the others */
    Dim def;                    /* VAR made by solving D = q*v: the size it stands for, D//q; else 0 */
    Dim sub;                    /* VAR: what it was solved for; DIM_BAD: nothing */
    uint32_t twin;              /* VAR: index + 1 of the variable that residue splitting uses for it */
    uint32_t next;              /* hash chain, index + 1 */
    bool numbered[2];           /* VAR, by DimNumber: is there a number? */
    int64_t number[2];
} Atom;

typedef struct { uint32_t atom, exp; } Fac;
typedef struct { Fac *f; int n; int degree; uint32_t next; } Mono;      /* facs by atom; mono 0 is 1 */
typedef struct { int64_t c; uint32_t m; } Term;
typedef struct Poly {
    Term *t;                    /* by mono */
    int n;
    int depth;                  /* nesting of atoms */
    uint32_t next;
    uint32_t epoch;             /* when `norm` was computed */
    Dim norm;
} Poly;

enum {
    EXP_MAX = 64,               /* so does a higher power: rewriting one multiplies it out */
    TERMS_MAX = 64,             /* a larger product stays an ATOM_MUL */
    DEPTH_MAX = 24,             /* deeper nesting becomes a variable of its own */
    STEPS = 100000              /* work allowed for one question */
};

/* A sum under construction. */
typedef struct { Term t[TERMS_MAX * 2]; int n; bool bad; } Sum;

static inline void sum_start(Sum *s)
{
    s->n = 0;
    s->bad = false;
}

typedef Vec(Atom) Atoms;
typedef Vec(Mono) Monos;
typedef Vec(Poly) Polys;
extern Atoms dim_atoms;
extern Monos dim_monos;
extern Polys dim_polys;

/* Terms of d, in *one for a number; n gets their count. d must not be DIM_BAD. */
const Term *dim_terms(Dim d, Term *one, int *n);
Dim dim_of_sum(Sum *s);                     /* interned; DIM_BAD if it overflowed */
void sum_add(Sum *s, int64_t c, uint32_t m);
Dim dim_of_term(int64_t c, uint32_t m);
Dim dim_of_atom(uint32_t atom);
Dim dim_scale(Dim d, int64_t k);
uint32_t atom_make(AtomKind kind, Dim a, Dim b);
uint32_t mono_mul(uint32_t a, uint32_t b);
bool mono_div(uint32_t a, uint32_t b, uint32_t *out);       /* a / b when b divides a */
bool mono_is_var(uint32_t m, uint32_t *atom);               /* one variable, exponent 1 */
bool mono_less(uint32_t a, uint32_t b);                     /* by degree, then age of the atoms */
Term dim_leading(Dim d);                                    /* the greatest; d is not 0 */
static inline uint32_t leading_mono(Dim d) { return dim_leading(d).m; }
Dim dim_unknown(const char *prefix);                        /* a fresh variable without bounds */
int dim_depth(Dim d);
void atom_vars(uint32_t atom, uint32_t *out, int *n, int max);      /* variables in it, each once */
void dim_var_atoms(Dim d, uint32_t *out, int *n, int max);

/* The facts in force: solved variables (Atom.sub), rewrites c*m -> rhs, sizes known to be >= 0. */
typedef struct { uint32_t m; int64_t c; Dim rhs; } Rewrite;
typedef Vec(Rewrite) Rewrites;
typedef Vec(Dim) Dims;
extern Rewrites dim_rewrites;
extern Dims dim_ges;
extern uint32_t dim_epoch;                  /* changes with the facts */
extern bool dim_plain;                      /* while set, no facts are used */
extern int dim_steps;                       /* left for the question being answered; nested calls share them */

void dim_facts_done(void);
/* d == 0 from now on: solved for the youngest variable that it can be solved for. */
void dim_learn_zero(Dim d);
/* From the numbers of its variables; false: one has none. */
bool dim_number(Dim d, DimNumber which, int64_t *out);
/* The coefficients' common divisor comes out; false: the constant does not have it, so *d is never 0. */
bool dim_primitive(Dim *d);
void dim_begin(void);                       /* around each public operation: a fresh budget for the outermost */
void dim_end(void);

/* A map of variables must not be under the facts too: what it gives stands as it is. */
typedef struct { const uint32_t *from; const Dim *to; int n; } AtomMap;
Dim dim_map(Dim d, const AtomMap *m);       /* replace atoms; NULL: the solved variables */
Dim dim_norm(Dim d);                        /* under the facts */

typedef struct { int64_t lo, hi; } Interval;            /* +-INF: unbounded */
#define INF INT64_MAX
Interval dim_interval(Dim d);               /* from the bounds of atoms */
Interval dim_bounds(Dim d);                 /* and from the facts */
int64_t floor_div(int64_t a, int64_t b);

#endif
