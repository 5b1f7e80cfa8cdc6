/* Values as the session shows them to somebody who asks: what type, which parameters, what its author wrote about it. */
#include "frontend/eval/code.h"
#include "frontend/prelude.h"
#include "runtime/tensor.h"
#include "tools/repl/session.h"

#include <string.h>

/* ------------------------------------------------------------- finding a value by name */

static Value global_value(Session *s, Sym name)
{
    ModuleObj *m = interp_main(s->I);
    int slot = scope_find(s->globals, name), row;

    if (m && slot >= 0 && slot < m->nslots && !is_err(m->slot[slot]))
        return value_ref(m->slot[slot]);
    row = prelude_find(name);
    return row < 0 ? VERR : value_ref(prelude_value(s->I, row));
}

Value session_lookup(Session *s, const char *path, size_t n)
{
    const char *dot = memchr(path, '.', n);
    size_t k = dot ? (size_t)(dot - path) : n;
    Value v = global_value(s, sym_n(path, k));

    while (!is_err(v) && k < n) {
        const char *from = path + k + 1;
        const char *next = memchr(from, '.', n - k - 1);
        size_t len = next ? (size_t)(next - from) : n - k - 1;
        Value attr = value_getattr_opt(s->I, v, sym_n(from, len));
        value_unref(v);
        v = attr;
        k += len + 1;
    }
    if (exc_pending(s->I))
        exc_clear(s->I);
    return v;
}

/* ------------------------------------------------------------- types */

static void put_shape(const Tensor *t, StrBuf *out)
{
    sb_puts(out, "Tensor[");
    for (int i = 0; i < t->rank; i++)
        sb_printf(out, "%lld, ", (long long)t->shape[i]);
    sb_printf(out, "%s]", dtype_info[t->dtype].name);
}

void describe_type(Session *s, Value v, StrBuf *out)
{
    int64_t n;

    if (v.tag == V_TENSOR) {
        put_shape(as_tensor(v), out);
        return;
    }
    sb_puts(out, value_type_name(v));
    if (v.tag != V_LIST && v.tag != V_TUPLE && v.tag != V_DICT && v.tag != V_SET && v.tag != V_STR)
        return;
    n = value_len(s->I, v);
    sb_printf(out, " of %lld", (long long)n);
}

/* ------------------------------------------------------------- functions */

static const FuncObj *function_of(Session *s, Value v, Value *held)
{
    *held = VERR;
    if (v.tag == V_BOUND)
        v = ((BoundObj *)v.o)->func;
    if (v.tag == V_CLASS) {
        *held = value_getattr_opt(s->I, v, sym("__init__"));
        if (exc_pending(s->I))
            exc_clear(s->I);
        v = *held;
    }
    return v.tag == V_FUNC ? (const FuncObj *)v.o : NULL;
}

static void push_keyword(Completions *out, Sym name)
{
    StrBuf b = {0};

    if (!strcmp(name->text, "self"))
        return;
    sb_printf(&b, "%s=", name->text);
    vec_push(&out->word, b.s);
}

void describe_keywords(Session *s, Value v, Completions *out)
{
    Value held;
    const FuncObj *f;

    if (v.tag == V_NATIVE) {
        const NativeSig *sig = native_sig(((NativeObj *)v.o)->def);
        for (int i = 0; i < sig->n; i++)
            if (sig->param[i].kind == PARAM_NORMAL || sig->param[i].kind == PARAM_KWONLY)
                push_keyword(out, sig->param[i].name);
        return;
    }
    f = function_of(s, v, &held);
    for (int i = 0; f && i < f->code->nparams; i++)
        if (i != f->code->varargs && i != f->code->kwargs)
            push_keyword(out, f->code->param[i]);
    value_unref(held);
}

/* The line of the definition, as it was written. */
static void put_definition(const Ast *ast, StrBuf *out)
{
    Place p = source_place(ast->span.lo);
    uint32_t n;
    const char *line;

    if (!p.src)
        return;
    line = source_line(p.src, p.line, &n);
    while (n && *line == ' ')
        line++, n--;
    while (n && (line[n - 1] == ' ' || line[n - 1] == ':'))
        n--;
    sb_write(out, line, n);
    sb_printf(out, "    (%s:%u)\n", p.src->path, p.line);
}

static void put_doc(Session *s, Value v, StrBuf *out)
{
    Value doc = value_getattr_opt(s->I, v, sym("__doc__"));

    if (exc_pending(s->I))
        exc_clear(s->I);
    if (doc.tag == V_STR) {
        sb_write(out, as_str(doc)->s, as_str(doc)->len);
        sb_putc(out, '\n');
    }
    value_unref(doc);
}

void describe_value(Session *s, Value v, StrBuf *out)
{
    Value held;
    const FuncObj *f;

    if (v.tag == V_NATIVE) {
        const NativeDef *d = ((NativeObj *)v.o)->def;
        sb_printf(out, "%s%s%s%s\n%s\n", d->owner, *d->owner ? "." : "", d->name, d->sig, d->doc ? d->doc : "");
        return;
    }
    f = function_of(s, v, &held);
    if (v.tag == V_CLASS)
        sb_printf(out, "class %s\n", ((ClassObj *)v.o)->name->text);
    if (f && f->code->ast)
        put_definition(f->code->ast, out);
    if (!f && v.tag != V_CLASS) {
        describe_type(s, v, out);
        sb_putc(out, '\n');
    }
    put_doc(s, v, out);
    value_unref(held);
}
