/*
 * Axes of meshes: with mesh.axis("data"), mesh_reduce(x, axis="model").
 *
 * A mesh's axes are known when one statement makes it and writes their names
 * out.  A function under @on_mesh(mesh), @spmd(mesh=mesh) and their kin runs on
 * that mesh, and so does what a `with mesh:` block holds.
 */
#include "frontend/check/effects.h"
#include "frontend/check/foreign.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH = 600, AXES_MAX = 8 };

typedef struct Axes { const char *name[AXES_MAX]; int n; Span made; } Axes;     /* n 0: not known */
typedef struct MeshWalk { Effects *E; Scope *scope; Axes ambient; int depth; } MeshWalk;

static const char *last_name(const Ast *e)
{
    return AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : AST_IS(e, Name) ? AST_AS(e, Name)->id->text : "";
}

static bool is_one_of(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (!strcmp(*list, name))
            return true;
    return false;
}

static Ast *keyword(const AstCall *c, const char *name)
{
    for (int i = 0; i < c->args.n; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        if (a->ast.kind == AST_Arg && a->name && !strcmp(a->name->text, name))
            return a->value;
    }
    return NULL;
}

static Ast *position(const AstCall *c, int k)
{
    const AstArg *a = k < c->args.n ? AST_AS(c->args.at[k], Arg) : NULL;

    return a && a->ast.kind == AST_Arg && !a->name && !a->stars ? a->value : NULL;
}

/* ------------------------------------------------------------- meshes */

/* Is the call one of the library's that make a mesh? A name that is not known yet counts by itself. */
static bool makes_mesh(MeshWalk *p, const AstCall *c)
{
    static const char *const makers[] = {"Mesh", "mesh", NULL};
    Things t = things_of(p->E, p->scope, c->func);

    for (int i = 0; i < t.n; i++)
        if ((t.at[i].kind == THING_CLASS && !((const EffCls *)t.at[i].p)->owner) ||
            (t.at[i].kind == THING_FN && !((const EffFn *)t.at[i].p)->owner))
            return false;
    return is_one_of(makers, last_name(c->func));
}

static Axes axes_of_call(MeshWalk *p, const AstCall *c)
{
    Axes a = {.made = c->ast.span};
    Ast *names = keyword(c, "axis_names") ? keyword(c, "axis_names") : keyword(c, "axes");
    AstSeq s;

    if (!names || !makes_mesh(p, c) || (!AST_IS(names, Tuple) && !AST_IS(names, List)))
        return a;
    s = AST_IS(names, Tuple) ? AST_AS(names, Tuple)->elts : AST_AS(names, List)->elts;
    for (int i = 0; i < s.n; i++)
        if (!AST_IS(s.at[i], Str) || s.n > AXES_MAX)
            return a;
    for (int i = 0; i < s.n; i++)
        a.name[a.n++] = AST_AS(s.at[i], Str)->value.s;
    return a;
}

/* What an attribute of an object of one of the program's classes is given, by one statement alone; NULL: not known. */
static const Given *attribute_given(MeshWalk *p, const AstAttribute *a)
{
    Things t = things_of(p->E, p->scope, a->value);
    const EffCls *c = t.n == 1 && t.at[0].kind == THING_INSTANCE ? t.at[0].p : NULL;

    return c && !c->owner ? map_get_ptr(&c->attrs, a->attr) : NULL;
}

/* The only value of a variable or attribute, and where it was written; e itself where it is neither. NULL: not known. */
static Ast *only_value(MeshWalk *p, Ast *e, Scope **scope)
{
    const Local *l = AST_IS(e, Name) ? things_local(p->E, p->scope, AST_AS(e, Name), NULL) : NULL;
    const Given *g = l && l->nbinds == 1 ? things_given(p->E, l) : AST_IS(e, Attribute) ? attribute_given(p, AST_AS(e, Attribute)) : NULL;

    *scope = g ? g->scope : p->scope;
    if (!AST_IS(e, Name) && !AST_IS(e, Attribute))
        return e;
    return g && !g->next && !g->held ? g->value : NULL;
}

static Axes axes_of(MeshWalk *p, Ast *e)
{
    Scope *scope;
    Ast *made = only_value(p, e, &scope);

    if (!AST_IS(made, Call))
        return (Axes){.n = 0};
    return axes_of_call(&(MeshWalk){.E = p->E, .scope = scope}, AST_AS(made, Call));
}

/* dp and data, tp and model, pp and pipeline, ep and expert stand for each other. */
static const char *alike(const char *name)
{
    static const char *const pairs[][2] = {{"dp", "data"}, {"tp", "model"}, {"pp", "pipeline"}, {"ep", "expert"}};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int k = 0; k < 2; k++)
            if (!strcmp(pairs[i][k], name))
                return pairs[i][!k];
    return name;
}

typedef struct { const Axes *a; int i; } Next;

static const char *next_axis(void *state)
{
    Next *n = state;

    return n->i < n->a->n ? n->a->name[n->i++] : NULL;
}

static void check_name(MeshWalk *p, const Axes *a, Ast *at)
{
    StrBuf list = {0};
    Next next = {a, 0};
    Scope *scope;
    const Ast *name = a->n && at ? only_value(p, at, &scope) : NULL;
    const char *near;
    Diag *d;

    if (!AST_IS(name, Str))
        return;
    for (int i = 0; i < a->n; i++)
        if (!strcmp(a->name[i], AST_AS(name, Str)->value.s) || !strcmp(a->name[i], alike(AST_AS(name, Str)->value.s)))
            return;
    for (int i = 0; i < a->n; i++)
        sb_printf(&list, "%s%s", i ? ", " : "", a->name[i]);
    d = DIAG_AT(p->E->sink, E0701, at->span, AST_AS(name, Str)->value.s, sb_str(&list));
    diag_label(d, a->made, "the mesh is made here");
    if (name != at)
        diag_label(d, name->span, "the axis is named here");
    near = closest_name(AST_AS(name, Str)->value.s, next_axis, &next);
    if (near) {
        diag_guess(d, span_quoted(name->span), AST_AS(name, Str)->value.s, near);
    }
    sb_done(&list);
}

/* One name, or several. */
static void check_names(MeshWalk *p, const Axes *a, Ast *names)
{
    AstSeq s = {0};

    if (AST_IS(names, Tuple))
        s = AST_AS(names, Tuple)->elts;
    else if (AST_IS(names, List))
        s = AST_AS(names, List)->elts;
    for (int i = 0; i < s.n; i++)
        check_name(p, a, s.at[i]);
    check_name(p, a, names);
}

/* ------------------------------------------------------------- uses */

/* dist.tensor(x, layout=ShardSpec(("row",), ("dp",)), mesh=mesh) */
static void check_layout(MeshWalk *p, const AstCall *c)
{
    Ast *e = keyword(c, "layout"), *mesh = keyword(c, "mesh");
    const AstCall *spec = AST_IS(e, Call) ? AST_AS(e, Call) : NULL;
    Axes a;

    if (!spec || !mesh)
        return;
    a = axes_of(p, mesh);
    if (!strcmp(last_name(spec->func), "ShardSpec"))
        check_names(p, &a, keyword(spec, "mesh_axes") ? keyword(spec, "mesh_axes") : position(spec, 1));
    else if (!strcmp(last_name(spec->func), "shard"))
        check_names(p, &a, keyword(spec, "axis") ? keyword(spec, "axis") : position(spec, 1));
}

static int written(const Ast *e)
{
    AstSeq s = AST_IS(e, Tuple) ? AST_AS(e, Tuple)->elts : AST_IS(e, List) ? AST_AS(e, List)->elts : (AstSeq){0};

    for (int i = 0; i < s.n; i++)
        if (AST_IS(s.at[i], Starred))
            return -1;
    return AST_IS(e, Tuple) || AST_IS(e, List) ? s.n : -1;
}

/* dist.mesh(axes=("dp", "tp"), shape=(4,)): a size for each name. */
static void check_shape(MeshWalk *p, const AstCall *c)
{
    Ast *shape = keyword(c, "shape");
    Axes a = shape ? axes_of_call(p, c) : (Axes){.n = 0};
    char want[64], have[32];
    int n = written(shape);

    if (!a.n || n < 0 || n == a.n)
        return;
    snprintf(want, sizeof want, "%d size%s, one for each axis", a.n, a.n == 1 ? "" : "s");
    snprintf(have, sizeof have, "%d", n);
    DIAG_AT(p->E->sink, E0906, shape->span, "the shape of a mesh", want, have);
}

static void check_call(MeshWalk *p, AstCall *c)
{
    static const char *const along[] = {"mesh_reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast_from",
                                        "scatter_ranks", "reduce_ranks", "mesh_shift", "ppermute", "barrier", "axis_index",
                                        "all_reduce_async", "all_gather_async", "reduce_scatter_async", "index_launch", NULL};
    static const struct { const char *name; int at; } by_position[] = {{"mesh_reduce", 1}, {"mesh_shift", 1}, {"axis_index", 0}};
    const char *name = last_name(c->func);
    Ast *axis;
    Axes a;

    check_layout(p, c);
    check_shape(p, c);
    if (!strcmp(name, "axis") && AST_IS(c->func, Attribute)) {
        a = axes_of(p, AST_AS(c->func, Attribute)->value);
        check_names(p, &a, position(c, 0));
        return;
    }
    axis = keyword(c, "axis");
    for (size_t i = 0; !axis && i < sizeof by_position / sizeof *by_position; i++)
        if (!strcmp(by_position[i].name, name))
            axis = position(c, by_position[i].at);
    if (!is_one_of(along, name) || !axis)
        return;
    a = keyword(c, "mesh") ? axes_of(p, keyword(c, "mesh")) : p->ambient;
    check_names(p, &a, axis);
}

static bool walk(Ast *n, void *state)
{
    MeshWalk *p = state;

    if (!n || p->depth > DEPTH)
        return true;
    p->depth++;
    if (n->kind == AST_Call)
        check_call(p, AST_AS(n, Call));
    if (n->kind == AST_With) {
        Axes was = p->ambient;
        ast_walk(n, walk, p);
        p->ambient = was;
    } else if (n->kind == AST_WithItem) {
        Axes a = axes_of(p, AST_AS(n, WithItem)->context);
        ast_walk(n, walk, p);
        if (a.n)
            p->ambient = a;
    } else if (n->kind != AST_FunctionDef && n->kind != AST_Lambda) {
        ast_walk(n, walk, p);
    }
    p->depth--;
    return true;
}

/* The mesh that a decorator runs the function on. */
static Axes decorated(MeshWalk *p, const AstFunctionDef *def)
{
    static const char *const on[] = {"on_mesh", "mesh_view", NULL};
    Axes a = {.n = 0};

    for (int i = 0; i < def->decorators.n && !a.n; i++) {
        AstCall *c = AST_AS(def->decorators.at[i], Call);
        if (c->ast.kind != AST_Call)
            continue;
        if (keyword(c, "mesh"))
            a = axes_of(p, keyword(c, "mesh"));
        else if (is_one_of(on, last_name(c->func)) && position(c, 0))
            a = axes_of(p, position(c, 0));
    }
    return a;
}

void meshes_check(Effects *E)
{
    MeshWalk module = {.E = E, .scope = E->u->module->scope};

    if (!strstr(E->u->src->text, "axis") && !strstr(E->u->src->text, "axes"))
        return;
    ast_walk((Ast *)E->u->module, walk, &module);
    for (int i = 0; i < E->own.n; i++) {
        EffFn *f = E->own.at[i];
        MeshWalk p = {.E = E, .scope = f->scope};
        if (!f->scope || f->node->kind != AST_FunctionDef)
            continue;
        p.ambient = decorated(&(MeshWalk){.E = E, .scope = f->scope->parent}, AST_AS(f->node, FunctionDef));
        for (int k = 0; k < AST_AS(f->node, FunctionDef)->body.n; k++)
            walk(AST_AS(f->node, FunctionDef)->body.at[k], &p);
    }
}
