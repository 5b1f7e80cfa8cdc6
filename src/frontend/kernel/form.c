/*
 * What a kernel's text says of it: which functions are kernels, what their
 * parameters are, which of them are read and written, and who does the work.
 */
#include "frontend/kernel/kernel.h"

#include "frontend/check/spaces.h"
#include "frontend/eval/native.h"
#include "frontend/prelude.h"

#include <string.h>

enum { DEPTH = 800 };

/* ------------------------------------------------------------- decorators */

/* The name at the left end of tessera.kernel.schedule(s), and whether `kernel` stands in it. */
static const AstName *chain_root(const Ast *d, bool *kernel)
{
    *kernel = false;
    while (d) {
        if (d->kind == AST_Call) {
            d = AST_AS(d, Call)->func;
        } else if (d->kind == AST_Attribute) {
            *kernel |= !strcmp(AST_AS(d, Attribute)->attr->text, "kernel");
            d = AST_AS(d, Attribute)->value;
        } else {
            return d->kind == AST_Name ? AST_AS(d, Name) : NULL;
        }
    }
    return NULL;
}

/* What a name is bound to in the innermost scope around def that has it; NULL: in none, so it is the prelude's. */
static const Local *bound_around(const AstFunctionDef *def, Sym name)
{
    const Local *own = NULL;

    for (const Scope *s = def->scope; s && !own; s = s->parent)
        own = s->kind != SCOPE_CLASS ? scope_local(s, name) : NULL;
    return own;
}

/* tessera, ts, or what `import tessera as` calls it. */
static bool is_tessera(const AstFunctionDef *def, Sym name)
{
    const Local *own = bound_around(def, name);
    AstSeq names = own && own->node && own->node->kind == AST_Import ? AST_AS(own->node, Import)->names : (AstSeq){0};

    for (int i = 0; i < names.n; i++) {
        const AstAlias *a = AST_AS(names.at[i], Alias);
        if (a->ast.kind == AST_Alias && a->asname == name && a->name && !strcmp(a->name->text, "tessera"))
            return true;
    }
    return !strcmp(name->text, "tessera") || !strcmp(name->text, "ts");
}

bool kernel_decorator(const AstFunctionDef *def, const Ast *d)
{
    bool inside;
    const AstName *root = chain_root(d, &inside);

    return root && (inside ? is_tessera(def, root->id) : !strcmp(root->id->text, "kernel"));
}

/* A program's own `kernel` is none of ours; an imported one is. */
static bool own_kernel(const AstFunctionDef *def)
{
    const Local *own = bound_around(def, sym("kernel"));
    const Ast *n = own ? own->node : NULL;

    return own && (!n || (n->kind != AST_ImportFrom && n->kind != AST_Alias && n->kind != AST_Import));
}

bool kernel_def(const AstFunctionDef *def)
{
    for (int i = 0; i < def->decorators.n; i++) {
        bool inside;
        if (kernel_decorator(def, def->decorators.at[i]))
            return (chain_root(def->decorators.at[i], &inside), inside) || !own_kernel(def);
    }
    return false;
}

/* ------------------------------------------------------------- parameters */

static const char *form_name(const Ast *a)
{
    while (AST_IS(a, BinOp) && AST_AS(a, BinOp)->op == AOP_MATMUL)  /* Tile @ memory.global */
        a = AST_AS(a, BinOp)->left;
    if (AST_IS(a, Subscript))
        a = AST_AS(a, Subscript)->value;
    if (AST_IS(a, Attribute))
        return AST_AS(a, Attribute)->attr->text;
    return AST_IS(a, Name) ? AST_AS(a, Name)->id->text : "";
}

KernelParamKind kernel_param_kind(const AstParam *p)
{
    const char *s = form_name(p->annotation);

    if (!strcmp(s, "Tensor"))
        return KPARAM_TENSOR;
    if (!strcmp(s, "Region"))
        return KPARAM_REGION;
    if (!strcmp(s, "KTile") || !strncmp(s, "Tile", 4))
        return KPARAM_TILE;
    return !strcmp(s, "int") || !strcmp(s, "float") || !strcmp(s, "bool") ? KPARAM_NUMBER : KPARAM_OTHER;
}

bool kernel_param_leads(const KernelForm *form, const AstParam *p)
{
    return !form->numbered && p && !strcmp(form_name(p->annotation), "KTile");
}

/* ------------------------------------------------------------- the body */

/* The row of the prelude that a name is, or that an import makes it; NULL: it is another thing. */
static const PreludeRow *row_named(const AstName *n)
{
    if (n->bind == BIND_PRELUDE)
        return prelude_row((int)n->slot);
    return n->bind == BIND_GLOBAL && n->space ? prelude_row(n->space - 1) : NULL;
}

/* The namespace or native that a dotted name stands for: tile.warp.shuffle, ts.tile.load, an imported mask_causal. */
static const Space *space_named(const Ast *e)
{
    const PreludeRow *r;

    if (AST_IS(e, Attribute)) {
        const Space *s = space_named(AST_AS(e, Attribute)->value);
        return s ? space_member(s, AST_AS(e, Attribute)->attr) : NULL;
    }
    if (!AST_IS(e, Name))
        return NULL;
    r = row_named(AST_AS(e, Name));
    return r && r->kind == PRELUDE_SPACE ? space_builtin(r->module) : NULL;
}

const KernelOp *kernel_called(const AstCall *c)
{
    const Ast *f = c->func;
    const PreludeRow *r;
    const Space *s;

    if (AST_IS(f, Name)) {
        r = AST_AS(f, Name)->bind == BIND_PRELUDE ? prelude_row((int)AST_AS(f, Name)->slot) : NULL;
        if (r)
            return r->kind == PRELUDE_NATIVE ? kernel_op_of(r->native) : NULL;
        return AST_AS(f, Name)->bind == BIND_GLOBAL ? kernel_op_of(native_find("tile", AST_AS(f, Name)->id->text)) : NULL;
    }
    s = AST_IS(f, Attribute) ? space_named(AST_AS(f, Attribute)->value) : NULL;
    return s ? kernel_op_of(native_find(s->name, AST_AS(f, Attribute)->attr->text)) : NULL;
}

/* Signatures name their first two parameters in order: "(src: Place, dst: Place ..." */
int kernel_memory_arg(const KernelOp *op, Sym name, int *at)
{
    const char *p = op->sig + 1;

    if (!name)
        return *at < 2 ? (*at)++ : -1;
    for (int i = 0; i < 2; i++) {
        size_t n = strcspn(p, ":,)");
        if (strlen(name->text) == n && !strncmp(p, name->text, n))
            return i;
        p = strstr(p, ", ");
        if (!p)
            return -1;
        p += 2;
    }
    return -1;
}

typedef struct { KernelForm *form; int depth; } Walk;

static KernelParam *param_at(Walk *w, const Ast *e)
{
    while (AST_IS(e, Subscript))
        e = AST_AS(e, Subscript)->value;
    for (int i = 0; AST_IS(e, Name) && i < w->form->n; i++)
        if (w->form->param[i].param->name == AST_AS(e, Name)->id)
            return &w->form->param[i];
    return NULL;
}

static void touch(Walk *w, const Ast *e, bool write)
{
    KernelParam *p = param_at(w, e);

    if (p && write)
        p->written = true;
    else if (p)
        p->read = true;
}

/* cache.K, of a parameter that is no tensor as far as its annotation says. */
static void note_field(Walk *w, const AstAttribute *e)
{
    KernelForm *f = w->form;
    const KernelParam *p = AST_IS(e->value, Name) ? param_at(w, e->value) : NULL;

    if (!p || p->kind != KPARAM_OTHER || f->nfields == KERNEL_FIELDS)
        return;
    for (int i = 0; i < f->nfields; i++)
        if (f->field[i].param == p - f->param && f->field[i].attr == e->attr)
            return;
    f->field[f->nfields++] = (KernelField){(int)(p - f->param), e->attr};
}

static bool walk(Ast *n, void *state);

/* x[a:b, c]: a block of it. */
static bool is_block(const Ast *t)
{
    const Ast *index = AST_AS(t, Subscript)->index;

    for (int i = 0; AST_IS(index, Tuple) && i < AST_AS(index, Tuple)->elts.n; i++)
        if (AST_IS(AST_AS(index, Tuple)->elts.at[i], Slice))
            return true;
    return AST_IS(index, Slice);
}

static void walk_call(Walk *w, AstCall *c)
{
    const KernelOp *op = kernel_called(c);
    int at = 0;

    if (op) {
        KernelOpId id = kernel_op_id(op);
        w->form->levels |= 1u << op->level;
        w->form->numbered |= id == KOP_linear_id || id == KOP_local_id || id == KOP_lane_id;
        w->form->in_launch |= id == KOP_linear_id;
        w->form->shares |= id == KOP_range;
        w->form->atomic |= (op->effects & KERNEL_ATOMIC) != 0;
        w->form->meets |= op->level == KERNEL_BLOCK && id != KOP_mma;
    }
    for (int i = 0; i < c->args.n; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        int k = op && a->ast.kind == AST_Arg ? kernel_memory_arg(op, a->name, &at) : -1;
        bool write = (k == 0 && op->effects & KERNEL_W0) || (k == 1 && op->effects & KERNEL_W1);
        if (write)
            touch(w, a->value, true);
        if (!write || op->effects & KERNEL_ATOMIC)
            walk(c->args.at[i], w);
        for (Ast *s = write ? a->value : NULL; AST_IS(s, Subscript); s = AST_AS(s, Subscript)->value)
            walk(AST_AS(s, Subscript)->index, w);
    }
    walk(c->func, w);
}

static void walk_target(Walk *w, Ast *t, bool update)
{
    if (AST_IS(t, Tuple)) {
        for (int i = 0; i < AST_AS(t, Tuple)->elts.n; i++)
            walk_target(w, AST_AS(t, Tuple)->elts.at[i], update);
        return;
    }
    if (!AST_IS(t, Subscript))
        return;
    w->form->blocks |= param_at(w, t) && is_block(t);
    touch(w, t, true);
    if (update)
        touch(w, t, false);
    for (; AST_IS(t, Subscript); t = AST_AS(t, Subscript)->value)
        walk(AST_AS(t, Subscript)->index, w);
    if (AST_IS(t, Attribute))
        walk(t, w);
}

static bool walk(Ast *n, void *state)
{
    Walk *w = state;

    if (!n || w->depth > DEPTH)
        return true;
    w->depth++;
    switch (n->kind) {
    case AST_Call:
        walk_call(w, AST_AS(n, Call));
        break;
    case AST_Assign:
        walk(AST_AS(n, Assign)->value, w);
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            walk_target(w, AST_AS(n, Assign)->targets.at[i], false);
        break;
    case AST_AugAssign:
        walk(AST_AS(n, AugAssign)->value, w);
        walk_target(w, AST_AS(n, AugAssign)->target, true);
        break;
    case AST_Return:
        w->form->returns |= AST_AS(n, Return)->value != NULL;
        walk(AST_AS(n, Return)->value, w);
        break;
    case AST_Attribute:                             /* x.shape reads no element */
        note_field(w, AST_AS(n, Attribute));
        if (!AST_IS(AST_AS(n, Attribute)->value, Name) || !param_at(w, AST_AS(n, Attribute)->value))
            walk(AST_AS(n, Attribute)->value, w);
        break;
    case AST_Name:
        touch(w, n, false);
        w->form->blocks |= AST_AS(n, Name)->bind != BIND_LOCAL && !strncmp(AST_AS(n, Name)->id->text, "block_", 6) &&
                           schedule_is_implicit(AST_AS(n, Name)->id->text);
        break;
    default:
        ast_walk(n, walk, w);
    }
    w->depth--;
    return true;
}

void kernel_form(const AstFunctionDef *def, KernelForm *out)
{
    Walk w = {out, 0};

    *out = (KernelForm){.n = 0};
    for (int i = 0; i < def->params.n && out->n < KERNEL_PARAMS; i++) {
        const AstParam *p = AST_AS(def->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->name && p->kind <= PARAM_KWARGS)
            out->param[out->n++] = (KernelParam){p, kernel_param_kind(p), false, false};
    }
    for (int i = 0; i < def->body.n; i++)
        walk(def->body.at[i], &w);
}
