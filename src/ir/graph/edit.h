/*
 * edit.h - changing a graph from outside: what passes of programs are made of (private to whoever edits graphs).
 *
 * Every step leaves a graph that verifies, or leaves it as it was and says why.
 */
#ifndef TSR_IR_GRAPH_EDIT_H
#define TSR_IR_GRAPH_EDIT_H

#include "ir/graph/graph.h"

bool graph_has(const Graph *g, const Node *n);              /* is the node in the graph (still)? */
/* Users of n's results take those of `by`, which stands before all of them, from then on. */
bool graph_replace(Graph *g, Node *n, Node *by, StrBuf *err);
/* Every use of a value of `from` in the nodes behind `after` and in the results becomes the same one of `to`. */
void graph_redirect(Graph *g, const Node *from, Node *to, Node *after);
/* A node of an op before `at`, typed by the op table; attributes as in the text of graphs ("axes=(-1)"). NULL: *err says why. */
Node *graph_insert(Graph *g, Node *at, OpId op, const char *attributes, const GValue *in, int nin, StrBuf *err);
/* A constant in place of a node of one result. */
bool graph_set_constant(Graph *g, Node *n, struct Tensor *value, StrBuf *err);
/*
 * Nodes become one `call` of that name, whose region is what they compute; it stands where the last of them stood, and
 * what lies between and needs them comes behind it.  They may have no ordered effects, and no way may lead out of them and
 * back in.  NULL: *err says why not.
 */
Node *graph_group(Graph *g, Node *const *nodes, int n, Sym name, StrBuf *err);
/*
 * The same as another kind of call, or as a `fused` node.  region: a graph that takes what they take, in the order in which they take it,
 * and gives what they give; NULL: what they compute.
 */
typedef struct GroupAs { OpId op; uint8_t kind; Sym name; } GroupAs;
Node *graph_group_as(Graph *g, Node *const *nodes, int n, GroupAs as, Graph *region, StrBuf *err);
/* What a group of nodes takes from outside, constants apart, each once, in order of use; the caller frees it. */
GValue *graph_group_inputs(Node *const *nodes, int n, int *nin);
bool graph_attr_same(const Attr *a, const Attr *b);         /* constants by value */
/*
 * The nodes of g that compute what the pattern, a graph of one parameter and one result, computes of v, in order: room for
 * as many as g has.  Constants are not among them.  How many there are; 0: g does not compute it.
 */
int graph_match(Graph *g, const Graph *pattern, GValue v, Node **out);
/* Only these stay; true when nothing that stays, and no effect, needed the others. */
bool graph_keep(Graph *g, Node *const *nodes, int n, StrBuf *err);
/* Are there constants, language objects or others that the text of a graph does not hold? */
bool graph_text_is_whole(const Graph *g);

#endif
