/*
 * Kernels of the Tile IR as text.
 *
 *     tessera.tile v1 hash=8f0e2c6a51d3b974
 *     kernel @double(%x: view f32[1], %y: view f32[1]) sizes(N) grid((N+255)//256) {
 *       %0: index = group {axis=0}
 *       %1: index = index {i=256}
 *       %2: index = imul %0, %1
 *       %3: f32[256] = load %x[%2] {shape=(256)}
 *       %4: f32[256] = map add %3, %3
 *       store %y[%2], %4
 *     }
 *
 * Parameters of the kernel have names, other values numbers in the order in
 * which they are met; results of an op with blocks come before what is in them.
 * A place in a view stands in brackets behind it.  Of an op's attributes those
 * print that differ from nothing, and those that always say something.
 */
#include "ir/tile/tile_impl.h"

#include "base/hash.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Printer {
    const TileKernel *k;
    const uint32_t *number;     /* by node id */
    StrBuf *out;
    bool places;                /* say where nodes come from */
} Printer;

/* ---- numbers ---- */

static void number_block(const TileBlock *b, uint32_t *number, uint32_t *next)
{
    if (b->owner)
        for (int i = 0; i < b->params.n; i++)
            number[b->params.at[i]->id] = (*next)++;
    for (const TileNode *n = b->first; n; n = n->next) {
        number[n->id] = *next;
        *next += n->nout;
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                number_block(n->region[r], number, next);
    }
}

uint32_t *tile_numbers(const TileKernel *k, uint32_t *count)
{
    uint32_t *number = tsr_calloc(sizeof *number * (k->nnodes + 1));

    *count = 0;
    number_block(&k->body, number, count);
    return number;
}

/* ---- parts of a line ---- */

static void print_value(Printer *p, TileRef v)
{
    for (int i = 0; v.node->op == TILE_PARAM && i < p->k->params.n; i++)
        if (p->k->params.at[i] == v.node) {
            sb_printf(p->out, "%%%s", p->k->param_name.at[i]->text);
            return;
        }
    sb_printf(p->out, "%%%u", p->number[v.node->id] + (uint32_t)v.index);
}

static void print_values(Printer *p, const TileRef *v, int n)
{
    for (int i = 0; i < n; i++) {
        sb_puts(p->out, i ? ", " : "");
        print_value(p, v[i]);
    }
}

/* The shortest decimal that reads back as f. */
static void print_float(double f, StrBuf *out)
{
    char text[40];

    if (isnan(f)) {
        sb_puts(out, "nan");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        StrBuf b = {0};
        sb_printf(&b, "%.*g", digits, f);
        memcpy(text, sb_str(&b), b.n + 1);
        sb_done(&b);
        if (strtod(text, NULL) == f)
            break;
    }
    sb_puts(out, text);
}

static void key(StrBuf *out, const char *name)
{
    sb_printf(out, "%s%s=", out->n ? " " : "", name);
}

static void print_list(StrBuf *out, const char *name, const TAttr *a)
{
    key(out, name);
    sb_putc(out, '(');
    for (int i = 0; i < a->rank; i++)
        sb_printf(out, "%s%d", i ? ", " : "", *name == 's' ? a->shape[i] : a->axes[i]);
    sb_putc(out, ')');
}

static void print_small(StrBuf *out, const char *name, unsigned v)
{
    if (v) {
        key(out, name);
        sb_printf(out, "%u", v);
    }
}

static void print_attr(TileOp op, const TAttr *a, StrBuf *to)
{
    unsigned has = tile_op_fields(op);
    StrBuf out = {0};

    if (a->name) {
        key(&out, "name");
        sb_put_json(&out, a->name->text, a->name->len);
    }
    if (a->dtype != DT_NONE) {
        key(&out, "dtype");
        sb_puts(&out, dtype_info[a->dtype].name);
    }
    if (has & TA_shape)
        print_list(&out, "shape", a);
    if (has & TA_axes)
        print_list(&out, "axes", a);
    if (has & TA_axis) {
        key(&out, "axis");
        sb_printf(&out, "%d", a->axis);
    }
    if (has & TA_i && (a->i || (op != TOP_const && op != TOP_alloc && op != TOP_size && op != TOP_load && op != TOP_store))) {
        key(&out, "i");
        sb_printf(&out, "%" PRId64, a->i);
    }
    if (has & TA_f && (a->f != 0 || signbit(a->f))) {
        key(&out, "f");
        print_float(a->f, &out);
    }
    if (has & TA_space) {
        key(&out, "space");
        sb_puts(&out, a->space == SPACE_LOCAL ? "local" : "shared");
    }
    print_small(&out, "rounding", a->rounding);
    print_small(&out, "saturate", a->saturate);
    print_small(&out, "flush", a->flush);
    print_small(&out, "fast", a->fast);
    print_small(&out, "drop", a->drop);
    print_small(&out, "align", a->align);
    print_small(&out, "vector", a->vector);
    print_small(&out, "within", a->within);
    if (op != TOP_for)
        print_small(&out, "stages", a->stages);
    if (a->swizzle == SWIZZLE_XOR || a->swizzle == SWIZZLE_ROWS)
        sb_printf(&out, " swizzle=%s", a->swizzle == SWIZZLE_XOR ? "xor" : "rows");
    else
        print_small(&out, "swizzle", a->swizzle);
    if (out.n)
        sb_printf(to, " {%s}", sb_str(&out));
    sb_done(&out);
}

/* ---- nodes ---- */

static void print_block(Printer *p, const TileBlock *b, int indent);

static void print_operands(Printer *p, const TileNode *n)
{
    int from = 0;

    if (n->op == TOP_load || n->op == TOP_store || n->op == TOP_part || n->op == TOP_atomic || n->op == TOP_update || n->op == TOP_prefetch) {
        int rank = tile_type(n->in[0])->rank;
        print_value(p, n->in[0]);
        sb_putc(p->out, '[');
        print_values(p, n->in + 1, rank);
        sb_putc(p->out, ']');
        from = 1 + rank;
        if (from < n->nin)
            sb_puts(p->out, ", ");
    }
    print_values(p, n->in + from, n->nin - from);
}

static void print_carries(Printer *p, const TileNode *n, const TileBlock *b, int first, int from)
{
    sb_puts(p->out, "carry(");
    for (int i = from; i < n->nin; i++) {
        sb_puts(p->out, i > from ? ", " : "");
        print_value(p, (TileRef){b->params.at[first + i - from], 0});
        sb_puts(p->out, " = ");
        print_value(p, n->in[i]);
    }
    sb_putc(p->out, ')');
}

static void print_control(Printer *p, const TileNode *n, int indent)
{
    const TileBlock *b = n->region[0];

    if (n->op == TOP_for) {
        print_value(p, (TileRef){b->params.at[0], 0});
        sb_puts(p->out, " = ");
        print_value(p, n->in[0]);
        sb_puts(p->out, " to ");
        print_value(p, n->in[1]);
        sb_puts(p->out, " step ");
        print_value(p, n->in[2]);
        if (n->attr->stages)
            sb_printf(p->out, " stages=%u", n->attr->stages);
        if (n->attr->producers)
            sb_printf(p->out, " producers=%u", n->attr->producers);
        sb_puts(p->out, n->nin > 3 ? " " : "");
        if (n->nin > 3)
            print_carries(p, n, b, 1, 3);
    } else if (n->op == TOP_if) {
        print_value(p, n->in[0]);
    } else {
        print_carries(p, n, b, 0, 0);
    }
    print_block(p, b, indent);
    if (n->op == TOP_if) {
        sb_puts(p->out, " else");
    } else if (n->op == TOP_while) {
        sb_puts(p->out, " do(");
        for (int i = 0; i < n->region[1]->params.n; i++) {
            sb_puts(p->out, i ? ", " : "");
            print_value(p, (TileRef){n->region[1]->params.at[i], 0});
        }
        sb_putc(p->out, ')');
    }
    if (n->region[1])
        print_block(p, n->region[1], indent);
}

static void print_place(const Printer *p, const TileNode *n)
{
    Place at = p->places && n->span.hi ? source_place(n->span.lo) : (Place){0};

    if (at.src)
        sb_printf(p->out, "  # %s:%u", at.src->path, at.line);
}

static void print_node(Printer *p, const TileNode *n, int indent)
{
    const TileOpInfo *info = &tile_op_info[n->op];

    sb_pad(p->out, ' ', (size_t)indent);
    for (int i = 0; i < n->nout; i++) {
        sb_printf(p->out, "%s%%%u: ", i ? ", " : "", p->number[n->id] + (uint32_t)i);
        tile_type_print(&n->type[i], p->out);
    }
    sb_printf(p->out, "%s%s", n->nout ? " = " : "", info->name);
    if (tile_op_fields((TileOp)n->op) & TA_op)
        sb_printf(p->out, " %s", op_info[n->attr->op].name);
    sb_puts(p->out, n->nin || info->regions ? " " : "");
    if (info->regions) {
        print_control(p, n, indent);
    } else {
        print_operands(p, n);
        print_attr((TileOp)n->op, n->attr, p->out);
        print_place(p, n);
    }
    sb_putc(p->out, '\n');
}

/* " {", lines, "}" */
static void print_block(Printer *p, const TileBlock *b, int indent)
{
    sb_puts(p->out, " {\n");
    for (const TileNode *n = b->first; n; n = n->next)
        print_node(p, n, indent + 2);
    if (b->yields.n) {
        sb_pad(p->out, ' ', (size_t)indent + 2);
        sb_puts(p->out, "yield ");
        print_values(p, b->yields.at, b->yields.n);
        sb_putc(p->out, '\n');
    }
    sb_pad(p->out, ' ', (size_t)indent);
    sb_putc(p->out, '}');
}

static void print_kernel(Printer *p)
{
    const TileKernel *k = p->k;

    sb_printf(p->out, "kernel @%s(", k->name ? k->name->text : "_");
    for (int i = 0; i < k->params.n; i++) {
        sb_printf(p->out, "%s%%%s: ", i ? ", " : "", k->param_name.at[i]->text);
        tile_type_print(&k->params.at[i]->type[0], p->out);
    }
    sb_putc(p->out, ')');
    for (int i = 0; i < k->size.n; i++)
        sb_printf(p->out, "%s%s%s", i ? ", " : " sizes(", k->size.at[i]->text, i == k->size.n - 1 ? ")" : "");
    for (int i = 0; i < k->grid.n; i++) {
        sb_puts(p->out, i ? ", " : " grid(");
        dim_print(k->grid.at[i], p->out);
        sb_puts(p->out, i == k->grid.n - 1 ? ")" : "");
    }
    if (k->lanes != 1)
        sb_printf(p->out, " lanes=%d", k->lanes);
    if (k->schedule) {
        sb_puts(p->out, " schedule=");
        sb_put_json(p->out, k->schedule->text, k->schedule->len);
    }
    print_block(p, &k->body, 0);
    sb_putc(p->out, '\n');
}

static void print_all(const TileKernel *k, bool places, StrBuf *out)
{
    StrBuf text = {0};
    uint32_t count, *number = tile_numbers(k, &count);
    Printer p = {k, number, &text, false};

    print_kernel(&p);
    sb_printf(out, "tessera.tile v1 hash=%016" PRIx64 "\n", hash_bytes64(sb_str(&text), text.n));
    if (places) {
        sb_clear(&text);
        p.places = true;
        print_kernel(&p);
    }
    sb_puts(out, sb_str(&text));
    sb_done(&text);
    tsr_free(number);
}

void tile_print(const TileKernel *k, StrBuf *out) { print_all(k, false, out); }
void tile_print_placed(const TileKernel *k, StrBuf *out) { print_all(k, true, out); }

static bool verify(const void *k, StrBuf *err) { return tile_verify(k, err); }
static void print(const void *k, StrBuf *out) { tile_print_placed(k, out); }
const PassIr tile_ir = {verify, print};

Hash128 tile_key(const TileKernel *k)
{
    StrBuf text = {0};
    Hash128 key;

    tile_print(k, &text);
    key = hash_bytes128(text.s, text.n);
    sb_done(&text);
    return key;
}
