/*
 * print() in a kernel, of what is known now and of numbers of the launch.
 *
 * Where it stands, each tile that gets there says its line, in the order of their numbers; what a kernel in blocks computes is said once for its
 * group.  It is one op, whose text has a mark in the place of each number, and the tile IR's interpreter runs such kernels, whoever else would.
 */
#include "frontend/kernel/body.h"
#include "frontend/kernel/launch_impl.h"

#include <inttypes.h>
#include <string.h>

enum { SAID_MOST = 32, MARK = 1 };              /* MARK: no text that a program prints has it */

typedef struct Said {
    Body *B;
    StrBuf text;
    TileRef in[SAID_MOST];
    int n;
} Said;

static bool say_number(Said *s, TileRef x)
{
    if (s->n == SAID_MOST)
        return kb_fail(s->B, "print() of more than %d numbers in a kernel", SAID_MOST), false;
    s->in[s->n++] = x;
    sb_putc(&s->text, MARK);
    return x.node != NULL;
}

static bool say_value(Said *s, KVal v)
{
    Value text;

    if (v.kind == K_TUPLE || v.kind == K_LIST) {
        sb_putc(&s->text, v.kind == K_TUPLE ? '(' : '[');
        for (int i = 0; i < v.n; i++) {
            sb_puts(&s->text, i ? ", " : "");
            if (!say_value(s, v.item[i]))
                return false;
        }
        sb_puts(&s->text, v.kind == K_LIST ? "]" : v.n == 1 ? ",)" : ")");
        return true;
    }
    v = v.kind == K_STATIC ? v : kb_value(s->B, v);
    if (v.kind == K_INT)
        return say_number(s, lin_ref(s->B, v.lin));
    if (v.kind == K_SCALAR || v.kind == K_BLOCK)
        return say_number(s, v.ref);
    if (v.kind != K_STATIC)
        return kb_fail(s->B, "print() of this cannot stand in a kernel"), false;
    text = value_str(s->B->I, v.v);
    if (is_err(text))
        return kb_pending(s->B), false;
    sb_puts(&s->text, as_str(text)->s);
    value_unref(text);
    return true;
}

static bool say_formatted(Said *s, const AstFString *f)
{
    for (int i = 0; i < f->parts.n; i++) {
        Ast *p = f->parts.at[i];
        const AstHole *hole = AST_IS(p, Hole) ? AST_AS(p, Hole) : NULL;
        if (hole && (hole->spec || hole->conversion))
            return kb_fail(s->B, "an f-string of a kernel has no formats: print the number as it is"), false;
        if (hole && hole->debug.n)
            sb_printf(&s->text, "%.*s", (int)hole->debug.n, hole->debug.s);
        if (!say_value(s, kb_expr(s->B, hole ? hole->value : p)) || s->B->failed)
            return false;
    }
    return true;
}

/* sep= or end=: a text that is known; NULL: it is none, which is reported. */
static const char *text_of(Body *B, const AstArg *a, const char *dflt)
{
    KVal v = a ? kb_expr(B, a->value) : KUNSET;

    if (v.kind == K_UNSET || (v.kind == K_STATIC && v.v.tag == V_NONE))
        return dflt;
    if (v.kind == K_STATIC && v.v.tag == V_STR)
        return as_str(v.v)->s;
    kb_fail(B, "print() in a kernel takes sep and end, which are texts");
    return NULL;
}

static const AstArg *named(const AstCall *c, const char *name)
{
    for (int i = 0; i < c->args.n; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        if (a->name && !strcmp(a->name->text, name))
            return a;
    }
    return NULL;
}

static bool say_all(Said *s, const AstCall *c)
{
    const char *sep = text_of(s->B, named(c, "sep"), " "), *end = text_of(s->B, named(c, "end"), "\n");
    bool first = true;

    for (int i = 0; i < c->args.n && sep && end; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        if (a->stars || (a->name && strcmp(a->name->text, "sep") != 0 && strcmp(a->name->text, "end") != 0 && strcmp(a->name->text, "flush") != 0))
            return kb_fail(s->B, "print() in a kernel takes values, sep and end"), false;
        if (a->name)
            continue;
        sb_puts(&s->text, first ? "" : sep);
        first = false;
        if (!(AST_IS(a->value, FString) ? say_formatted(s, AST_AS(a->value, FString)) : say_value(s, kb_expr(s->B, a->value))))
            return false;
    }
    if (end)
        sb_puts(&s->text, end);
    return end && !s->B->failed;
}

KVal kb_print(Body *B, const AstCall *c)
{
    Said s = {.B = B};
    TAttr a = tattr_none;
    bool ok = say_all(&s, c);

    B->b.span = c->ast.span;
    a.name = sym_n(sb_str(&s.text), s.text.n);
    sb_done(&s.text);
    if (ok)
        kb_emit(B, TOP_say, &a, s.in, s.n);
    return B->failed ? KBAD : kb_static_item(VNONE);
}

/* ------------------------------------------------------------- when it runs */

static void put_operand(const TileType *t, const void *x, StrBuf *out)
{
    Dim shape[VIEW_RANK];
    int64_t n = 1;
    Tensor *y;

    if (t->kind == TILE_INDEX) {
        sb_printf(out, "%" PRId64, *(const int64_t *)x);
        return;
    }
    for (int i = 0; i < t->rank; i++) {
        shape[i] = dim_const(t->extent[i]);
        n *= t->extent[i];
    }
    y = tensor_new((DType)t->dtype, t->rank, shape);
    memcpy(tensor_data(y), x, (size_t)n * (size_t)(dtype_info[t->dtype].sbits / 8));
    if (t->rank)
        tensor_print(y, out);
    else
        tensor_print_element(y, 0, out);
    tensor_unref(y);
}

void kernel_said(void *I, const TileNode *n, const void *const *in)
{
    StrBuf out = {0};
    int at = 0;

    for (uint32_t i = 0; i < n->attr->name->len; i++) {
        if (n->attr->name->text[i] != MARK) {
            sb_putc(&out, n->attr->name->text[i]);
            continue;
        }
        put_operand(tile_type(n->in[at]), in[at], &out);
        at++;
    }
    interp_write(I, sb_str(&out), out.n);
    sb_done(&out);
}
