/*
 * checker.h - what the files of the type checker share.
 *
 * check.c walks statements, walks.c functions, flow.c branches and loops, facts.c what tests say of sizes, exprs.c expressions;
 * vars.c knows variables, classes.c classes, members.c attributes, binding.c, calls.c, sizes.c and transforms.c
 * calls, annotype.c annotations, tensors.c and tensorcalls.c the tensor rules.  What they know stands in checker_state.h.
 */
#ifndef TSR_FRONTEND_CHECKER_H
#define TSR_FRONTEND_CHECKER_H

#include "frontend/check/checker_state.h"

/* Reports unless quiet or already reported there; the Diag is never NULL. */
Diag *report(Check *C, DiagCode code, Span span, const char *const *args, int nargs);
#define REPORT(C, code, span, ...) \
    report(C, code, span, (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* origins.c: labels at the places that a size comes from */
void origin_of(Check *C, Diag *d, Ast *e, Dim size);                    /* of an expression; DIM_BAD: its definition */
void origins(Check *C, Diag *d, Ast *node, const Dim *size, int n);     /* of the operands of node, in the program */
void origin_annotated(Check *C, Ast *annotation, const TType *want, const TType *got, Ast *value);
void origin_stored(Check *C, const TType *want, const TType *got, Ast *value);
/* Where the sizes of an annotation that a type does not have were written, as seen from f. */
void origin_sizes(Check *C, Diag *d, CFrame *f, const Ast *annotation, const TType *want, const TType *got);
void origin_policies(Check *C, Diag *d, Ast *node);      /* of its operands */
void origin_declared(Check *C, const Fn *f, const AstParam *p, const TType *want, const TType *need, const TType *got, Ast *arg);

/* vars.c */
const Type *prelude_type(Check *C, int row);
const Type *lazy_type(Check *C, const Type *t);
void forget_place(Check *C, Ast *e);

/* grown.c: containers that statements build */
bool grows(const Check *C, const AstName *n);           /* is all that changes what the variable holds seen by the walk? */
bool grows_in(const Check *C, const Inst *i, Sym attr); /* of an attribute of an object that is being made */
const Type *grown_first(const Type *t, const Ast *value);       /* what is kept of t, which `value` made; else it is forgotten */
const Type *grown_read(const Type *t);                  /* what was kept, as a type of a value */
const Type *grown_name(Check *C, AstName *n, const Type *t, bool held);     /* t, kept of n, where it is read; held: without another name */
void grown_stored(Check *C, Ast *base, const Type *index, const Type *t);       /* base[index] = t */
void grown_called(Check *C, const AstCall *c, const CallArgs *a);               /* base.append(...) */
bool grown_calls(Check *C, const AstCall *c);           /* is it such a call, ... */
bool grown_is(Check *C, Ast *base);                     /* ... or base such a place? It may hold anything then */

/* unused.c */
void unused_result(Check *C, const Ast *s);             /* of a statement: a value that is made for nothing is said */

/* optional.c */
const Type *optional_untested(const Type *declared);    /* of a variable that was declared so: T | None is one of both, until it is tested */
void optional_declared(Check *C, const AstName *n, const Type *declared);       /* a variable that was just given what is not known */
void narrow_asserted(Check *C, Ast *test);              /* the test holds from here on */
/* What None does not do is asked of e: E0921, with the reason, and true, where it may be None. */
bool optional_used(Check *C, const Ast *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* several.c: E0921 for what e does with a variable that may be of several types, before the expression or statement e is looked at */
void several_judged(Check *C, Ast *e);

/* ways.c */
void var_put(Trail *trail, const Type **at, const Type *t);

/* survey.c */
void survey(Check *C, Home *h, Unit *u);                /* reads what a unit's statements change and store */
uint64_t survey_facts(const Check *C, const Home *h);   /* the same when it read the same */
void survey_stored(Check *C, Sym attr);                 /* the attribute is stored out of sight */
/* INSIDE: a function does; LATER: something else than self.x.append(...) and self.x[k] = v in an __init__ */
enum { MUTATED_ITSELF = 1, MUTATED_PARTS = 2, MUTATED_INSIDE = 4, MUTATED_LATER = 8 };
bool is_mutated(const Home *h, Sym name);               /* does some statement change what the variable or attribute holds? */
bool is_mutated_so(const Home *h, Sym name, int how);   /* ... in that way, or in a way that tells no name? */
bool is_mutator(Sym method);                            /* append, pop, update ... */
bool has_mutated_parts(const Home *h, Sym name);        /* only its elements: x[k].append(v) */

/* homes.c */
void home_init(Check *C, Home *h, Scope *s);            /* of a module whose names are resolved */
void home_done(Home *h);
/* What `name` of a library file or module is; NULL: not known. What makes it is walked, once, quietly. */
const Type *space_type(Check *C, const struct Space *s, Sym name);
void home_need(Check *C, Home *h, Sym name);            /* walks the definition of a name of h, if that was not done yet */
const Type *name_type(Check *C, AstName *n);
void set_name(Check *C, AstName *n, const Type *t, Ast *value);

/* targets.c */
void bind_target(Check *C, Ast *target, const Type *t, Ast *value);
const Type *element_of(const Type *t);                  /* of iterating it */
/* A value is broadcast to the place where it is stored: axes of size 1, and fewer axes. */
void broadcast_judged(Check *C, const TType *value, const TType *place, Ast *node);

/* exprs.c, members.c */
const Type *expr(Check *C, Ast *e);

/* What an operation gives whose operands have these types. */
const Type *operated(Check *C, AstBinOp *op, const Type *a, const Type *b);

/* The value of e, which gets no other name there. */
static inline const Type *expr_looked(Check *C, Ast *e)
{
    C->hold = e;
    return expr(C, e);
}

const Type *space_attribute(Check *C, const struct Space *s, Sym attr);
const Type *attribute(Check *C, const Type *t, Sym attr, Ast *node);
const char *builtin_near(const char *owner, Sym attr);    /* a method of the builtin class, whose name is like that; NULL: none */
const Type *subscript(Check *C, const Type *t, Ast *index, Ast *node);
const Type *slice_bound(Check *C, Ast *e, const Type *left_out);        /* of lo:hi:step; what surely is no int is reported */

/* displays.c */
const Type *display(Check *C, Ast *e);                  /* of a display or a comprehension */
const Type *iterated(const Type *t);                    /* a dict of known keys as these, for type_items */
bool display_is_key(const Type *k);                     /* of a dict whose entries are known one by one */

/* truth.c */
int truth(Check *C, Ast *test);                         /* 1, 0, -1: not known */
int truth_of_types(Check *C, AstOp op, const Type *a, const Type *b);       /* of a comparison; in the same way */
bool truth_is_isinstance(const Ast *test);              /* isinstance(a, b), of the builtin */
int truth_of_class(const Type *t, const Type *cls);         /* isinstance(t, cls), in the same way */
void truth_judged(Check *C, Ast *test);                 /* E0311 for a tensor of several elements; after expr(test) */

/* flow.c */
void flow_if(Check *C, AstIf *s);
const Type *flow_conditional(Check *C, AstIfExp *e);        /* a if test else b, where nothing decides the test */
void flow_loop(Check *C, AstFor *f, AstWhile *w);           /* one of them */
bool flow_first_round(const Check *C);                      /* is what is found in the quiet here sure? */
void flow_leave_loop(Check *C);                             /* break, continue */
void flow_try(Check *C, AstTry *t);
void flow_match(Check *C, AstMatch *m);
void flow_with(Check *C, AstWith *w);
void flow_forget_hidden(const Check *C, const Type **at);   /* a container in a variable that is hidden changes */
const Type *flow_hidden(const Check *C, Ast *e);            /* the type of a variable that is hidden here; any: it is none */
bool flow_swallows(const Ast *context);                     /* of a `with` that catches what is raised */

/* staged_ways.c: what a staged tensor decides, E0306 for what then must be of one kind and is not */
struct Way;
void staging_begin(Check *C, CFrame *f);                         /* of a function that is about to be walked */
bool staging_decides(Check *C, const Ast *test);                    /* does a staged tensor decide, surely? after expr(test) */
bool staging_counts(Check *C, const Ast *iter);                   /* range(n), where it says how many rounds there are */
void staging_arms(Check *C, AstIf *s, const struct Way *yes, const struct Way *no);
void staging_choice(Check *C, AstIfExp *e, const Type *a, const Type *b);
void staging_round(Check *C, Ast *test, AstSeq body, const struct Way *round);
void staging_return(Check *C, AstReturn *r, const Type *t);
bool results_differ(const Type *a, const Type *b, const Type **x, const Type **y);     /* surely of two kinds: *x and *y are the parts that are */
void put_result(const Type *t, StrBuf *out);

/* facts.c */
/* What a test tells that is no combination of others, in `out`, where it holds or fails. */
typedef void TestReader(Check *C, Ast *test, bool holds, void *out);
/* Goes through not, and, or to those tests whose outcome follows from that of the whole. */
void test_read(Check *C, Ast *test, bool holds, TestReader *read, void *out);
void facts_read(Check *C, Ast *test, bool holds, Facts *out);   /* what follows of sizes where the test holds, or fails */
void facts_hold(const Fact *at, int n);                         /* until the dim_pop of whoever calls */
void facts_assume(Check *C, const Facts *f);                    /* until facts_drop to what C->facts was before; not in kernels */
void facts_drop(Check *C, int mark);

/* check.c */
const char *decorator_name(const Ast *d);                /* "jit" of @jit, @tessera.jit, @jit(...) */
bool decorator_denies(const Ast *d, const char *option);        /* "init" of @dataclass(init=False) */
bool decorator_says(const Ast *d, const char *option);  /* "frozen" of @dataclass(frozen=True) */
bool decorator_is_transparent(const char *name);        /* calls still take the same arguments */
void block(Check *C, AstSeq body);
void aug_assign(Check *C, AstAugAssign *a);
Fn *fn_make(Check *C, Ast *node);
/* Walk a function's body with these parameter types (by slot; NULL: declared or unknown); the type it returns. */
void fn_check(Check *C, Fn *f);                         /* its body for its own sake, once */
void fn_followed(Check *C, Fn *f);                      /* a call is about to follow it: checked before, or, a lambda, by that */
const Type *fn_walk(Check *C, Fn *f, const Type *const *params, const DimNames *bound, const Type *declared);

/* Is what it returns another thing than what it is declared to return? */
static inline bool fn_is_held_back(const Fn *f)
{
    return f->scope->is_generator || (f->dynamic && !f->scope->is_async);
}

/* ends.c: the body of f, which was walked, reaches its end; never: it has no return */
void ends_judged(Check *C, const Fn *f, const Type *declared, bool never);

/* Functions made of functions: what a call of them means for the inner one. */
typedef enum {
    TRANSFORM_GRAD, TRANSFORM_VALUE_AND_GRAD, TRANSFORM_VMAP, TRANSFORM_SCAN, TRANSFORM_JACOBIAN, TRANSFORM_HESSIAN,
    TRANSFORM_STAGED,                   /* jit: the function, but numbers may come back as tensors */
    TRANSFORM_SAME,                     /* to its callers it is the function: checkpoint */
    TRANSFORM_COND, TRANSFORM_WHILE, TRANSFORM_TREE_MAP,    /* called at once, with functions among the arguments */
    TRANSFORM_PARTIAL,                  /* the function with some arguments given: item[] are names (None: by position) and values in turn */
    TRANSFORM_PIPE,                     /* compose, pipe: item[] are functions in the order that they run in */
    TRANSFORM_VJP, TRANSFORM_JVP,       /* called with the function and its arguments at once */
    TRANSFORM_RECORD,                   /* namedtuple: the class that it makes */
    TRANSFORM_PULLBACK,                 /* what vjp gives: item[] are the function's result and its arguments */
    TRANSFORM_KERNEL,                   /* @kernel: the function, launched over its outputs */
    TRANSFORM_LAUNCH, TRANSFORM_RESCHEDULE      /* k.launch, k.with_schedule: of the kernel, they give it again */
} Transform;

/* calls.c */
const Type *call(Check *C, AstCall *c);
const Type *call_type(Check *C, const Type *f, CallArgs *a, Ast *node);
/* followed.c: a declared tensor, with what is found beyond the declaration. */
const Type *narrowed(const TType *declared, const TType *found);
/* generics.c: the result of def f(x: T, ys: list[T]) -> T for these arguments. NULL: it is declared otherwise, or T is not known. */
const Type *generic_result(Check *C, const Fn *f, const struct Slots *s, Ast *node);
/* Errors about arguments stand on the call's line, at the argument when it is there too. */
Span at_call(const Ast *node, const Ast *arg);

/* binding.c: a fix that says which names there are, up to eight: "it takes a, b" */
void help_names(Diag *d, const char *what, const char *(*next)(void *), void *state);

/* natives.c */
/* Which argument each parameter of a native gets, NULL: none; false: they do not go together, reported. */
bool native_arguments(Check *C, const struct NativeDef *d, bool method, CallArgs *a, Ast *node, const CallArg **out, int max);
const Type *native_declared(const Ast *annotation);      /* as far as it is a simple type */
const Type *native_elements(const char *owner);         /* of going through an object of that native class */

/* hostcalls.c: a builtin whose result depends on its arguments; false: its signature says all. */
const Type *dict_view(const Type *dict, const char *method);     /* of items, keys and values; NULL: another method */
bool host_owner(const char *owner);                             /* whose functions have such rules by their names */
const Type *host_reduce(Check *C, const CallArgs *a, Ast *node);          /* reduce(f, xs, first): NULL: nothing is known */
bool host_call(Check *C, const struct NativeDef *d, const CallArgs *a, Ast *node, const Type **out);

/* stories.c: the last report, of an argument that a function of another file does not take, with a trace through both */
void story_between_files(Check *C, const Fn *f, const AstParam *p, const TType *want, const TType *got, Ast *arg, Ast *node);

/* raises.c: E0916 for a library's raise that a call of the program surely gets to */
void raise_judged(Check *C, AstRaise *r);
/* Does the program's call surely get here, in the library: has no frame in between perhaps returned before, is no branch undecided? */
bool library_surely(const Check *C);
/* The same of the program's own functions (check.c). */
bool followed_surely(const Check *C);

/* hostops.c: what surely fails on values that are no tensors */
void host_operands(Check *C, int op, const Type *a, const Type *b, Ast *node);             /* E0913 */
void host_operand(Check *C, const Type *t, Ast *e, const char *op);                       /* E0906: -"x" */
void host_order(Check *C, int op, const Type *a, const Type *b, Ast *left, Ast *right);    /* E0913: <, >=, in ... */
/* Does the object's class, one of the program's of which all is known, surely have no such method? */
bool object_lacks(const Check *C, const Type *t, const char *name);
void host_iterated(Check *C, const Type *t, Ast *e);                                        /* E0914 */
void host_subscripted(Check *C, const Type *t, const Type *index, Ast *value, Ast *node);  /* E0915 */
void host_key_missing(Check *C, const Type *dict, const Type *key, Ast *node);                     /* E0915: dict[key], whose keys are known */
void host_out_of_range(Check *C, const Type *t, int64_t n, int64_t k, Ast *node);                      /* E0915: t[k], whose elements are known */
void host_key_stored(Check *C, const Type *container, const Type *key, Span span);             /* container[key] = ... */
void host_element_stored(Check *C, const Type *container, const Type *t, Span span);       /* E0906: container[i] = a value of type t */
/* a op b, t[index] by the methods of the program's classes; E0913, E0915 where they have none */
const Type *object_operator(Check *C, int op, const Type *a, const Type *b, Ast *node);
const Type *object_changed(Check *C, int op, const Type *t, const Type *by, Ast *node);     /* t op= by; NULL: as t = t op by */
const Type *object_subscript(Check *C, const Type *t, const Type *index, Ast *node);
void host_stored(Check *C, const Type *t, const Type *index, AstSubscript *place);          /* E0915: t[index] = ... */

/* transforms.c */
/* name(a...): false when it is no transform. */
bool transform_make(Check *C, const char *name, CallArgs *a, Ast *node, const Type **out);
const Type *type_staged(const Type *t);
const Type *transform_call(Check *C, const Type *t, CallArgs *a, Ast *node);       /* t(a...) for a TY_TRANSFORM */

/* sizes.c */
/* `cls`: whose sizes are matched too; NULL: none. */
void sig_match(const Sig *sig, const Cls *cls, const Type *want, const Type *got, Bound *b);
void sig_solve(const Sig *sig, const Type *want, const Type *got, Bound *b);     /* behind sig_match of all arguments: expressions */
const Type *rest_filled(const Type *t, const Bound *b);
void bound_add(Bound *b, Dim from, Dim to);
void sig_bind_rest(const Sig *sig, Bound *b);
/* E0304 for the first named size of `want` that `got` does not have; false: there is none. */
bool sig_report(Check *C, Span span, const char *what, const TType *want, const TType *got, const Bound *b);
bool sig_statics(Check *C, Fn *f, const Bound *b, Ast *node);              /* false: a static size is not known, reported */
void sig_numbers(const Sig *sig, const struct Slots *s, Bound *b);
bool sig_constraints(Check *C, Fn *f, const Bound *b, const struct Slots *s, Ast *node);           /* false: one is violated, reported */

/* classes.c */
Cls *cls_make(Check *C, AstClassDef *def);
const Type *cls_find(const Cls *c, Sym name);           /* method or class variable; NULL: none */
const Type *cls_declared(const Cls *c, Sym name);
void cls_match_field(const Cls *c, const Type *want, const Type *t, Bound *b);       /* the sizes that t tells of a field of type want */
/* A field's declared type, for a tensor stored in it: the first one in the making of an object tells the sizes; those of an
 * object that is not known (i NULL) may be any. */
const Type *cls_field_wants(const Cls *c, Inst *i, const Type *want, const Type *t);
bool cls_has(const Cls *c, Sym name);                   /* any kind of attribute, or open */
void attr_wild(Check *C, Sym attr);                     /* some object's is stored, and nobody knows which */
bool cls_is_open(const Cls *c);
bool cls_derives(const Cls *c, const Cls *base);
/* The declared type t of a field of c that `node` reads, with the sizes of that object: object_sizes.c. */
const Type *object_field(Check *C, const Cls *c, const Type *t, const Ast *node);
bool sizes_of_one_object(Dim a, Dim b);                 /* although unknown, they are two when they are not proved to be one */
const char *cls_name(const void *cls);
const Type *cls_attribute(Check *C, const Cls *c, const Type *self, Sym attr, Ast *node);
void cls_store(Check *C, const Type *self, Sym attr, const Type *t, Ast *target, Ast *value);
const Type *cls_call(Check *C, Cls *c, CallArgs *a, Ast *node);
const Type *cls_super(Check *C, Sym attr, Ast *node);               /* super().attr in the method being walked */
/* What a Module's call runs: its own __call__, or forward. NULL: not known. */
const Type *cls_callee(const Cls *c);

/* dataclasses.c */
const Type *dataclass_call(Check *C, Cls *c, Inst *inst, CallArgs *a, Ast *node);
int cls_fields(const Cls *c, AstParam *out, int max);         /* as parameters: its base's first, each where it was first named */
/* t with the fields that arguments from `from` on name changed; NULL: not known. Of a dataclass or a named tuple. */
const Type *fields_changed(Check *C, const Type *t, const CallArgs *a, int from, Ast *node);
const Type *dataclass_replace(Check *C, const CallArgs *a, Ast *node);
void abstract_judged(Check *C, const Cls *c, Ast *node);            /* E0906 for an object of a class with abstract methods */

/* records.c */
const Type *record_tuple(const Type *t);                            /* the tuple that an object of a NamedTuple is; else t itself */
const Type *record_made(Check *C, const CallArgs *a, Ast *node);    /* the class that namedtuple(a...) makes; any: not known */

/* policies.c */
const char *element_text(uint8_t dtype, const Policy *policy);       /* "bf16 @accum(f32)"; lives until the next call but one */
/* What tensors of dtype=t are stored in: out->dtype, out->policy. false: not known. */
bool element_of_type(Check *C, const Type *t, TType *out);
/* A class with the fields of a policy: E0403 where its accumulator does not go with what is stored, E0906 where a mode has no such name. */
void policy_class_judged(Check *C, const Type *t, AstSeq body);
bool policy_suffix(Check *C, uint8_t dtype, const Policy **policy, Ast *part);     /* the policy with `@part`; false: not known, NULL */
const Type *with_declared_policy(const Type *t, const Type *declared);   /* a tensor that meets a declaration has its policy */
bool policies_differ(const TType *a, const TType *b);    /* surely */
/* E0405 for operands whose policies differ: false. */
bool policies_meet(Check *C, const char *what, const TType *const *in, int n, Ast *node);

/* annotype.c, fits.c */
Sig *fn_sig(Check *C, Fn *f);
const Type *annotation(Check *C, Ast *a);               /* in the frame of C; dims by dims_name */
typedef enum { FITS, FITS_NOT, FITS_MAYBE } Fit;
Fit type_fits(Check *C, const Type *from, const Type *to);
/* Reports why `from` is not what `to` declares; what: "argument 'x' of f()". The code is by kind of mistake. */
Diag *report_dtype(Check *C, Span span, const char *what, const TType *from, const TType *to);
void report_misfit(Check *C, Span span, const char *what, const Type *from, const Type *to);

/* segments.c: fn of these operands when one of them has "..." in its shape; false: none has */
typedef const Type *SegmentFn(Check *C, CallArgs *a, const void *with);
bool segments_infer(Check *C, const CallArgs *a, SegmentFn *fn, const void *with, const Type **out);

/* tensors.c */
const Type *tensor_binary(Check *C, int op, const Type *a, const Type *b, Ast *node);
/* An elementwise op of two operands, numbers too. */
const Type *tensor_op2(Check *C, OpId op, const Type *a, const Type *b, Ast *node);
const Type *tensor_op3(Check *C, OpId op, const Type *a, const Type *b, const Type *c, Ast *node);
const Type *tensor_unary(Check *C, OpId op, const Type *a, Ast *node);
const Type *tensor_attribute(Check *C, const Type *t, Sym attr, Ast *node);
bool tensor_knows(Sym attr);                            /* has every tensor such an attribute? */
const Type *tensor_subscript(Check *C, const Type *t, Ast *index, Ast *node);      /* subscripts.c */
/* What op_infer says; unknown operands give unknown results, and only sure failures are reported. */
const Type *tensor_infer(Check *C, OpId op, const Attr *a, const TType *in, int nin, Ast *node);
void tensor_axis_report(Check *C, const TType *x, int64_t axis, const char *name, Ast *node);     /* E0308: x has no such axis, in name() */
bool tensor_has_rule(Check *C, const char *name);
/* The result of a native that has a tensor rule; false: it has none. */
bool tensor_call(Check *C, const char *owner, const char *name, const Type *self, CallArgs *a, Ast *node, const Type **out);

#endif
