/*
 * A call of a kernel: its arguments, and the version of it that is made for their kinds.  launch_plan.c has the grid.
 *
 * Versions are kept with the function, and hold as long as the variables outside that they read.
 */
#include "frontend/kernel/launch_impl.h"

#include "frontend/check/effects.h"
#include "frontend/tensor/tensor_ops.h"
#include "ir/schedule/launched.h"

#include <inttypes.h>
#include <string.h>

void (*kernel_made)(void *st, const TileKernel *k);
void (*kernel_scheduled)(void *st, const char *text);
void *kernel_made_state;
void (*kernel_launched)(void *st, const KernelLaunch *l);
void *kernel_launched_state;
void (*kernel_proved)(void *st, const char *text);

enum { GROUP_DEFAULT = 128, OBJECTS_DEEP = 4 };      /* functions in variables of functions */

/* ------------------------------------------------------------- versions */

static void version_free(Version *v)
{
    for (int i = 0; i < v->reads.n; i++)
        value_unref(v->reads.at[i].v);
    vec_free(&v->reads);
    for (int i = 0; i < v->held.n; i++)
        value_unref(v->held.at[i]);
    vec_free(&v->held);
    vec_free(&v->fixed);
    tile_kernel_free(v->k);
    launched_free(v->code);
    tsr_free(v->filled_at);
    tsr_free(v->key);
    tsr_free(v);
}

static void versions_free(void *self)
{
    Versions *s = self;

    for (int i = 0; i < s->at.n; i++)
        version_free(s->at.at[i]);
    vec_free(&s->at);
}

static const NativeType versions_type = {.name = "kernel_versions", .free = versions_free};

/* Those of a function, which keeps them. */
static Versions *versions_of(FuncObj *fn)
{
    Sym name = sym("__kernels__");
    Value v;

    if (!fn->attrs)
        fn->attrs = as_dict(dict_new());
    v = dict_get_sym(fn->attrs, name);
    if (v.tag == V_NATIVEOBJ)
        return (Versions *)v.o;
    v = vobj(nativeobj_new(&versions_type, sizeof(Versions)));
    dict_set_sym(fn->attrs, name, v);
    value_unref(v);
    return (Versions *)v.o;
}

bool launch_size_from(const KSpec *s, Sym name, int *param, int *axis)
{
    for (*param = 0; *param < s->nparams; ++*param) {
        const KParam *p = &s->param[*param];
        *axis = -1;
        if (p->name == name && !p->tensor && p->v.tag == V_INT)
            return true;
        for (*axis = 0; p->tensor && *axis < p->tensor->rank && *axis < VIEW_RANK; ++*axis) {
            char text[96];
            snprintf(text, sizeof text, "%.64s_%d", p->name->text, *axis);
            if (p->dim[*axis] == name || (!p->dim[*axis] && !strcmp(text, name->text)))
                return true;
        }
    }
    return false;
}

int64_t launch_size(const KSpec *s, Sym name)
{
    int param, axis;

#define X(own) \
    if (name == sym("_" #own)) \
        return s->own;
    LAUNCH_SIZES(X)
#undef X
    if (!launch_size_from(s, name, &param, &axis))
        return 0;
    return axis < 0 ? s->param[param].v.i : kspec_extent(s, param, axis);
}

static bool same_value(Value a, Value b) { return a.tag == b.tag && a.i == b.i; }

static bool holds(const Version *v, const char *key, const KSpec *s)
{
    if (strcmp(v->key, key) != 0)
        return false;
    for (int i = 0; i < v->fixed.n; i++) {
        const Fixed *f = &v->fixed.at[i];
        int64_t size = launch_size(s, f->name);
        if (f->least ? size < f->v : size != f->v)
            return false;
    }
    for (int i = 0; i < v->reads.n; i++)
        if (!same_value(*v->reads.at[i].at, v->reads.at[i].v))
            return false;
    return true;
}

static bool is_plain(Value v) { return !is_obj(v) || v.tag == V_STR || v.tag == V_TUPLE || v.tag == V_DTYPE; }

/* Functions of one text, with nothing of their own but equal variables of the functions around them, are one. */
static bool by_text(const FuncObj *f) { return !f->attrs && !f->owner && !f->defaults && f->code && f->code->scope; }

/* Which object it is. What its address, or that of what it holds, is to stand for is put down to be kept. */
static void key_object(StrBuf *b, Value v, KHeld *held, int depth)
{
    const FuncObj *f = v.tag == V_FUNC ? (const FuncObj *)v.o : NULL;

    vec_push(held, v);
    if (!f || !by_text(f) || !depth) {
        sb_printf(b, "@%p", (void *)v.o);
        return;
    }
    sb_printf(b, "@%p(", (const void *)f->code);
    for (int i = 0; f->closure && i < f->code->scope->frees.n; i++) {
        Value own = f->closure[i]->v;
        if (is_obj(own))
            key_object(b, own, held, depth - 1);
        else
            sb_printf(b, "%d:%" PRIx64, own.tag, (uint64_t)own.i);
        sb_puts(b, ",");
    }
    sb_puts(b, ")");
}

static void key_item(Interp *I, StrBuf *b, Value v, KHeld *held)
{
    if (v.tag == V_TENSOR) {
        sb_puts(b, "tensor,");
        return;
    }
    if (v.tag != V_FUNC && !value_repr_to(I, v, b))
        exc_clear(I);
    if (!is_plain(v))
        key_object(b, v, held, OBJECTS_DEEP);
    sb_puts(b, ",");
}

/* A list, tuple or dict with tensors: where they are, and what else there is. */
static void key_holder(Interp *I, StrBuf *b, Value v, KHeld *held)
{
    int64_t n = v.tag == V_TUPLE ? as_tuple(v)->n : v.tag == V_LIST ? as_list(v)->n : 0, at = 0;
    const Value *items = v.tag == V_TUPLE ? as_tuple(v)->at : v.tag == V_LIST ? as_list(v)->at : NULL;
    Value key, item;

    sb_printf(b, "|%d[", v.tag);
    for (int64_t i = 0; i < n; i++)
        key_item(I, b, items[i], held);
    while (v.tag == V_DICT && dict_next(as_dict(v), &at, &key, &item)) {
        key_item(I, b, key, held);
        key_item(I, b, item, held);
    }
    sb_puts(b, "]");
}

/* What a version depends on, but for sizes that turned out to be needed and variables outside. */
static char *make_key(Interp *I, const KSpec *s, KHeld *held)
{
    StrBuf b = {0};
    char *key;

    sb_printf(&b, "%d %d %d%d%d%d%d%d %d %s %s", s->lanes, s->warps, s->sample, s->any, s->deep, s->debug, s->fast, s->tf32, s->led,
              s->cut[0] ? s->cut[0]->text : "-", s->cut[1] ? s->cut[1]->text : "-");
    for (int i = 0; i < SCHED_COUNT; i++)
        sb_printf(&b, " %s%lld", s->sched_given[i] ? "=" : "", (long long)s->sched[i]);
    for (int i = 0; i < s->nparams; i++) {
        const KParam *p = &s->param[i];
        if (p->tensor) {
            sb_printf(&b, "|%s%d", dtype_info[p->tensor->dtype].name, p->tensor->rank);
            sb_printf(&b, "%c%d", kparam_side(p) == p->tensor->rank - 1 ? 'c' : 's', kparam_side(p));
        } else if (p->v.tag == V_INT || p->v.tag == V_FLOAT) {
            sb_puts(&b, p->v.tag == V_FLOAT ? "|float" : p->v.i < 0 ? "|-int" : "|int");
        } else if (p->apart) {
            sb_puts(&b, "|.");                              /* its parts follow, each a parameter or a value */
        } else if (p->holds) {
            key_holder(I, &b, p->v, held);
        } else {
            sb_puts(&b, "|=");
            if (p->v.tag != V_FUNC && !value_repr_to(I, p->v, &b))
                exc_clear(I);
            if (!is_plain(p->v))
                key_object(&b, p->v, held, OBJECTS_DEEP);
        }
    }
    key = tsr_alloc(b.n + 1);
    memcpy(key, sb_str(&b), b.n + 1);
    sb_done(&b);
    return key;
}

static void raise_at(Launch *L, const char *code, const char *what, Span at, const char *why)
{
    Place p = at.hi ? source_place(at.lo) : (Place){0};
    bool numbered = why[0] == 'E' && why[1] == '0' && strlen(why) > 6 && why[5] == ':';
    StrBuf b = {0};

    if (p.src)
        sb_printf(&b, " (%s:%u)", p.src->path, p.line);
    if (numbered)
        raise(L->I, EXC_RuntimeError, "%.5s: kernel '%s'%s: %s%s", why, L->name, what, why + 7, sb_str(&b));
    else
        raise(L->I, EXC_RuntimeError, "%s: kernel '%s'%s: %s%s", code, L->name, what, why, sb_str(&b));
    sb_done(&b);
}

/* What the version holds for: sizes that it has as numbers or takes to be positive, and what it read outside, whose references it takes. */
static void note_conditions(const KSpec *s, Body *B, Version *v)
{
    for (uint32_t i = 0; i < B->fixed_names.cap; i++) {
        Sym name = (Sym)(uintptr_t)B->fixed_names.key[i];
        if (name)
            vec_push(&v->fixed, ((Fixed){name, launch_size(s, name), false}));
    }
    for (int i = 0; i < B->positive.n; i++)
        vec_push(&v->fixed, ((Fixed){B->positive.at[i], 1, true}));
    for (int i = 0; i < B->reads.n; i++)
        vec_push(&v->reads, B->reads.at[i]);
    B->reads.n = 0;
}

static void note_params(const KSpec *s, const Body *B, Version *v)
{
    for (int i = 0; i < s->nparams; i++) {
        bool passed = s->param[i].tensor || s->param[i].v.tag == V_FLOAT;
        v->index[i] = (int8_t)(passed ? B->param[i].index : -1);
        v->written[i] = B->param[i].written;
        v->turned |= (uint64_t)(B->param[i].turned && !B->param[i].upright) << i;
        if (s->param[i].discards && passed && B->param[i].index < 64)
            v->discards |= UINT64_C(1) << B->param[i].index;
    }
}

/* What the body turned out to do and to return. */
static void note_body(const Body *B, Version *v)
{
    memcpy(v->result, B->result, sizeof v->result);
    v->nresults = B->nresults;
    v->returns_tuple = B->returns_tuple;
    v->uses_blocks = B->uses_blocks;
    v->asks_group = B->asks_group;
    v->down = B->offset[0];
    v->across = B->offset[1];
    v->shared_leads = B->shared_leads;
    v->any_extent = v->nresults && !B->asks_extent && !tile_padding_shows(v->k);
}

/* Does the kernel store to what it takes to lie across? Its copy need not. */
static bool stores_across(KSpec *s, const Body *B)
{
    bool any = false;

    for (int i = 0; i < s->nparams; i++) {
        int side = s->param[i].tensor && B->param[i].written ? kparam_side(&s->param[i]) : -1;
        if (side >= 0 && side < s->param[i].tensor->rank - 1)
            any = s->param[i].plain = true;
    }
    return any;
}

static Version *find_version(const Versions *all, const char *key, const KSpec *s)
{
    for (int i = 0; i < all->at.n; i++)
        if (holds(all->at.at[i], key, s))
            return all->at.at[i];
    return NULL;
}

Version *launch_version(Launch *L)
{
    Versions *all = versions_of(L->spec.fn);
    KHeld held = {0};
    char *key = make_key(L->I, &L->spec, &held);
    Version *v = find_version(all, key, &L->spec);
    Body B;

    if (v) {
        vec_free(&held);
        tsr_free(key);
        return v;
    }
    v = tsr_calloc(sizeof *v);
    v->key = key;
    v->held = held;
    for (int i = 0; i < held.n; i++)
        value_ref(held.at[i]);
    v->k = body_make(L->I, &L->spec, &B);
    if (v->k && stores_across(&L->spec, &B)) {
        tile_kernel_free(v->k);
        map_done(&B.fixed_names);
        body_done(&B);
        v->k = body_make(L->I, &L->spec, &B);
    }
    if (v->k) {
        note_conditions(&L->spec, &B, v);
        note_params(&L->spec, &B, v);
        note_body(&B, v);
        if (kernel_made && !L->spec.sample)
            kernel_made(kernel_made_state, v->k);
        vec_push(&all->at, v);
    } else {
        raise_at(L, "E0623", "", B.err_at, B.err.n ? sb_str(&B.err) : "it cannot be made");
        version_free(v);
        v = NULL;
    }
    map_done(&B.fixed_names);
    body_done(&B);
    return v;
}

/* ------------------------------------------------------------- launches */

static int sizes_of(Value v, int64_t *out)
{
    int n = v.tag == V_TUPLE ? (int)as_tuple(v)->n : 0;

    for (int i = 0; i < 3; i++)
        out[i] = i < n ? as_tuple(v)->at[i].i : 1;
    return n;
}

static void take_schedule(KSpec *s, Value fields)
{
    for (int i = 0; i < SCHED_COUNT; i++) {
        Value v = fields.tag == V_DICT ? dict_get_sym(as_dict(fields), sym(schedule_fields[i].name)) : VERR;
        s->sched[i] = schedule_fields[i].dflt;
        if (v.tag == V_INT)
            s->sched[i] = v.i;
        else if (v.tag == V_STR)
            s->sched[i] = !strcmp(as_str(v)->s, "xor");
        s->sched_given[i] = v.tag == V_INT || v.tag == V_STR;
    }
    for (int i = 0; i < 3; i++)
        if (!s->sched_given[SCHED_tile_m + i])
            s->sched[SCHED_tile_m + i] = s->sched[SCHED_block_m + i];
}

/*
 * Fragments are a warp's, tiles of the code a group's. So where warps take fragments of their own, which they find by their number, and never meet,
 * each is a group of the code.
 */
static void warps_apart(Launch *L)
{
    const KernelForm *f = &L->form;
    KSpec *s = &L->spec;

    s->warps = 1;
    if (f->numbered && f->levels & 1u << KERNEL_FRAGMENT && !f->meets && s->lanes > WARP && s->lanes % WARP == 0) {
        s->warps = s->lanes / WARP;
        s->lanes = WARP;
    }
}

static void take_numerics(Launch *L)
{
    const Policy *p = L->call ? L->call->numerics : interp_trace(L->I)->numerics;

    L->spec.fast = p && p->fast;
    L->spec.tf32 = p && p->compute == DT_tf32;
}

bool launch_begin(Launch *L, Value fn, Value grid, Value block, Value schedule)
{
    int64_t b[3];
    int nblock;

    if (fn.tag != V_FUNC || !AST_IS(((FuncObj *)fn.o)->code->ast, FunctionDef))
        return launch_refuse(L, "E0623: '%s' is no function that can be a kernel", L->name);
    L->spec.fn = (FuncObj *)fn.o;
    L->spec.def = AST_AS(L->spec.fn->code->ast, FunctionDef);
    L->spec.debug = interp_options(L->I)->debug;
    L->spec.watched = kernel_launched != NULL;
    take_numerics(L);
    L->spec.led = -1;
    L->spec.leads = L->spec.per = 1;
    kernel_form(L->spec.def, &L->form);
    take_schedule(&L->spec, schedule);
    L->ngrid = sizes_of(grid, L->grid);
    L->plain = L->ngrid == 0;
    nblock = sizes_of(block, b);
    L->block = b[0] * b[1] * b[2];
    L->spec.lanes = nblock ? (int)L->block
                  : L->spec.sched_given[SCHED_warps] ? (int)(L->spec.sched[SCHED_warps] * 32 > 1024 ? 1024 : L->spec.sched[SCHED_warps] * 32)
                                                     : GROUP_DEFAULT;
    warps_apart(L);
    return true;
}

void launch_done(Launch *L)
{
    for (int i = 0; i < L->held.n; i++)
        value_unref(L->held.at[i]);
    vec_free(&L->held);
    tsr_free(L);
}

/* What lies in shared memory is one group's: no other stores to it, but to a block of its own. */
static bool own_memory(Launch *L, const Version *v)
{
    const KSpec *s = &L->spec;

    for (int i = 0; i < s->nparams && s->groups / s->warps > 1; i++) {
        const char *space = v->written[i] ? placement_declared(L->form.param[i].param->annotation) : NULL;
        bool cut = false;
        for (int k = 0; s->param[i].kind == KPARAM_TILE && s->param[i].tensor && k < s->param[i].tensor->rank; k++)
            cut |= s->param[i].dim[k] && (s->param[i].dim[k] == s->cut[0] || s->param[i].dim[k] == s->cut[1]);
        if (space && !cut && !strcmp(space, "shared"))
            return launch_refuse(L, "E0623: kernel '%s': '%s' is shared memory of one group, and %lld groups would store to it", L->name,
                s->param[i].name->text, (long long)(s->groups / s->warps));
    }
    return true;
}

/* The stacks of matrices that the version goes through together. */
static bool stacks_hold(Launch *L, const Version *v)
{
    char why[240];

    return lead_holds(&L->spec, v->shared_leads, why, sizeof why) || launch_refuse(L, "E0623: kernel '%s': %s", L->name, why);
}

bool launch_holds(Launch *L, const Version *v) { return own_memory(L, v) && stacks_hold(L, v); }

Value launch_call(Interp *I, const LaunchCall *c)
{
    Launch *L = tsr_calloc(sizeof *L);
    Version *v;
    Value y = VERR;

    L->I = I;
    L->name = c->name;
    L->call = c;
    if (launch_begin(L, c->fn, c->grid, c->block, c->schedule) && launch_bind(L, c->args, c->kwargs) && launch_plan(L) &&
        (v = launch_version(L)) && launch_holds(L, v))
        y = launch_go(L, v, c->args);
    launch_done(L);
    return y;
}

Value kernel_launch(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule)
{
    return launch_call(I, &(LaunchCall){name, fn, args, kwargs, grid, block, schedule, .numerics = interp_trace(I)->numerics});
}
