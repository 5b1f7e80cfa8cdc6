/*
 * Making, walking and destroying objects.
 *
 * Each kind has one row of facts here: how large it is, which Values it owns
 * (obj_visit), what it does when its count reaches zero.  Destruction nests at
 * most NEST deep; beyond that objects wait in a list, so that freeing a
 * chain of a million links needs no stack.
 */
#include "frontend/eval/eval.h"

#include <stdarg.h>
#include <string.h>

/* ------------------------------------------------------------- strings */

static StrObj *str_alloc(size_t n)
{
    StrObj *s = obj_new_text(V_STR, sizeof *s + n + 1, sizeof *s);

    s->len = (uint32_t)n;
    s->nchars = UINT32_MAX;
    s->s[n] = 0;
    return s;
}

Value str_new(const char *s, size_t n)
{
    StrObj *o = str_alloc(n);

    memcpy(o->s, s, n);
    return vobj(o);
}

Value str_room(size_t n)
{
    return vobj(str_alloc(n));
}

/* Room grows in steps of an eighth, so that a string built piece by piece is copied rarely. */
static size_t room_for(size_t need)
{
    size_t step = (size_t)1 << (60 - __builtin_clzll(need | 512));

    return (need + step - 1) / step * step;
}

bool str_append(Value *slot, const StrObj *t)
{
    StrObj *s = as_str(*slot);

    if (s->obj.refs != 1 || s->sym || (uint64_t)s->len + t->len > UINT32_MAX / 2)
        return false;
    s = (StrObj *)obj_resize(&s->obj, room_for(sizeof *s + s->len + t->len + 1));
    if (!s)
        return false;
    memcpy(s->s + s->len, t->s, t->len);
    if (s->nchars != UINT32_MAX)
        s->nchars += (uint32_t)str_nchars((StrObj *)(uintptr_t)t);
    s->len += t->len;
    s->s[s->len] = 0;
    s->hash = 0;
    slot->o = &s->obj;
    return true;
}

Value str_c(const char *s)
{
    return str_new(s, strlen(s));
}

Value str_steal(StrBuf *b)
{
    Value v = str_new(b->s ? b->s : "", b->n);

    sb_done(b);
    return v;
}

Value str_sym(Sym s)
{
    if (!s->value) {
        StrObj *o = as_str(str_new(s->text, s->len));
        o->sym = s;
        s->value = o;           /* the symbol keeps a reference for good */
    }
    return value_ref(vobj(s->value));
}

/* ------------------------------------------------------------- containers */

Value list_new(int64_t cap)
{
    ListObj *l = obj_new(V_LIST, sizeof *l);

    if (cap > 0) {
        l->at = tsr_alloc((size_t)cap * sizeof *l->at);
        l->cap = cap;
    }
    return vobj(l);
}

void list_push(ListObj *l, Value v)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap + l->cap / 2 + 1 : 4;
        l->at = tsr_realloc(l->at, (size_t)l->cap * sizeof *l->at);
    }
    l->at[l->n++] = v;
}

Value tuple_new(int64_t n)
{
    TupleObj *t = obj_new(V_TUPLE, sizeof *t + (size_t)n * sizeof *t->at);

    t->n = n;
    return vobj(t);
}

Value tuple_of(int n, ...)
{
    Value t = tuple_new(n);
    va_list ap;

    va_start(ap, n);
    for (int i = 0; i < n; i++)
        as_tuple(t)->at[i] = va_arg(ap, Value);
    va_end(ap);
    return t;
}

Value complex_new(double re, double im)
{
    ComplexObj *c = obj_new(V_COMPLEX, sizeof *c);

    c->re = re;
    c->im = im;
    return vobj(c);
}

Value tensor_value(Tensor *t)
{
    TensorObj *o = obj_new(V_TENSOR, sizeof *o);

    o->t = t;
    return vobj(o);
}

void *nativeobj_new(const NativeType *t, size_t size)
{
    NativeInst *o = obj_new(V_NATIVEOBJ, size);

    o->type = t;
    o->obj.flags = (uint16_t)((size + 7) / 8);  /* its size, for the end */
    return o;
}

/* ------------------------------------------------------------- walking */

static void visit_ptr(void *pp, VisitFn fn, void *st)
{
    Obj *o = *(Obj **)pp;
    Value v;

    if (!o)
        return;
    v = vobj(o);
    fn(&v, st);
}

static void visit_array(Value *v, int64_t n, VisitFn fn, void *st)
{
    for (int64_t i = 0; i < n; i++)
        fn(&v[i], st);
}

static void visit_dict(DictObj *d, VisitFn fn, void *st)
{
    for (int64_t i = 0; i < d->used; i++) {
        fn(&d->entry[i].key, st);
        fn(&d->entry[i].val, st);
    }
}

static void visit_func(FuncObj *f, VisitFn fn, void *st)
{
    int ndefaults = f->defaults ? f->code->nparams : 0, nfrees = f->code ? f->code->scope->frees.n : 0;

    visit_array(f->defaults, ndefaults, fn, st);
    for (int i = 0; f->closure && i < nfrees; i++)
        visit_ptr(&f->closure[i], fn, st);
    visit_ptr(&f->owner, fn, st);
    visit_ptr(&f->attrs, fn, st);
    visit_ptr(&f->whole, fn, st);
    visit_ptr(&f->module, fn, st);
    fn(&f->name, st);
    fn(&f->doc, st);
}

static void visit_class(ClassObj *c, VisitFn fn, void *st)
{
    visit_ptr(&c->base, fn, st);
    visit_ptr(&c->ns, fn, st);
    visit_ptr(&c->module, fn, st);
    visit_array(c->dunder, D_COUNT, fn, st);
}

void obj_visit(Obj *o, VisitFn fn, void *st)
{
    switch (o->kind) {
    case V_LIST: visit_array(((ListObj *)o)->at, ((ListObj *)o)->n, fn, st); break;
    case V_TUPLE: visit_array(((TupleObj *)o)->at, ((TupleObj *)o)->n, fn, st); break;
    case V_DICT: case V_SET: visit_dict((DictObj *)o, fn, st); break;
    case V_SLICE: visit_array(&((SliceObj *)o)->lo, 3, fn, st); break;
    case V_TENSOR: fn(&((TensorObj *)o)->grad, st); break;
    case V_TYPEFORM: fn(&((TypeFormObj *)o)->origin, st); fn(&((TypeFormObj *)o)->args, st); break;
    case V_FUNC: visit_func((FuncObj *)o, fn, st); break;
    case V_NATIVE: fn(&((NativeObj *)o)->self, st); break;
    case V_BOUND: visit_array(&((BoundObj *)o)->self, 2, fn, st); break;
    case V_CLASS: visit_class((ClassObj *)o, fn, st); break;
    case V_PROPERTY: visit_array(&((PropertyObj *)o)->get, 3, fn, st); break;
    case V_STATICMETHOD: case V_CLASSMETHOD: fn(&((WrapObj *)o)->func, st); break;
    case V_SUPER: visit_ptr(&((SuperObj *)o)->after, fn, st); fn(&((SuperObj *)o)->self, st); break;
    case V_CELL: fn(&((CellObj *)o)->v, st); break;
    case V_ITER: fn(&((IterObj *)o)->seq, st); break;
    case V_INSTANCE:
        visit_ptr(&((InstanceObj *)o)->cls, fn, st);
        visit_ptr(&((InstanceObj *)o)->attrs, fn, st);
        fn(&((InstanceObj *)o)->base, st);
        break;
    case V_MODULE:
        visit_array(((ModuleObj *)o)->slot, ((ModuleObj *)o)->nslots, fn, st);
        visit_ptr(&((ModuleObj *)o)->attrs, fn, st);
        break;
    case V_NATIVEOBJ:
        if (((NativeInst *)o)->type->visit)
            ((NativeInst *)o)->type->visit(o, fn, st);
        break;
    default: break;
    }
}

static size_t obj_size(const Obj *o)
{
    switch (o->kind) {
    case V_STR: return sizeof(StrObj) + ((const StrObj *)o)->len + 1;
    case V_BYTES: return sizeof(BytesObj) + ((const BytesObj *)o)->len + 1;
    case V_TUPLE: return sizeof(TupleObj) + (size_t)((const TupleObj *)o)->n * sizeof(Value);
    case V_LIST: return sizeof(ListObj);
    case V_DICT: case V_SET: return sizeof(DictObj);
    default: return 0;
    }
}

/* ------------------------------------------------------------- destruction */

static void unref_array(Value *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        value_unref(v[i]);
}

static void list_free(ListObj *l)
{
    unref_array(l->at, l->n);
    tsr_free(l->at);
}

void func_empty(FuncObj *f)
{
    int nfrees = f->closure && f->code ? f->code->scope->frees.n : 0, ndefaults = f->defaults && f->code ? f->code->nparams : 0;

    for (int i = 0; i < nfrees; i++) {
        Value held = f->closure[i] ? f->closure[i]->v : VERR;
        if (f->closure[i])
            f->closure[i]->v = VERR;
        value_unref(held);
    }
    for (int i = 0; i < ndefaults; i++) {
        Value held = f->defaults[i];
        f->defaults[i] = VERR;
        value_unref(held);
    }
}

void func_abandon(FuncObj *f)
{
    int nfrees = f->code ? f->code->scope->frees.n : 0, ndefaults = f->defaults ? f->code->nparams : 0;
    Value *defaults = f->defaults;
    CellObj **closure = f->closure;

    f->code = NULL;
    f->defaults = NULL;
    f->closure = NULL;
    if (defaults)
        unref_array(defaults, ndefaults);
    tsr_free(defaults);
    for (int i = 0; closure && i < nfrees; i++)
        obj_unref(closure[i]);
    tsr_free(closure);
}

static void func_free(FuncObj *f)
{
    func_abandon(f);
    obj_unref(f->owner);
    obj_unref(f->attrs);
    obj_unref(f->whole);
    obj_unref(f->module);
    value_unref(f->name);
    value_unref(f->doc);
}

static void class_free(ClassObj *c)
{
    class_unlink(c);
    obj_unref(c->base);
    obj_unref(c->ns);
    obj_unref(c->module);
    unref_array(c->dunder, D_COUNT);
}

static void module_free(ModuleObj *m)
{
    unref_array(m->slot, m->nslots);
    tsr_free(m->slot);
    obj_unref(m->attrs);
}

static void instance_free(InstanceObj *o)
{
    obj_unref(o->attrs);
    value_unref(o->base);
    obj_unref(o->cls);
}

static void tensorobj_free(TensorObj *t)
{
    tensor_unref(t->t);
    value_unref(t->grad);
}

/* What each kind releases, and its size; sizes of 0 come from obj_size. */
typedef struct { size_t size; void (*done)(void *o); } Kind;

static void wrap_free(void *o) { value_unref(((WrapObj *)o)->func); }
static void bound_free(void *o) { unref_array(&((BoundObj *)o)->self, 2); }
static void prop_free(void *o) { unref_array(&((PropertyObj *)o)->get, 3); }
static void slice_free(void *o) { unref_array(&((SliceObj *)o)->lo, 3); }
static void tuple_free(void *o) { unref_array(((TupleObj *)o)->at, ((TupleObj *)o)->n); }
static void cell_free(void *o) { value_unref(((CellObj *)o)->v); }
static void iter_free(void *o) { value_unref(((IterObj *)o)->seq); }
static void native_free(void *o) { value_unref(((NativeObj *)o)->self); }

static void form_free(void *o)
{
    value_unref(((TypeFormObj *)o)->origin);
    value_unref(((TypeFormObj *)o)->args);
}

static void super_free(void *o)
{
    obj_unref(((SuperObj *)o)->after);
    value_unref(((SuperObj *)o)->self);
}

static void nativeobj_free(void *o)
{
    if (((NativeInst *)o)->type->free)
        ((NativeInst *)o)->type->free(o);
}

#define DONE(fn) ((void (*)(void *))(fn))
static const Kind kinds[V_COUNT] = {
    [V_COMPLEX] = {sizeof(ComplexObj), NULL},
    [V_LIST] = {sizeof(ListObj), DONE(list_free)},
    [V_TUPLE] = {0, tuple_free},
    [V_DICT] = {sizeof(DictObj), DONE(dict_clear)},
    [V_SET] = {sizeof(DictObj), DONE(dict_clear)},
    [V_RANGE] = {sizeof(RangeObj), NULL},
    [V_SLICE] = {sizeof(SliceObj), slice_free},
    [V_TENSOR] = {sizeof(TensorObj), DONE(tensorobj_free)},
    [V_DTYPE] = {sizeof(DTypeObj), NULL},
    [V_TYPEFORM] = {sizeof(TypeFormObj), form_free},
    [V_FUNC] = {sizeof(FuncObj), DONE(func_free)},
    [V_NATIVE] = {sizeof(NativeObj), native_free},
    [V_BOUND] = {sizeof(BoundObj), bound_free},
    [V_CLASS] = {sizeof(ClassObj), DONE(class_free)},
    [V_INSTANCE] = {sizeof(InstanceObj), DONE(instance_free)},
    [V_MODULE] = {sizeof(ModuleObj), DONE(module_free)},
    [V_PROPERTY] = {sizeof(PropertyObj), prop_free},
    [V_STATICMETHOD] = {sizeof(WrapObj), wrap_free},
    [V_CLASSMETHOD] = {sizeof(WrapObj), wrap_free},
    [V_SUPER] = {sizeof(SuperObj), super_free},
    [V_CELL] = {sizeof(CellObj), cell_free},
    [V_ITER] = {sizeof(IterObj), iter_free},
    [V_GENERATOR] = {sizeof(GenObj), DONE(gen_free)},
    [V_COROUTINE] = {sizeof(GenObj), DONE(gen_free)},
    [V_NATIVEOBJ] = {SIZE_MAX, nativeobj_free},
};

static void destroy(Obj *o)
{
    const Kind *k = &kinds[o->kind];
    size_t size = k->size == SIZE_MAX ? (size_t)o->flags * 8 : k->size ? k->size : obj_size(o);

    if (k->done) {
        o->refs = 1;            /* a destructor that looks at its object must not free it again */
        k->done(o);
    }
    obj_delete(o, size);
}

enum { NEST = 64 };

void obj_free(Obj *o)
{
    static int nest;
    static Vec(Obj *) waiting;

    if (nest == NEST) {
        vec_push(&waiting, o);
        return;
    }
    nest++;
    destroy(o);
    nest--;
    while (!nest && waiting.n) {
        nest++;
        destroy(vec_pop(&waiting));
        nest--;
    }
    if (!nest && !waiting.n && waiting.cap > 4096)
        vec_free(&waiting);
}

void obj_clear(Obj *o)
{
    switch (o->kind) {
    case V_LIST: {
        ListObj l = *(ListObj *)o;
        ((ListObj *)o)->n = ((ListObj *)o)->cap = 0;
        ((ListObj *)o)->at = NULL;
        list_free(&l);
        break;
    }
    case V_DICT: case V_SET:
        dict_clear((DictObj *)o);
        break;
    case V_CELL: {
        Value v = ((CellObj *)o)->v;
        ((CellObj *)o)->v = VERR;
        value_unref(v);
        break;
    }
    case V_INSTANCE: {
        InstanceObj *i = (InstanceObj *)o;
        DictObj *attrs = i->attrs;
        Value base = i->base;
        i->attrs = NULL;
        i->base = VERR;
        obj_unref(attrs);
        value_unref(base);
        break;
    }
    case V_CLASS:               /* its special methods belong to it again: func.owner */
        for (int i = 0; i < D_COUNT; i++) {
            Value v = ((ClassObj *)o)->dunder[i];
            ((ClassObj *)o)->dunder[i] = VERR;
            value_unref(v);
        }
        break;
    default:                    /* every cycle passes through one of these */
        break;
    }
}
