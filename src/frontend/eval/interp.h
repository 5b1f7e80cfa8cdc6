/*
 * interp.h - the evaluator as its builtins see it.
 *
 * One Interp runs one program.  It owns the modules, the pending exception,
 * the frame chain for tracebacks, the numerics scopes and the trace state.
 * A Value that comes back is a new reference, and V_ERR or false says that
 * an exception is pending, where no contract says otherwise (value.h).
 */
#ifndef TSR_FRONTEND_INTERP_H
#define TSR_FRONTEND_INTERP_H

#include "frontend/eval/value.h"

#include <stdio.h>

struct Graph;

typedef struct InterpOptions {
    int argc;
    char **argv;                /* sys.argv, [0] the file */
    const char *const *path;    /* module search path after the file's folder, NULL-terminated */
    bool trace_shapes, trace_fold, trace_rng, trace_memory, stats;    /* tensor/watch.h */
    bool why_compile;           /* say on standard error why each call that becomes a graph does (tensor/jit_why.c) */
    bool profile;               /* ops, kernels and memory are recorded from the start: tensor/profile.c */
    bool fast;                  /* numerics begin as in with fast_math() */
    bool guard_numerics;        /* NaN and infinity are errors where they first appear */
    bool debug;
    const char *autotune_trace; /* trials of the tuner are told: "1" on standard error, else in this file; NULL: not */
    int64_t memory_limit;       /* bytes of tensors that may be in use at once; 0: as many as there are */
    void (*staged)(void *st, const struct Graph *g);    /* told of each graph that a function of the program becomes; NULL: nobody asks */
    void *staged_state;
} InterpOptions;

Interp *interp_new(const InterpOptions *opt);           /* NULL: all of them off; what they point to stays the caller's, and stays */
void interp_free(Interp *I);                            /* everything that programs made goes; what was printed is written out */
const InterpOptions *interp_options(Interp *I);
int *interp_depth_limit(Interp *I);                     /* sys.setrecursionlimit */

struct Unit;
struct Scope;
/* Run a resolved unit as module `name`; false: an exception is pending. */
bool interp_run_unit(Interp *I, struct Unit *u, Sym name);
/* REPL: run one more input in the same module; *result is the value of a final expression statement, else V_NONE. */
bool interp_run_input(Interp *I, struct Unit *u, Value *result);
struct ModuleObj *interp_main(Interp *I);               /* the program's own module (REPL: where inputs run); NULL before */

/* Effects that `effects.suspend` forbids for a while, as bits. */
enum { SUSPEND_RANDOM = 1, SUSPEND_IO = 2 };
unsigned interp_suspend(Interp *I, unsigned effects);   /* the set in force from now on; gives the former one */
bool interp_may(Interp *I, unsigned effect, const char *what);  /* false: suspended, EffectError is raised */

/* May `what`, which lasts outside of the tensors, happen here? false: a staged tensor decides whether this code counts; E0541 is raised. */
bool interp_may_touch(Interp *I, const char *what);

/* ------------------------------------------------------------- exceptions */

/* Builtin exception classes, in exceptions.def: EXC(ValueError, Exception). */
typedef enum ExcKind {
#define EXC(name, base) EXC_##name,
#include "frontend/eval/exceptions.def"
    EXC_COUNT
} ExcKind;

/* Raise: sets the pending exception and returns V_ERR, so that `return raise(I, EXC_TypeError, "...")` works. */
Value raise(Interp *I, ExcKind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
Value raise_value(Interp *I, Value exc);                /* an instance, or a class to instantiate; refs it */
Value raise_key_error(Interp *I, Value key);            /* KeyError of the key itself */
Value raise_stop(Interp *I, Value it);                  /* StopIteration after value_next(it) gave none, with a generator's return value */
Value raise_errno(Interp *I, int err, const char *path);        /* OSError's fitting subclass */
bool exc_pending(Interp *I);                            /* is one? */
bool exc_matches(Interp *I, ExcKind kind);              /* is the pending exception one of these? */
Value exc_take(Interp *I);                              /* clears it; new reference */
void exc_clear(Interp *I);
ClassObj *exc_class(Interp *I, ExcKind kind);
/* The traceback with source lines, chains included, ending in "ValueError: text"; as stderr shows it. */
void exc_render(Interp *I, Value exc, StrBuf *out);
/* SystemExit's code, or -1 when exc is something else. */
int exc_exit_code(Interp *I, Value exc);

/* ------------------------------------------------------------- the language's operations
 *
 * Text (value_str value_repr value_repr_to value_format) is in frontend/lib; the rest here in eval.  For the
 * kinds that eval owns (instances, classes, functions, modules, exceptions, generators, type forms) lib calls
 * object_repr_to / object_str_to, which run __repr__ and __str__. */
bool object_repr_to(Interp *I, Value v, StrBuf *out);   /* false: pending */
bool object_str_to(Interp *I, Value v, StrBuf *out);
/* The special method of v's class, borrowed and not bound; V_ERR when it has none. Call it with v as first argument. */
Value value_dunder(Interp *I, Value v, Dunder d);
Value value_call_dunder(Interp *I, Value v, Dunder d, const Value *args, int nargs);   /* V_ERR without pending: no such method */

Value value_call(Interp *I, Value f, const Value *args, int nargs);
Value value_call_kw(Interp *I, Value f, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw);
Value value_call_method(Interp *I, Value self, Sym name, const Value *args, int nargs);
Value value_getattr(Interp *I, Value v, Sym name);
Value value_getattr_opt(Interp *I, Value v, Sym name);  /* V_ERR without an exception when there is none */
bool value_setattr(Interp *I, Value v, Sym name, Value x);
Value value_getitem(Interp *I, Value v, Value key);     /* v[key]: an index, a slice, a key; of anything that has __getitem__ */
bool value_setitem(Interp *I, Value *v, Value key, Value x);    /* tensors are values: *v may be replaced */
Value value_binary(Interp *I, int ast_op, Value a, Value b);    /* AstOp; dunders and tensors included */
Value value_unary(Interp *I, int ast_op, Value a);
Value value_compare(Interp *I, int ast_op, Value a, Value b);
int value_truth(Interp *I, Value v);                    /* 1, 0; -1 pending */
bool value_is(Value a, Value b);
int value_equal(Interp *I, Value a, Value b);           /* ==, as 1, 0, -1 */
int value_less(Interp *I, Value a, Value b);            /* <, as 1, 0, -1 */
int value_contains(Interp *I, Value container, Value x);        /* x in container, as 1, 0, -1 */
bool value_hash(Interp *I, Value v, uint32_t *out);     /* equal values have equal ones; TypeError: it has none */
Value value_iter(Interp *I, Value v);                   /* an iterator */
Value value_next(Interp *I, Value it);                  /* V_ERR without an exception: exhausted */
int64_t value_len(Interp *I, Value v);                  /* -1 pending */
/* Each element of an iterable to give, which owns it; give returns false for no more. false: stopped, or pending. */
bool value_each(Interp *I, Value iterable, bool (*give)(void *taker, Value v), void *taker);
Value value_to_list(Interp *I, Value iterable);         /* a new list */
Value union_types(Interp *I, TypeFormObj *t);     /* the types of int | str | None: a tuple, each once */
Value value_str(Interp *I, Value v);                    /* str(v): a V_STR */
Value value_repr(Interp *I, Value v);
bool value_repr_to(Interp *I, Value v, StrBuf *out);    /* appended */
Value value_format(Interp *I, Value v, const char *spec, size_t n);     /* format(v, spec) */
bool value_is_callable(Value v);
bool value_as_int(Interp *I, Value v, int64_t *out);    /* int, bool, __index__, 0-d int tensor; else TypeError */
bool value_as_float(Interp *I, Value v, double *out);   /* float, int, bool, __float__, a tensor of one element; else TypeError */
Value value_type(Interp *I, Value v);                   /* type(v) */
const char *value_type_name(Value v);                   /* "int", "Tensor", a class's name */
void class_note_abstract(Interp *I, ClassObj *c);       /* which abstract methods are left, after methods were added */
void class_complete(Interp *I, ClassObj *c);            /* facts that depend on the whole namespace: after class_new, or where __slots__ came later */
bool class_includes(Interp *I, ClassObj *c, ClassObj *sub);     /* issubclass(sub, c): derives, or c says so; may be pending */
bool value_isinstance(Interp *I, Value v, Value cls);   /* cls: class, type form, tuple; pending on nonsense */

Value import_module(Interp *I, const char *dotted);     /* the module object */
Value prelude_value(Interp *I, int row);                /* a prelude name's value, made on first use (borrowed) */
Value prelude_get(Interp *I, const char *name);         /* by name, borrowed; V_ERR: no such name */

/* Depth and interrupt guard: every recursive C function over user structure calls this; false: RecursionError
 * or KeyboardInterrupt is pending. */
bool interp_enter(Interp *I);
void interp_leave(Interp *I);                           /* after interp_enter that was true */
Value fault_raise(Interp *I, Value result);             /* takes the result, and raises a GPU's fault (runtime/cuda.h) where there is one */
bool interp_poll(Interp *I);                            /* in long loops: ctrl-C (tsr_interrupted)? false: pending */

/* Where print goes: standard output, whose failures are kept for interp_write_error. */
void interp_write(Interp *I, const char *s, size_t n);
void interp_flush(Interp *I);
Value *interp_redirect(Interp *I, int fd);              /* where what standard output (1) or error (2) gets goes instead; V_ERR: nowhere */
int interp_write_error(void);            /* errno of the first output that could not be written; 0: none */

void *interp_keep(Interp *I, Value v);                   /* v's object lives as long as the Interp: graphs name it */

/* Recent position being evaluated (error messages of ops, graph node locations). */
Span interp_span(Interp *I);

struct Trace;
struct Trace *interp_trace(Interp *I);                  /* ir/graph/trace.h */

#endif
