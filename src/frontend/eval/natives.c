/*
 * Natives: their tables, their signatures, and calling them.
 *
 * A signature is Tessera text, read by the language's own parser when the
 * native is first called.  Binding then works as for any function, into an
 * array with one value a parameter.
 */
#include "frontend/eval/eval.h"

#include "base/hash.h"
#include "runtime/cuda.h"

#include <alloca.h>
#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

const NativeDef *const native_tables[] = {
#define NATIVES(table) table,
#include "frontend/eval/natives.def"
    NULL,
};

/* All rows by owner and name, and all owners: found where their hash says, or after it. */
enum { ROWS = 8192, OWNERS = 1024 };
static const NativeDef *row[ROWS];
static const char *owner_at[OWNERS];
static pthread_once_t rows_made = PTHREAD_ONCE_INIT;

/* The row, or the free place where it would stand. */
static const NativeDef **row_of(const char *owner, const char *name)
{
    uint32_t i = hash_bytes(name, strlen(name)) ^ hash_bytes(owner, strlen(owner)) * 3;

    while (row[i % ROWS] && (strcmp(row[i % ROWS]->name, name) || strcmp(row[i % ROWS]->owner, owner)))
        i++;
    return &row[i % ROWS];
}

static const char **place_of_owner(const char *owner)
{
    uint32_t i = hash_bytes(owner, strlen(owner));

    while (owner_at[i % OWNERS] && strcmp(owner_at[i % OWNERS], owner))
        i++;
    return &owner_at[i % OWNERS];
}

/* Of several rows of one name the first counts. */
static void make_rows(void)
{
    int n = 0, owners = 0;

    for (int t = 0; native_tables[t]; t++)
        for (const NativeDef *d = native_tables[t]; d->name; d++) {
            const NativeDef **at = row_of(d->owner, d->name);
            const char **of = place_of_owner(d->owner);
            if (!*at)
                *at = d;
            owners += !*of;
            *of = d->owner;
            n++;
        }
    assert(n < ROWS / 2 && owners < OWNERS / 2);
}

const NativeDef *native_find(const char *owner, const char *name)
{
    pthread_once(&rows_made, make_rows);
    return *row_of(owner, name);
}

bool native_has_owner(const char *owner)
{
    pthread_once(&rows_made, make_rows);
    return *place_of_owner(owner) != NULL;
}

/* ------------------------------------------------------------- signatures */

static Value constant(const Ast *e)
{
    switch (e->kind) {
    case AST_Int: return vint(AST_AS(e, Int)->value);
    case AST_Float: return vfloat(AST_AS(e, Float)->value);
    case AST_Str: return str_new(AST_AS(e, Str)->value.s, AST_AS(e, Str)->value.n);
    case AST_Tuple: return AST_AS(e, Tuple)->elts.n ? VERR : tuple_new(0);
    case AST_Const:
        switch (AST_AS(e, Const)->value) {
        case CONST_FALSE: return vbool(false);
        case CONST_TRUE: return vbool(true);
        case CONST_ELLIPSIS: return VERR;               /* optional, without a value */
        default: return VNONE;
        }
    case AST_UnaryOp: {
        Value v = constant(AST_AS(e, UnaryOp)->operand);
        if (AST_AS(e, UnaryOp)->op != AOP_NEG)
            return v;
        return v.tag == V_INT ? vint(-v.i) : v.tag == V_FLOAT ? vfloat(-v.f) : VERR;
    }
    default: return VERR;       /* a name: the native gets V_ERR and knows its own default */
    }
}

static NativeSig *sig_read(Unit *u, AstFunctionDef *def)
{
    NativeSig *s = tsr_calloc(sizeof *s);
    int n = def->params.n;

    s->unit = u;
    s->param = tsr_calloc(((size_t)n + 1) * sizeof *s->param);
    s->dflt = tsr_calloc(((size_t)n + 1) * sizeof *s->dflt);
    s->returns = def->returns;
    s->varargs = s->kwargs = -1;
    for (int i = 0; i < n; i++) {
        AstParam *p = AST_AS(def->params.at[i], Param);
        bool star = p->kind == PARAM_VARARGS || p->kind == PARAM_KWARGS;
        s->param[i] = (NativeParam){p->name, (uint8_t)p->kind, !p->dflt && !star, p->annotation, p->dflt};
        s->dflt[i] = p->dflt ? constant(p->dflt) : VERR;
        if (p->kind == PARAM_VARARGS)
            s->varargs = i;
        else if (p->kind == PARAM_KWARGS)
            s->kwargs = i;
        else if (p->kind != PARAM_KWONLY)
            s->npos++;
    }
    s->n = n;
    s->least = s->varargs < 0 && s->kwargs < 0 ? 0 : INT_MAX;
    for (int i = 0; i < n && s->least != INT_MAX; i++)
        if (s->param[i].required)
            s->least = s->param[i].kind == PARAM_KWONLY ? INT_MAX : i + 1;
    return s;
}

static bool in_table(const NativeDef *table, const NativeDef *d)
{
    while (table->owner && table != d)
        table++;
    return table->owner != NULL;
}

static bool takes_symints(const NativeDef *d)
{
#define SYMINT_TABLE(table) if (in_table(table, d)) return true;
#define SYMINT_OWNER(type) if (!strcmp(d->owner, #type)) return true;
#define SYMINT_METHOD(type, fn) if (!strcmp(d->owner, #type) && !strcmp(d->name, #fn)) return true;
#define SYMINT_NAME(fn) if (!*d->owner && !strcmp(d->name, #fn)) return true;
#include "frontend/eval/symint.def"
    return false;
}

static bool takes_symfloats(const NativeDef *d)
{
#define SYMFLOAT_METHOD(type, fn) if (!strcmp(d->owner, #type) && !strcmp(d->name, #fn)) return true;
#include "frontend/eval/symint.def"
    return false;
}

static Map sigs;                /* NativeDef * -> NativeSig * */

static NativeSig *sig_parsed(const NativeDef *d)
{
    StrBuf text = {0}, path = {0};
    DiagSink sink = {0};
    NativeSig *s;
    Unit *u;

    sb_printf(&text, "def %s%s: ...\n", "native", d->sig && d->sig[0] == '(' ? d->sig : "(self)");
    sb_printf(&path, "<%s%s%s>", d->owner, *d->owner ? "." : "", d->name);
    u = unit_parse(source_add(sb_str(&path), text.s, text.n), &sink);
    if (sink.errors || u->module->body.n < 1 || !AST_IS(u->module->body.at[0], FunctionDef))
        tsr_bug("signature of native %s does not parse: %s", path.s, d->sig);
    s = sig_read(u, AST_AS(u->module->body.at[0], FunctionDef));
    s->symfloats = takes_symfloats(d);
    s->symints = takes_symints(d) || s->symfloats;
    map_set_ptr(&sigs, d, s);
    diag_sink_done(&sink);
    sb_done(&text);
    sb_done(&path);
    return s;
}

/* Asked several times in a row for each call that is checked. */
const NativeSig *native_sig(const NativeDef *d)
{
    static struct { const NativeDef *def; const NativeSig *sig; } last;

    if (last.def != d) {
        last.sig = map_get_ptr(&sigs, d);
        last.sig = last.sig ? last.sig : sig_parsed(d);
        last.def = d;
    }
    return last.sig;
}

/* ------------------------------------------------------------- calling */

Value native_new(const NativeDef *def, Value self)
{
    NativeObj *n = obj_new(V_NATIVE, sizeof *n);

    n->def = def;
    n->self = value_ref(self);
    if (def->sig && !strncmp(def->sig, "(self", 5))
        n->obj.flags |= NATIVE_METHOD;
    if (strcmp(def->owner, "object"))
        n->obj.flags |= NATIVE_UNWRAP;
    return vobj(n);
}

Value native_value(Interp *I, const NativeDef *d)
{
    char name[64];

    if (d->sig[0] == '(')
        return native_new(d, VERR);
    if (d->fn)
        return d->fn(I, NULL);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(d->sig + 5, "]"), d->sig + 5);
    return value_ref(vobj(native_class(I, name)));
}

static bool wrong(Interp *I, const NativeDef *d, const char *what)
{
    raise(I, EXC_TypeError, "%s() %s", strcmp(d->name, "__new__") ? d->name : d->owner, what);
    return false;
}

static bool bind_kw(Interp *I, const NativeDef *d, const NativeSig *s, Value *a, Sym name, Value v)
{
    char text[160];

    for (int i = 0; i < s->n; i++) {
        uint8_t kind = s->param[i].kind;
        if (s->param[i].name != name || (kind != PARAM_NORMAL && kind != PARAM_KWONLY))
            continue;
        if (!is_err(a[i])) {
            snprintf(text, sizeof text, "got multiple values for argument '%.80s'", name->text);
            return wrong(I, d, text);
        }
        a[i] = v;
        return true;
    }
    if (s->kwargs >= 0 && is_err(dict_get_sym(as_dict(a[s->kwargs]), name))) {
        dict_set_sym(as_dict(a[s->kwargs]), name, v);
        return true;
    }
    if (s->kwargs >= 0) {
        snprintf(text, sizeof text, "got multiple values for keyword argument '%.80s'", name->text);
        return wrong(I, d, text);
    }
    snprintf(text, sizeof text, "got an unexpected keyword argument '%.80s'", name->text);
    return wrong(I, d, text);
}

static Value empty_tuple(Interp *I)
{
    if (is_err(I->no_arguments))
        I->no_arguments = tuple_new(0);
    return value_ref(I->no_arguments);
}

/* A native may keep or fill the dict it gets: then the next call makes another. */
static Value empty_dict(Interp *I)
{
    if (!is_err(I->no_keywords) && (I->no_keywords.o->refs > 1 || as_dict(I->no_keywords)->n)) {
        value_unref(I->no_keywords);
        I->no_keywords = VERR;
    }
    if (is_err(I->no_keywords))
        I->no_keywords = dict_new();
    return value_ref(I->no_keywords);
}

static bool bind_native(Interp *I, const NativeDef *d, const NativeSig *s, Value *a, const Value *args, int nargs,
                        const Value *kwvals, const Sym *kwnames, int nkw)
{
    char text[160];
    int n = nargs < s->npos ? nargs : s->npos;

    memset(a, 0, (size_t)s->n * sizeof *a);
    copy_values(a, args, n);
    if (s->kwargs >= 0)
        a[s->kwargs] = nkw ? dict_new() : empty_dict(I);
    if (s->varargs >= 0) {
        a[s->varargs] = nargs == n ? empty_tuple(I) : tuple_new(nargs - n);
        for (int i = n; i < nargs; i++)
            as_tuple(a[s->varargs])->at[i - n] = value_ref(args[i]);
    } else if (nargs > n) {
        bool self = s->n && (d->sig[1] == 's' || d->sig[1] == 'c') && (d->owner[0] != 0);
        snprintf(text, sizeof text, "takes %d positional argument%s but %d %s given", s->npos - self,
                 s->npos - self == 1 ? "" : "s", nargs - self, nargs - self == 1 ? "was" : "were");
        return wrong(I, d, text);
    }
    for (int i = 0; i < nkw; i++)
        if (!bind_kw(I, d, s, a, kwnames[i], kwvals[i]))
            return false;
    for (int i = 0; i < s->n; i++) {
        if (!is_err(a[i]))
            continue;
        if (s->param[i].required) {
            snprintf(text, sizeof text, "missing required argument: '%.80s'", s->param[i].name->text);
            return wrong(I, d, text);
        }
        a[i] = s->dflt[i];
    }
    return true;
}

bool native_settle(Interp *I, const NativeSig *s, Value *a)
{
    if (s->symfloats || (s->symints && !symfloat_made))
        return true;
    for (int i = 0; i < s->n; i++)
        if (!(s->symints ? symfloat_settle_inside : symint_settle_inside)(I, &a[i]))
            return false;
    return true;
}

Value fault_raise(Interp *I, Value result)
{
    static const ExcKind kind_of[] = {[FAULT_RUN] = EXC_RuntimeError, [FAULT_MEMORY] = EXC_MemoryError, [FAULT_VALUE] = EXC_ValueError,
                                     [FAULT_INDEX] = EXC_IndexError};
    StrBuf text = {0};
    FaultKind kind;

    if (fault_take(&text, &kind) && !exc_pending(I)) {
        if (!is_err(result))
            value_unref(result);
        result = raise(I, kind_of[kind], "%s", sb_str(&text));
    }
    sb_done(&text);
    return result;
}

/* Positions only, as nearly every call: they are copied, and the rest are defaults. */
static inline Value call_by_position(Interp *I, NativeObj *nf, const NativeSig *s, const Value *args, int nargs)
{
    Value a[NATIVE_FAST], r;

    for (int i = 0; i < nargs; i++)
        a[i] = args[i];
    for (int i = nargs; i < s->n; i++)
        a[i] = s->dflt[i];
    if (dim_ask_open && !native_settle(I, s, a))
        return VERR;
    if (nargs && a[0].tag == V_INSTANCE && (nf->obj.flags & (NATIVE_METHOD | NATIVE_UNWRAP)) == (NATIVE_METHOD | NATIVE_UNWRAP))
        a[0] = unwrap_base(a[0]);
    nf->obj.refs++;
    r = nf->def->fn(I, a);
    if (__builtin_expect(fault_kept, 0))
        r = fault_raise(I, r);
    obj_unref(nf);
    return r;
}

Value native_call(Interp *I, NativeObj *nf, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    const NativeDef *d = nf->def;
    NativeSig *s = nf->sig ? nf->sig : (nf->sig = (NativeSig *)(uintptr_t)native_sig(d));
    Value *a, r = VERR, *shifted;
    bool ok;

    if (__builtin_expect(!nkw && is_err(nf->self) && nargs >= s->least && nargs <= s->npos && s->n <= NATIVE_FAST, 1))
        return call_by_position(I, nf, s, args, nargs);
    if (!is_err(nf->self)) {
        shifted = alloca(((size_t)nargs + 1) * sizeof *shifted);
        shifted[0] = nf->self;
        copy_values(shifted + 1, args, nargs);
        args = shifted;
        nargs++;
    }
    a = alloca(((size_t)s->n + 1) * sizeof *a);
    nf->obj.refs++;
    ok = bind_native(I, d, s, a, args, nargs, kwvals, kwnames, nkw);
    if (ok && dim_ask_open)
        ok = native_settle(I, s, a);
    if (ok) {
        if (s->n && a[0].tag == V_INSTANCE && (nf->obj.flags & (NATIVE_METHOD | NATIVE_UNWRAP)) == (NATIVE_METHOD | NATIVE_UNWRAP))
            a[0] = unwrap_base(a[0]);
        r = d->fn(I, a);
        if (__builtin_expect(fault_kept, 0))
            r = fault_raise(I, r);
    }
    if (s->varargs >= 0)
        value_unref(a[s->varargs]);
    if (s->kwargs >= 0)
        value_unref(a[s->kwargs]);
    obj_unref(nf);
    return r;
}
