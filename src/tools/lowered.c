/*
 * A graph level by level: fused, each fused body as a kernel for operands that
 * lie row by row, and that kernel as assembly.
 */
#include "tools/lowered.h"

#include "ir/schedule/schedule.h"

#include <string.h>

bool (*lowered_assemble)(const TileKernel *k, StrBuf *out, StrBuf *err);

static bool print_kernel(const Node *n, bool target, StrBuf *out, StrBuf *err)
{
    Graph *body = n->attr->region[0];
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
    if (target)
        ok = lowered_assemble ? lowered_assemble(k, out, err) : (sb_puts(err, "this Tessera is built without a compiler"), false);
    else
        tile_print(k, out);
    sb_putc(out, '\n');
    tile_kernel_free(k);
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

bool lowered_print(Graph *g, const char *level, StrBuf *out, StrBuf *err)
{
    Graph *fused = strcmp(level, "graph") ? schedule_fuse(g) : NULL;
    const Graph *shown = fused ? fused : g;
    bool ok = true;

    if (!strcmp(level, "graph") || !strcmp(level, "schedule"))
        graph_print_placed(shown, out);
    else
        ok = print_kernels(shown, !strcmp(level, "target"), out, err);
    graph_unref(fused);
    return ok;
}
