/*
 * graph.h - the Graph IR: pure SSA over tensors, with regions and symbolic sizes.
 *
 * A Graph is one region: parameters, nodes in order, results.  Nodes live in
 * the graph's arena and die with it; regions of control flow are Graphs of
 * their own, counted.  A value is (node, result index).  Ops of one ordered
 * effect (io, state, collective, raise) run in node order, which passes keep: each has a token, and tokens grow along
 * the list.  Pure nodes are hash-consed at construction, so common subexpressions never appear twice.
 */
#ifndef TSR_IR_GRAPH_H
#define TSR_IR_GRAPH_H

#include "base/arena.h"
#include "base/map.h"
#include "base/source.h"
#include "base/vec.h"
#include "ir/core/dim_ask.h"
#include "ir/core/op.h"
#include "ir/core/pass.h"

typedef struct Graph Graph;
typedef struct Node Node;

typedef struct GValue { Node *node; int index; } GValue;

enum { CALL_PLAIN, CALL_CHECKPOINT, CALL_KERNEL };       /* Attr.kind of a call */
enum { GRAPH_PARAM = OP_COUNT };        /* Node.op of a parameter */
enum { NODE_SYMBOLIC = 1, NODE_BINDS = 2 };     /* Node.flags: attributes hold symbolic sizes; results have sizes of their own */

struct Node {
    uint16_t op;                /* OpId, or OP_COUNT for a parameter */
    uint16_t nin, nout;
    uint16_t flags;
    uint32_t id;                /* dense within the graph */
    uint32_t nuse;
    uint32_t token;             /* place among the graph's ops with ordered effects, from 1; 0: it has none */
    uint32_t again;             /* a recomputation: merged only with nodes of the same number. 0: an original */
    Span span;                  /* where in the source this came from */
    Sym scope;                  /* the with blocks around, "device=gpu:0 mesh_axis=data", outermost first; NULL: none */
    const Attr *attr;
    TType *type;                /* nout of them */
    GValue *in;
    Node *prev, *next;
};

struct Graph {
    uint32_t refs;
    Arena arena;
    Sym name;
    Node *first, *last;
    uint32_t nnodes, tokens;
    Sym scope;                  /* of the nodes that are appended now */
    Vec(Node *) params;
    Vec(GValue) results;
    Map cse;                    /* hash -> Node *, of pure nodes */
    DimConds conds;             /* what the sizes of a call must meet: the graph serves no other */
    struct SizePlan *sizes;     /* how a call finds its sizes (sizes.h); NULL until the first */
    struct FusedCode *code;          /* of the body of a `fused` node: what it was compiled to; NULL until its first run */
};

extern void (*graph_code_free)(struct FusedCode *code);      /* set by whoever compiles; called when the graph dies */

/* Graphs are counted: what returns a Graph * gives a reference, unless it says so otherwise. Attributes and types that are passed are copied. */
Graph *graph_new(Sym name);
Graph *graph_ref(Graph *g);                                 /* g once more; NULL is none */
void graph_unref(Graph *g);                                 /* the last one frees the nodes, and drops their regions and constants */
GValue graph_param(Graph *g, const TType *t);               /* one more parameter, behind the others */
/*
 * Append an op.  NULL: types do not fit, *err and *code say why, as op_infer (ir/core/op.h) does.  A pure node may be an equal one that
 * the graph has already.  a: NULL for what needs none.
 */
Node *graph_add(Graph *g, OpId op, const Attr *a, const GValue *in, int nin, Span span, StrBuf *err, int *code);
void graph_result(Graph *g, GValue v);                      /* one more result, behind the others: a use of v */
static inline const TType *gvalue_type(GValue v) { return &v.node->type[v.index]; }
/* The place in order of each node, by id, and how many there are; at: NULL, or for the nodes by place. Both are the caller's to free. */
int *graph_places(const Graph *g, Node ***at, int *n);
bool graph_gives(const Graph *g, const Node *n);          /* is a value of the node's a result? */
bool graph_has_op(const Graph *g, OpId op);                /* regions included */
bool graph_has_effect(const Graph *g, unsigned flags);     /* is there a node with one of these OPF_ flags, regions included? */
unsigned node_effects(const Node *n);                       /* what it does besides giving results (op_effects), regions included */
unsigned graph_effects(const Graph *g);                     /* what its nodes do */
/* Append a node of an op without looking for an equal one and without typing it (passes and clones; types are copied). */
Node *graph_append(Graph *g, OpId op, const Attr *a, const GValue *in, int nin, const TType *type, int nout, Span span);
/* The same in front of `at`, from its line and within its blocks. */
Node *graph_before(Graph *g, Node *at, OpId op, const Attr *a, const GValue *in, int nin, const TType *type, int nout);
static inline GValue graph_value_before(Graph *g, Node *at, OpId op, const Attr *a, const GValue *in, int nin, const TType *type)
{
    return (GValue){graph_before(g, at, op, a, in, nin, type, 1), 0};
}
Node *graph_copy_before(Graph *g, const Node *n, Node *at);  /* n once more, of the same operands, there */
void graph_set_attr(Graph *g, Node *n, const Attr *a);      /* the node's attributes become a copy of these */
void graph_use(GValue *at, GValue v);                       /* an operand or a result of a graph becomes another value */
void graph_unlink(Graph *g, Node *n);                       /* an unused node leaves the graph */
int graph_max_results(OpId op, const Attr *a);              /* room that op_infer and op_apply need for results */
void graph_move_before(Graph *g, Node *n, Node *before);    /* in the order of nodes; the caller sees to operands and tokens */
Node *graph_find_or_file(Graph *g, Node *n);                /* an equal pure node filed before, else NULL and n is filed */
bool ttype_fits(const TType *have, const TType *want);      /* same dtype, rank, and sizes that may be equal */
/* The same for a written result type; the size of nonzero's result is a new unknown each time it is typed. */
bool result_fits(OpId op, const TType *written, const TType *inferred);
void graph_init(void);                                      /* registers typing of regions with ir/core; idempotent */

/* Do these operands, one for each parameter, have the sizes that the graph serves? (Their dtypes are not looked at.) */
bool graph_takes(Graph *g, struct Tensor *const *in);
void graph_print_conds(const Graph *g, StrBuf *out);        /* " where S >= 1, T == 2*S"; nothing without conditions */

/* Text: graph_print and graph_parse are inverses.  NULL, and false of graph_verify: *err says what is wrong first. */
void graph_print(const Graph *g, StrBuf *out);
/* And behind each node, as a comment, the line of the program it is from.  level: "graph", or "schedule" of a graph with `fused` nodes. */
void graph_print_placed(const Graph *g, const char *level, StrBuf *out);
Graph *graph_parse(const char *text, size_t len, StrBuf *err);
bool graph_verify(const Graph *g, StrBuf *err);

/* Passes, as pass.def says what each is for: true when something changed.  Graphs are valid before and after. */
typedef bool (*GraphPass)(Graph *g);
bool graph_fold(Graph *g);
bool graph_cse(Graph *g);
bool graph_dce(Graph *g);
bool graph_algebra(Graph *g);
bool graph_join_pieces(Graph *g);
bool graph_picks(Graph *g);
bool graph_bucket(Graph *g);
typedef enum { PASS_STAGED, PASS_ASKED } PassWhen;
typedef struct PassInfo { const char *name, *help; GraphPass run; PassWhen when; } PassInfo;
extern const PassInfo graph_pass[];                         /* in the order of pass.def; the last has no name */
bool graph_pass_run(const PassInfo *p, Graph *g);          /* unless it is switched off; verified and shown as asked for */
extern const PassIr graph_ir;                               /* for pass_done */
const PassInfo *graph_pass_find(const char *name);          /* NULL: there is none */
void graph_optimise(Graph *g);                              /* all that staging runs */
Graph *graph_clone(const Graph *g);                         /* nodes of its own; regions and constants are shared */
/* A copy with every size d, in regions too, replaced by size(st, d). */
Graph *graph_resize(const Graph *g, Dim (*size)(void *st, Dim d), void *st);

#endif
