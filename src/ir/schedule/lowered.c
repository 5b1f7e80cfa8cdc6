/*
 * A graph level by level: fused, each fused body as a kernel for operands that
 * lie row by row, and that kernel as assembly.
 */
#include "ir/schedule/lowered.h"

#include "ir/schedule/schedule.h"

#include <string.h>

const char *const level_name[LEVEL_COUNT] = {"graph", "schedule", "tile", "target"};

bool (*lowered_assemble)(const TileKernel *k, StrBuf *out, StrBuf *err);

bool lowered_print_kernel(const TileKernel *k, IrLevel level, StrBuf *out, StrBuf *err)
{
    if (level == LEVEL_TILE)
        tile_print_placed(k, out);
    else if (lowered_assemble)
        return lowered_assemble(k, out, err);
    else
        sb_puts(err, "this Tessera is built without a compiler");
    return level == LEVEL_TILE;
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
    schedule_row_major(body, &r, stride);
    if (!(k = schedule_lower(body, &r, &s, stride, err)))
        return false;
    tile_fold(k);
    ok = lowered_print_kernel(k, target ? LEVEL_TARGET : LEVEL_TILE, out, err);
    sb_putc(out, '\n');
    tile_kernel_free(k);
    return ok;
}

/* Of a body with a matrix product: the kernel of what follows it. */
static bool print_kernel(const Node *n, bool target, StrBuf *out, StrBuf *err)
{
    const Node *product;
    Graph *body = schedule_epilogue(n->attr->region[0], &product);
    bool ok = print_body(body, n, target, out, err);

    graph_unref(body);
    return ok;
}

static bool print_kernels(const Graph *g, bool target, StrBuf *out, StrBuf *err)
{
    for (const Node *n = g->first; n; n = n->next) {
        if (n->op == OP_fused) {
            if (!print_kernel(n, target, out, err))
                return false;
            continue;
        }
        for (int k = 0; n->op != GRAPH_PARAM && k < 4; k++)
            if (n->attr->region[k] && !print_kernels(n->attr->region[k], target, out, err))
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
    else
        ok = print_kernels(shown, level == LEVEL_TARGET, out, err);
    graph_unref(fused);
    return ok;
}
