/* Types as people read them: in messages, labels and `check --shapes`. */
#include "frontend/check/type.h"

#include "frontend/check/checker.h"

static void type_print(const Type *t, StrBuf *out);

static void print_items(const Type *const *item, int n, const char *between, StrBuf *out)
{
    for (int i = 0; i < n; i++) {
        sb_puts(out, i ? between : "");
        type_print(item[i], out);
    }
}

/* "B, ..., D" */
static void print_rest(const TType *t, const Type *whole, StrBuf *out)
{
    int front = type_front(whole);

    for (int i = 0; i < front; i++) {
        dim_print(t->shape[i], out);
        sb_puts(out, ", ");
    }
    sb_puts(out, "...");
    for (int i = front; i < front + type_back(whole); i++) {
        sb_puts(out, ", ");
        dim_print(t->shape[i], out);
    }
}

static void print_tensor(const Type *whole, StrBuf *out)
{
    const TType *t = whole->tensor;

    sb_puts(out, "Tensor");
    if (t->rank == RANK_UNKNOWN && t->dtype == DT_NONE && !whole->n)
        return;
    sb_putc(out, '[');
    if (t->rank == RANK_UNKNOWN)
        print_rest(t, whole, out);
    for (int i = 0; t->rank != RANK_UNKNOWN && i < t->rank; i++) {
        sb_puts(out, i ? ", " : "");
        dim_print(t->shape[i], out);
    }
    if (t->dtype != DT_NONE)
        sb_printf(out, "%s%s", t->rank ? ", " : "", element_text(t->dtype, t->policy));
    sb_putc(out, ']');
}

static const char *const kind_text[] = {
    [TY_ANY] = "anything", [TY_HIDDEN] = "anything", [TY_UNSET] = "unset", [TY_NONE] = "None", [TY_BOOL] = "bool", [TY_INT] = "int",
    [TY_FLOAT] = "float", [TY_COMPLEX] = "complex", [TY_STR] = "str", [TY_BYTES] = "bytes", [TY_LIST] = "list", [TY_TUPLE] = "Tuple",
    [TY_DICT] = "dict", [TY_SET] = "set", [TY_RANGE] = "range", [TY_FUNC] = "function", [TY_LIBRARY] = "function",
    [TY_TRANSFORM] = "function", [TY_NATIVE] = "function",
    [TY_METHOD] = "method", [TY_CLASS] = "class", [TY_INSTANCE] = "object", [TY_SPACE] = "module", [TY_CALLABLE] = "Callable",
    [TY_DTYPE] = "dtype", [TY_TENSOR] = "Tensor", [TY_UNION] = "Union", [TY_OBJECT] = "object",
    [TY_KERNEL] = "part of a kernel", [TY_LAZY] = "anything",
};

/* "int", "list[str]", "Tensor[B, 4, f32]". */
static void type_print(const Type *t, StrBuf *out)
{
    if (!t)
        t = T_ANY;
    if (t->kind == TY_TENSOR) {
        print_tensor(t, out);
        return;
    }
    if (t->kind == TY_UNION) {
        print_items(t->item, t->n, " | ", out);
        return;
    }
    if (t->kind == TY_INSTANCE) {
        sb_puts(out, cls_name(t->ref));
        return;
    }
    if (t->kind == TY_OBJECT) {
        sb_puts(out, t->text->text);
        return;
    }
    t = type_settle(t);
    sb_puts(out, kind_text[t->kind]);
    if (t->kind == TY_CALLABLE && t->n >= 0) {
        sb_puts(out, "[[");
        print_items(t->item, t->n, ", ", out);
        sb_puts(out, "], ");
        print_items(t->item + t->n, 1, "", out);
        sb_puts(out, "]");
    } else if (t->item && !type_is_any(t->item[0]) && t->kind != TY_CALLABLE) {
        sb_putc(out, '[');
        print_items(t->item, t->n < 0 ? 1 : t->n, ", ", out);
        sb_puts(out, t->n < 0 ? ", ...]" : "]");
    }
}

static StrBuf *slot(void)
{
    static StrBuf text[8];
    static unsigned next;

    sb_clear(&text[next & 7]);
    return &text[next++ & 7];
}

const char *type_text(const Type *t)
{
    StrBuf *b = slot();

    type_print(t, b);
    return sb_str(b);
}

const char *shape_of(const TType *t)
{
    StrBuf *b = slot();

    sb_putc(b, '[');
    for (int i = 0; t->rank != RANK_UNKNOWN && i < t->rank; i++) {
        sb_puts(b, i ? ", " : "");
        dim_print(t->shape[i], b);
    }
    sb_puts(b, t->rank == RANK_UNKNOWN ? "...]" : "]");
    return sb_str(b);
}

const char *shape_known(const Type *t)
{
    StrBuf *b = slot();

    if (t->tensor->rank != RANK_UNKNOWN)
        return shape_of(t->tensor);
    sb_putc(b, '[');
    print_rest(t->tensor, t, b);
    sb_putc(b, ']');
    return sb_str(b);
}

Dim ttype_count(const TType *t)
{
    Dim n = 1;

    if (t->rank == RANK_UNKNOWN)
        return DIM_BAD;
    for (int i = 0; i < t->rank; i++)
        n = dim_mul(n, t->shape[i]);
    return n;
}

int64_t ttype_elements(const TType *t)
{
    int64_t v;

    return dim_const_value(ttype_count(t), &v) ? v : -1;
}

bool dims_differ(Dim a, Dim b)
{
    DimAnswer r = dim_eq(a, b, NULL, NULL);

    return r == DIM_REFUTED || (r == DIM_DIFFERS && !dim_is_open(a) && !dim_is_open(b));
}
