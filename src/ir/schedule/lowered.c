/*
 * A graph level by level: fused, each fused body as a kernel for operands that
 * lie row by row, and that kernel as assembly.
 */
#include "ir/schedule/lowered.h"

#include "ir/schedule/far.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/steps.h"

#include <string.h>

const char *const level_name[LEVEL_COUNT] = {"graph", "schedule", "tile", "target"};

bool lowered_for_gpu;
bool (*lowered_assemble)(const TileKernel *k, StrBuf *out, StrBuf *err);

/* A kernel that the machine has no code for is a comment that says why; what runs it instead is not shown. */
static void print_assembly(const TileKernel *k, StrBuf *out)
{
    StrBuf code = {0}, why = {0};

    if (lowered_assemble(k, &code, &why))
        sb_write(out, sb_str(&code), code.n);
    else
        sb_printf(out, "%s kernel %s has no code there: %s\n", lowered_for_gpu ? "//" : "#", k->name->text, sb_str(&why));
    sb_done(&code);
    sb_done(&why);
}

bool lowered_print_kernel(const TileKernel *k, IrLevel level, StrBuf *out, StrBuf *err)
{
    if (level == LEVEL_TILE)
        tile_print_placed(k, out);
    else if (lowered_assemble)
        print_assembly(k, out);
    else
        sb_puts(err, "this Tessera is built without a compiler");
    return level == LEVEL_TILE || lowered_assemble;
}

static void fit_gpu(const Region *r, Schedule *s)
{
    int64_t n1 = 1;

    s->lean = true;
    for (int a = r->nkept; a < r->naxes; a++)
        n1 *= schedule_guess(r->size[a]);
    schedule_whole(n1, 1, s);
}

static bool print_body(Graph *body, const Node *n, bool target, StrBuf *out, StrBuf *err)
{
    StrideClass stride[REGION_OPERANDS];
    Schedule s;
    Region r;
    TileKernel *k;
    bool ok = true;

    if (!region_of_body(body, &r)) {
        sb_puts(err, "the body of a fused node is no region");
        return false;
    }
    if (!n->attr->name || !schedule_read(n->attr->name->text, &s, err))
        return false;
    if (lowered_for_gpu)
        fit_gpu(&r, &s);
    schedule_row_major(body, &r, stride);
    if (!(k = schedule_lower(body, &r, &s, stride, NULL, err)))
        return false;
    tile_fold(k);
    ok = lowered_print_kernel(k, target ? LEVEL_TARGET : LEVEL_TILE, out, err);
    sb_putc(out, '\n');
    tile_kernel_free(k);
    return ok;
}

/* What a run does, in order, as comments: ops that are no kernels, and kernels by their number in the text. */
typedef struct Steps { StrBuf text; int kernels; } Steps;

/* Constants and views are how operands lie, not steps. */
static bool is_step(const Node *n)
{
    return n->op != GRAPH_PARAM && n->op != OP_fused && n->op != OP_constant && n->op != OP_full && !(op_info[n->op].flags & OPF_VIEW);
}

/* One line of what a run does: the op, how it computes, the blocks that it stands in, its line. */
static void print_step(const Node *n, StrBuf *out)
{
    StrBuf attr = {0};
    Place at = n->span.hi ? source_place(n->span.lo) : (Place){0};

    attr_print((OpId)n->op, n->attr, &attr);
    sb_printf(out, "#   %s%s%s%s", op_info[n->op].name, attr.n ? " {" : "", sb_str(&attr), attr.n ? "}" : "");
    if (n->scope)
        sb_printf(out, " in %s", n->scope->text);
    if (at.src)
        sb_printf(out, "  # %s:%u", at.src->path, at.line);
    sb_putc(out, '\n');
    sb_done(&attr);
}

/* Of a body with a matrix product: the kernel of what follows it. */
static bool print_kernel(const Node *n, bool target, Steps *steps, StrBuf *out, StrBuf *err)
{
    const Node *product;
    Graph *body = schedule_epilogue(n->attr->region[0], &product);
    bool ok;

    if (product)
        print_step(product, &steps->text);
    sb_printf(&steps->text, "#   kernel %d%s%s\n", ++steps->kernels, n->scope ? " in " : "", n->scope ? n->scope->text : "");
    ok = print_body(body, n, target, out, err);

    graph_unref(body);
    return ok;
}

/* What a GPU does for it. */
static bool print_prefetch(bool target, Steps *steps, StrBuf *out, StrBuf *err)
{
    TileKernel *k = far_prefetch_kernel();
    bool ok = lowered_print_kernel(k, target ? LEVEL_TARGET : LEVEL_TILE, out, err);

    sb_printf(&steps->text, "#   kernel %d\n", ++steps->kernels);
    tile_kernel_free(k);
    return ok;
}

/* Kernels and ops of a graph, in order; those of a node that holds several steps are its. */
static bool print_kernels(const Graph *g, bool target, Steps *steps, StrBuf *out, StrBuf *err)
{
    for (const Node *n = g->first; n; n = n->next) {
        if (is_step(n))
            print_step(n, &steps->text);
        if (n->op == OP_prefetch && lowered_for_gpu && !print_prefetch(target, steps, out, err))
            return false;
        if (n->op == OP_fused && steps_kind(n->attr))
            sb_printf(&steps->text, "#   %s, one launch:\n", n->attr->name->text);
        else if (n->op == OP_fused) {
            if (!print_kernel(n, target, steps, out, err))
                return false;
            continue;
        }
        for (int k = 0; n->op != GRAPH_PARAM && k < 4; k++)
            if (n->attr->region[k] && !print_kernels(n->attr->region[k], target, steps, out, err))
                return false;
    }
    return true;
}

bool level_find(const char *name, IrLevel *out)
{
    for (int i = 0; i < LEVEL_COUNT; i++)
        if (!strcmp(name, level_name[i])) {
            *out = (IrLevel)i;
            return true;
        }
    return false;
}

/* Is it a schedule already? */
static bool has_kernels(const Graph *g)
{
    for (const Node *n = g->first; n; n = n->next) {
        if (n->op == OP_fused)
            return true;
        for (int k = 0; n->op != GRAPH_PARAM && k < 4; k++)
            if (n->attr->region[k] && has_kernels(n->attr->region[k]))
                return true;
    }
    return false;
}

bool lowered_print(Graph *g, IrLevel level, StrBuf *out, StrBuf *err)
{
    Graph *fused = level != LEVEL_GRAPH && !has_kernels(g) ? schedule_make(g) : NULL;
    const Graph *shown = fused ? fused : g;
    bool ok = true;

    if (level <= LEVEL_SCHEDULE)
        graph_print_placed(shown, level_name[level], out);
    else {
        Steps steps = {0};
        ok = print_kernels(shown, level == LEVEL_TARGET, &steps, out, err);
        if (ok && level == LEVEL_TILE && steps.text.n)
            sb_printf(out, "# steps of %s:\n%s", g->name ? g->name->text : "it", sb_str(&steps.text));
        sb_done(&steps.text);
    }
    graph_unref(fused);
    return ok;
}
