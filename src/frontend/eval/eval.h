/*
 * eval.h - the evaluator's own declarations, shared by the files of this folder.
 *
 * Reading order: heap.c and value.c make objects, dict.c is the hash table,
 * lower_*.c turn syntax into nodes, run_*.c are the nodes' functions, call.c
 * binds arguments, class.c and attr.c find attributes, ops.c compares and
 * calculates, gen.c switches stacks, except.c raises and renders, import.c
 * finds modules, interp.c starts and ends it all.
 */
#ifndef TSR_FRONTEND_EVAL_H
#define TSR_FRONTEND_EVAL_H

#include "frontend/eval/code.h"
#include "frontend/eval/fiber.h"
#include "frontend/eval/reads.h"
#include "frontend/eval/symint.h"
#include "frontend/lib/lib.h"
#include "frontend/tensor/tensor_ops.h"
#include "ir/graph/trace.h"

enum { DEPTH_LIMIT = 10000, GEN_DEPTH = 5 };

enum { REGIONS_MAX = 16 };

/* A variable set in one arm of a staged branch only. */
typedef struct HalfSet { const Code *code; uint32_t slot; Span branch, at; } HalfSet;

/* Natives whose calls on large tensors are graphs (tensor/whole.h): what is staged (NULL: nothing), and elements that body calls went over. */
typedef enum WholeId { WHOLE_VAR, WHOLE_STD, WHOLE_CLIP, WHOLE_COUNT } WholeId;
typedef struct WholeNative { Obj *staged; int64_t worked; } WholeNative;

struct Interp {
    Frame *frame;               /* innermost */
    char *stack_limit;          /* calls below this address take the slow path */
    int depth, depth_limit;
    Value exc;                  /* pending, V_ERR: none */
    Value redirect[3];          /* where what is written to standard output (1) and error (2) goes instead; V_ERR: nowhere else */
    Value handling;             /* caught and being handled: __context__ of new ones, bare raise */
    bool reraised;              /* exc left a handler by bare raise: its frame is already in the traceback */
    Fiber *fiber;               /* running now */
    uint64_t class_version;     /* any change of any class: attribute caches compare it */
    ClassObj *object_class, *type_class;
    ClassObj *tag_class[V_COUNT];
    ClassObj *exc_class[EXC_COUNT];
    Value *prelude;             /* by row, V_ERR until used */
    DictObj *modules;           /* by dotted name */
    Map native_class;           /* Sym -> ClassObj */
    Value no_arguments, no_keywords;        /* the empty tuple and dict that natives with stars get, V_ERR until used */
    struct { const NativeType *type; ClassObj *cls; } object_class_at[64];   /* classes of native objects, by the type's address */
    ModuleObj *main;
    struct TaskLoop *tasks;     /* event loop: tasks.c; NULL until one is used */
    struct Ranks *ranks;        /* the innermost SPMD function under way: ranks.c; NULL: none */
    Trace trace;
    Value graph_passes;         /* the program's passes over graphs: called with each that is staged. V_ERR: none */
    WholeNative whole[WHOLE_COUNT];
    Value last_graph;           /* of the function that was staged last, a GraphIR. V_ERR: none was */
    struct Watch *watch;        /* what the run counts about itself: tensor/watch.c; NULL: nothing */
    struct Ranges *ranges;      /* who is told when functions begin and end: tensor/ranges.h; NULL: nobody */
    const Obj *raised;          /* the exception of the last raise statement; only compared */
    ListObj *kept;              /* exceptions that graphs may raise */
    Vec(HalfSet) half;
    struct ReadLog *reads;      /* who notes reads of globals and cells while staging; NULL: nobody */
    const Code *region_code;    /* whose regions wait to be stored by the call that ran it; NULL: none */
    Value region[REGIONS_MAX];
    int nregions;
    unsigned suspended;         /* SUSPEND_ bits */
    ListObj *named;             /* texts: calls of functions of these names are blocks that graphs remember; NULL: none */
    int named_calls;            /* so far: each gets a number */
    Value active;               /* within the right side of a staged `and`: a bool tensor, does it count? V_ERR: it does */
    int arms;                   /* arms and loop bodies that are being staged: a tensor decides whether they count */
    InterpOptions opt;
    Vec(Unit *) units;          /* that ran here */
    Vec(Unit *) loaded;         /* those of imported files: its own */
    Vec(Scope *) scopes;        /* theirs */
    Vec(Value) constants;       /* of code */
    Arena library;              /* code of library modules, whose trees others use too */
    int tape_seen;              /* units that tape.c searched for .backward */
    bool tape_used;             /* one has it */
    Sym dunder_sym[D_COUNT];
    Sym s_name, s_dict, s_class, s_doc, s_args, s_value, s_match_args, s_file, s_annotations, s_bound_to;
};

/* Values as they are, without counting; n may be 0 with no arrays at all. */
static inline void copy_values(Value *to, const Value *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* An iterator over a builtin container. */
typedef struct IterObj { Obj obj; Value seq; int64_t at; uint32_t version; } IterObj;

/* ------------------------------------------------------------- heap.c */

enum { GC_TRACKED = 1, GC_BIG = 2 };            /* bits of Obj.gc: the collector knows it; not from a page */
void *obj_new(Tag kind, size_t size);           /* zeroed after the header, count 1 */
void *obj_new_text(Tag kind, size_t size, size_t head);         /* only the first head bytes are zeroed: text follows */
void obj_delete(Obj *o, size_t size);           /* gives back the memory of a destroyed object */
Obj *obj_resize(Obj *o, size_t size);           /* a large string, held once: moved to this size; NULL: not such a one */
bool heap_wants_collect(void);
extern int heap_full;                           /* the collector wants to run */
size_t heap_collect(void);                      /* free cyclic garbage; how many objects */
/* Functions of this Interp that something still holds (a suspended generator, a leak) forget their code, which is about
 * to be freed; how many. */
int heap_abandon(const Interp *I);
int64_t heap_tracked(void);                     /* objects that the collector knows */
void func_empty(FuncObj *f);                    /* value.c: its cells and defaults hold nothing any more */
void func_abandon(FuncObj *f);
void heap_trim(void);                           /* pages without objects go back; at the end of an Interp */
/* Each Value or counted pointer that o owns; objects only reachable through fn are found by the collector. */
typedef void (*VisitFn)(Value *v, void *st);
void obj_visit(Obj *o, VisitFn fn, void *st);   /* value.c */
void obj_clear(Obj *o);                         /* drop what could close a cycle */

/* The string in *slot grows by t where it stands; false: it is small, shared or a symbol, and a new one has to be made. */
bool str_append(Value *slot, const StrObj *t);          /* value.c */

/* ------------------------------------------------------------- entry.c */

bool declared_enter(Frame *f);                  /* parameters get the policies of their types; false: an exception is pending */
bool entry_tests(Frame *f);                     /* false: a condition of the signature does not hold, ShapeError */
bool signature_holds(Frame *f);                  /* tensors are what the signature says; false: ShapeError or TypeError is pending */
void regions_drop(Interp *I);                    /* nobody stores what was left */
void regions_leave(Frame *f);                   /* at the end of a function with regions */
/*
 * After a call: store what the callee left in its regions. with_self: its first parameter is no argument. start: the position
 * that each argument begins at, and the one after all of them; NULL: there are no stars, and each is at its own place.
 */
bool regions_back(const Step *call, const int *start, Frame *f, Value callee, bool with_self);

/* ------------------------------------------------------------- dict.c */

DictEntry *dict_find_str(DictObj *d, StrObj *key);      /* NULL absent; keys that are strings only */
DictEntry *dict_find_sym(DictObj *d, Sym key);
bool dict_del_sym(DictObj *d, Sym key);
uint32_t str_hash(StrObj *s);
bool str_eq(const StrObj *a, const StrObj *b);
Sym str_to_sym(StrObj *s);
static inline StrObj *sym_obj(Sym s) { return s->value ? s->value : (StrObj *)str_sym(s).o; }   /* borrowed */

/* ------------------------------------------------------------- ops.c, item.c, iter.c */

Value binary_slow(Interp *I, int op, Value a, Value b);
Value inplace_op(Interp *I, int op, Value a, Value b);          /* a op= b: tries __iadd__ and friends */
Value compare_op(Interp *I, int op, Value a, Value b);
Value int_binary(Interp *I, int op, int64_t a, int64_t b);
Value float_binary(Interp *I, int op, double a, double b);
bool value_delitem(Interp *I, Value v, Value key);
int value_truth_slow(Interp *I, Value v);
static inline int truth(Interp *I, Value v)
{
    return v.tag == V_BOOL || v.tag == V_INT ? v.i != 0 : value_truth_slow(I, v);
}
/* Fill out[n] from an iterable exactly; star >= 0: out[star] becomes the list of the rest. */
bool unpack(Interp *I, Value v, Value *out, int n, int star);

/* ------------------------------------------------------------- class.c, attr.c */

ClassObj *class_of(Interp *I, Value v);
/* What a class answers itself: __class_iter__ and such, called with the class first. V_ERR without pending: none. */
Value class_hook(Interp *I, Value cls, const char *name, const Value *args, int nargs);
bool class_allows(Interp *I, const ClassObj *c, Sym name);      /* may instances have this attribute (__slots__)? */
void class_write_name(const ClassObj *c, StrBuf *out);          /* module and qualified name, as in <class '__main__.A'> */
Value class_find(ClassObj *c, Sym name, ClassObj **holder);     /* borrowed; V_ERR absent */
bool class_derives(const ClassObj *c, const ClassObj *base);
void class_touch(Interp *I, ClassObj *c, Sym name, Value v);    /* after its namespace changed */
void class_unlink(ClassObj *c);
Value class_call(Interp *I, ClassObj *c, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw);
Value instance_new(ClassObj *c);
bool is_exc_class(Interp *I, const ClassObj *c);
Value bind_attr(Interp *I, Value attr, Value self, ClassObj *cls);      /* functions and descriptors found in a class */
Value attr_load(Interp *I, Value v, AttrCache *c);
Value attr_plain(Interp *I, Value v, AttrCache *c);                     /* without __getattribute__; V_ERR without pending: none */
bool attr_store(Interp *I, Value v, AttrCache *c, Value x);             /* steals x */
bool attr_store_plain(Interp *I, Value v, AttrCache *c, Value x);       /* without __setattr__ */
extern const NativeDef object_methods[], property_parts[];
enum { PROPERTY_CACHED = 1 };   /* PropertyObj.obj.flags: what it computed stays in the instance */
enum { NATIVE_METHOD = 1, NATIVE_UNWRAP = 2 };  /* NativeObj.obj.flags: found in a class it binds; self is the builtin inside */
bool value_delattr(Interp *I, Value v, Sym name);
bool attr_delete_plain(Interp *I, Value v, Sym name);                   /* of an instance, without __delattr__ */
/* The function to call for v.name(...): *with_self is set when v goes in front of the arguments. New reference. */
Value attr_method(Interp *I, Value v, AttrCache *c, bool *with_self);
Value class_inspect(Interp *I, ClassObj *c, Sym name);           /* __name__, __mro__, mro and such; V_ERR: something else */
Value func_inspect(Interp *I, FuncObj *f, Sym name);             /* __code__, __annotations__; V_ERR: something else */
Value operator_method(const ClassObj *c, Sym name);              /* __len__ and such of builtin kinds; V_ERR: none */
Value operator_of_iterator(Sym name);                   /* the same of native iterators, such as those of itertools */
Value raise_no_attr(Interp *I, Value v, Sym name);
Value raise_no_global(Interp *I, Sym name);

/* ------------------------------------------------------------- call.c */

/* Run fn on a window of code->nslots slots that it owns: arguments bound, the rest V_ERR. */
Value func_enter(Interp *I, FuncObj *fn, Value *slot);
Value func_call(Interp *I, FuncObj *fn, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw);
Value native_call(Interp *I, NativeObj *nf, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw);
Value native_value(Interp *I, const NativeDef *d);               /* what a row stands for: function, class or constant */
Value native_new(const NativeDef *def, Value self);             /* refs self */
Value func_new(Interp *I, const Code *c, Frame *f);
void slots_drop(Value *slot, int n);

/* ------------------------------------------------------------- interp.c */

/* Run entry(arg) to its end on a new, large stack; false: there is none to be had. */
bool run_on_large_stack(Interp *I, void (*entry)(void *arg), void *arg);

/* ------------------------------------------------------------- gen.c, async.c; tasks.h has what they wait for */

Value gen_new(Interp *I, FuncObj *fn, Value *slot);             /* steals the slots */
/* Run to the next yield. how: 0 send v, 1 throw v. V_ERR without pending: it returned, g->out has the value. */
Value gen_resume(Interp *I, GenObj *g, Value v, int how);
Value gen_yield(Frame *f, Value v);                             /* steals v; what was sent in */
Value gen_delegate(Frame *f, Value it, const Step *at);         /* yield from: steals it */
Value gen_await(Frame *f, Value v);                             /* steals v */
/* A loop that alone holds a fresh generator runs it on its own stack, as a function that calls back with each value:
 * nobody else can see the difference, and nothing switches stacks.  May v be driven so? */
bool gen_drivable(Interp *I, Value v);
bool gen_drive(Interp *I, Value v, GiveFn give, void *taker);   /* to its end; false: stopped or pending */
void gen_free(GenObj *g);
Value anext_value(Interp *I, Frame *f, Value ait);              /* V_ERR without pending: exhausted */

/* ------------------------------------------------------------- except.c */

void exc_init(Interp *I);
ExcKind errno_class(int err);                                   /* OSError's fitting subclass */
void traceback_add(Interp *I, const Frame *f);
Value exc_attr(Interp *I, InstanceObj *e, Sym name);            /* __traceback__ and friends; V_ERR: none */
Value exc_catch(Interp *I, Frame *f);                           /* takes the pending exception, its frame recorded */
Value exc_str(Interp *I, InstanceObj *e);
void exc_set_cause(Interp *I, Value cause);                     /* of the pending exception */
int exc_fits(Interp *I, Value exc, Value type);                 /* does `except type` catch exc? 1, 0, -1 pending */

/* ------------------------------------------------------------- run_*.c helpers used by several */

Value run_code(Interp *I, Frame *f);                            /* body or expr of f->code in f */
Exit run_block(const Step *n, Frame *f);
bool store_to(const Step *target, Frame *f, Value v);

/* ------------------------------------------------------------- staged.c, leave.c, staged_loop.c */

bool staged_truth(Value v);                                     /* control flow on v must be recorded */
Value staged_not(Interp *I, Value v);
Value staged_bool(Interp *I, Value v);                          /* as a bool tensor */
Value staged_logic(Interp *I, int is_or, Value a, Value b);
Exit staged_if(const Step *n, Frame *f, Value test);
void staged_add_rest(Frame *f, const Step *block, int from);    /* a block left by X_STAGED: what remains of it */
Exit staged_return(Frame *f);                                   /* at the function's end: run both arms */
Exit staged_watch(const Step *n, Frame *f, bool *staged);        /* a round of a while loop that may turn out staged */
Exit staged_refuse(Frame *f, const char *where);
Value staged_no_yield(Interp *I);                               /* a yield that a tensor decides: E0541 */
void staged_forget(Frame *f);                                   /* drop what is pending: it will be staged otherwise */
Exit staged_while(const Step *n, Frame *f, Value test);
/* The rest of an `and` (`or`: is_or) whose staged left side is `left`, joined with it: a truth, as a tensor. */
Value staged_right(const Step *rest, Frame *f, int is_or, Value left);
Value staged_ifexp(const Step *n, Frame *f, Value test);
/* A variable of this code that only one arm of the branch, or only a loop's body, sets: reading it unset says so. */
void interp_half_set(Interp *I, const Code *c, uint32_t slot, Span branch, Span at);
bool interp_half_find(const Interp *I, const Code *c, uint32_t slot, Span *branch, Span *at);

/* ------------------------------------------------------------- import.c */

Value import_dotted(Interp *I, Sym name, int level, const ModuleObj *from);     /* the last module named */
Value import_top(Interp *I, Sym name, const ModuleObj *from);                   /* import a.b: a, with b loaded */
Value module_attr(Interp *I, ModuleObj *m, Sym name);           /* V_ERR without pending: no such */
ModuleObj *module_new(Interp *I, Sym name, const char *path);
bool module_run(Interp *I, ModuleObj *m, Unit *u);              /* run a resolved unit as m */
Value module_eval(Interp *I, ModuleObj *m, Unit *u, const Ast *e);

#endif
