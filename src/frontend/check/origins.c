/*
 * Origins: where the sizes of a mistake were written.
 *
 * A message about two sizes that differ names the places that made them so: from
 * the operand that has the size back through variables, attributes and calls,
 * each step to what has that size too, until a number, an annotation or an
 * operation brings it in.  Every variable and attribute remembers the
 * expression that it was last given.
 */
#include "frontend/check/checker.h"

#include <string.h>

enum { HOPS = 24, LABELS = 8, WITHIN = 3, MADE_HOPS = 4 };     /* MADE_HOPS: behind what makes a size of others */

typedef struct {
    Check *C;
    Diag *d;
    Dim size;                   /* DIM_BAD: the definition is asked for */
    CFrame *frame;
    int hops, most;             /* labels that the message may have by the end of this */
    bool policy;                /* the numeric policy is asked for */
} Trace;

/* ------------------------------------------------------------- which types have a size */

static bool dim_has(Dim d, Dim size)
{
    Dim v[16];
    int n;

    if (d == size)
        return true;
    if (dim_is_const(d) || d == DIM_BAD || dim_is_const(size))
        return false;
    n = dim_vars(d, v, 16);
    for (int i = 0; i < n; i++)
        if (v[i] == size)
            return true;
    return false;
}

/* DIM_BAD: any size at all. */
static bool mentions(const Type *t, Dim size, int within)
{
    if (type_is_any(t) || within > WITHIN)
        return false;
    if (size == DIM_BAD)
        return t->kind == TY_TENSOR || t->kind == TY_INSTANCE || t->kind == TY_INT;
    switch (t->kind) {
    case TY_INT:
        return t->value != DIM_BAD && dim_has(t->value, size);
    case TY_TENSOR:
        for (int i = 0; t->tensor->rank != RANK_UNKNOWN && i < t->tensor->rank; i++)
            if (dim_has(t->tensor->shape[i], size))
                return true;
        return false;
    case TY_TUPLE: case TY_LIST: case TY_DICT:
        for (int i = 0; t->item && i < (t->n < 0 ? 1 : t->n); i++)
            if (mentions(t->item[i], size, within + 1))
                return true;
        return false;
    case TY_INSTANCE: {
        const Inst *o = t->inst;
        for (uint32_t i = 0; o && i < o->stored.cap; i++)
            if (o->stored.key[i] && mentions((const Type *)o->stored.val[i], size, within + 1))
                return true;
        return false;
    }
    case TY_METHOD:
        return mentions(t->self, size, within + 1);
    default:
        return false;
    }
}

/* ------------------------------------------------------------- walking back */

static void trace(Trace *t, Ast *e);

/* "bf16 @accum(f32) comes from here", for the first place on the way that brings the policy in; both may stand in one line. */
static void label_policy(Trace *t, const Type *at, Span span, const char *what)
{
    bool has = !type_is_any(at) && at->kind == TY_TENSOR && at->tensor->policy;

    for (int i = 0; i < t->d->labels.n; i++)
        has = has && (t->d->labels.at[i].span.lo != span.lo || t->d->labels.at[i].span.hi != span.hi);
    if (has && span.hi && (t->d->span.lo > span.lo || t->d->span.hi < span.hi))
        diag_label(t->d, span, "%s %s", element_text(at->tensor->dtype, at->tensor->policy), what);
}

/* Is the line spoken of already: by the same words, or at a place that this one lies in or around? */
static bool labelled(const Diag *d, Span span, const char *text)
{
    for (int i = 0; i < d->labels.n; i++) {
        Span s = d->labels.at[i].span;
        if (source_place(s.lo).line == source_place(span.lo).line && ((s.lo < span.hi && span.lo < s.hi) || !strcmp(d->labels.at[i].text, text)))
            return true;
    }
    return false;
}

/* "32 comes from here"; where no size is asked for, "Tensor[32, f32] comes from here". e: the expression there, or NULL. */
static void label(Trace *t, const Ast *e, Span span, const char *what)
{
    StrBuf text = {0};

    if (t->policy) {
        label_policy(t, e ? type_found(e) : NULL, span, what);
        return;
    }
    if (t->d->labels.n >= t->most || source_place(t->d->span.lo).line == source_place(span.lo).line || !span.hi)
        return;
    if (t->size != DIM_BAD) {
        dim_print(t->size, &text);
        sb_printf(&text, " %s", what);
    } else if (e && !type_is_any(type_found(e))) {
        sb_printf(&text, "%s %s", type_text(type_found(e)), what);
    } else {
        sb_printf(&text, "%s", what);
    }
    if (!labelled(t->d, span, t->size == DIM_BAD ? "" : sb_str(&text)))
        diag_label(t->d, span, "%s", sb_str(&text));
    sb_done(&text);
}

/* The types in a tree are those of its last walk, perhaps for another call: have those of this frame. */
static void look_again(Check *C, CFrame *f, Ast *e)
{
    CFrame *frame = C->frame;
    Home *home = C->home;
    Diag *last = C->last;
    bool shown = C->shown;

    C->frame = f;
    C->home = f->home;
    C->quiet++;
    expr(C, e);
    C->quiet--;
    C->home = home;
    C->frame = frame;
    C->last = last;
    C->shown = shown;
}

static void in_frame(Trace *t, CFrame *f, Ast *e)
{
    CFrame *was = t->frame;

    if (!f || !e || !f->home || f->home->library)
        return;
    if (f != was)
        look_again(t->C, f, e);
    t->frame = f;
    trace(t, e);
    t->frame = was;
}

static void trace_param(Trace *t, CFrame *f, AstParam *p)
{
    if (t->policy && p->annotation && f->fn)
        label_policy(t, f->fn->sig.param[p->slot], p->annotation->span, "is declared here");
    else if (p->annotation && p->annotation->kind == AST_Subscript)
        label(t, NULL, p->annotation->span, t->size == DIM_BAD ? "declared here" : "is declared here");
    if (f->caller && f->arg && f->arg[p->slot])
        in_frame(t, f->caller, f->arg[p->slot]);
}

static void trace_given(Trace *t, CFrame *f, Ast *from)
{
    if (!from)
        return;
    if (from->kind == AST_Param)
        trace_param(t, f, AST_AS(from, Param));
    else
        in_frame(t, f, from);
}

typedef struct { const AstName *use; Ast *value; } Before;

static bool find_before(Ast *e, void *state)
{
    Before *b = state;
    const AstAssign *a = AST_AS(e, Assign);

    if (!e)
        return true;
    if (e->kind == AST_Assign && a->value && a->value->span.hi <= b->use->ast.span.lo)
        for (int i = 0; i < a->targets.n; i++)
            if (AST_IS(a->targets.at[i], Name) && AST_AS(a->targets.at[i], Name)->id == b->use->id)
                b->value = a->value;
    ast_walk(e, find_before, state);
    return true;
}

/* The last value that the function's text gives to a variable before this use; NULL: none is plainly there. */
static Ast *given_before(const Fn *f, const AstName *use)
{
    Before b = {use, NULL};
    AstSeq body = f->node->kind == AST_FunctionDef ? AST_AS(f->node, FunctionDef)->body : (AstSeq){0};

    for (int i = 0; i < body.n; i++)
        find_before(body.at[i], &b);
    return b.value;
}

/* The frame that a captured variable belongs to, and its slot there. */
static void trace_name(Trace *t, AstName *n)
{
    CFrame *f = t->frame;
    Ast *from;

    if ((n->bind == BIND_LOCAL || n->bind == BIND_CELL) && (int)n->slot < f->nvar) {
        from = f->from[n->slot];
        if (from && from->kind != AST_Param && f->fn && from->span.lo <= n->ast.span.lo && n->ast.span.hi <= from->span.hi)
            in_frame(t, f, given_before(f->fn, n));         /* y = g(y): what y was before */
        else
            trace_given(t, f, from);
    } else if (n->bind == BIND_GLOBAL && f->home && (int)n->slot < f->home->nglob) {
        from = f->home->from[n->slot];
        if (from && from->kind == AST_Int) {
            StrBuf what = {0};
            sb_printf(&what, t->size == DIM_BAD ? "given to %s here" : "comes from %s", n->id->text);
            label(t, from, from->span, sb_str(&what));
            sb_done(&what);
        }
        else
            trace_given(t, &f->home->frame, from);
    } else if (n->bind == BIND_FREE || n->bind == BIND_DIM) {
        for (CFrame *up = f->up; up; up = up->up) {
            const Local *l = up->scope->kind == SCOPE_MODULE ? NULL : scope_local(up->scope, n->id);
            if (!l)
                continue;
            if ((int)l->slot < up->nvar)
                trace_given(t, up, up->from[l->slot]);
            return;
        }
    }
}

/* Where the class declares the field: name: Tensor[...]; NULL: nowhere. */
static Ast *field_annotation(const Cls *c, Sym name)
{
    for (; c; c = c->base)
        for (int i = 0; !c->home->library && i < c->def->body.n; i++) {
            const AstAnnAssign *a = AST_AS(c->def->body.at[i], AnnAssign);
            if (AST_IS(c->def->body.at[i], AnnAssign) && AST_IS(a->target, Name) && AST_AS(a->target, Name)->id == name)
                return a->annotation;
        }
    return NULL;
}

static void trace_attribute(Trace *t, AstAttribute *a)
{
    const Ast *declared;

    const Type *self = type_found(a->value);
    const Site *s = NULL;

    if (!type_is_any(self) && self->kind == TY_INSTANCE) {
        if (t->policy && (declared = field_annotation(self->ref, a->attr)))
            label_policy(t, cls_declared(self->ref, a->attr), declared->span, "is declared here");
        if (self->inst)
            s = map_get_ptr(&((const Inst *)self->inst)->sites, a->attr);
        for (const Cls *c = self->ref; c && !s; c = c->base)
            s = map_get_ptr(&c->sites, a->attr);
        if (s && s->frame && !s->frame->home->library) {
            label(t, s->value, s->value->span, "comes from here");
            in_frame(t, s->frame, s->value);
        }
        return;
    }
    trace(t, a->value);
}

/* [a, b] of unlike tensors, whose own type says nothing of sizes. */
static bool display_mentions(const Ast *e, Dim size)
{
    AstSeq elts = AST_IS(e, List) ? AST_AS(e, List)->elts : AST_IS(e, Tuple) ? AST_AS(e, Tuple)->elts : (AstSeq){0};

    for (int i = 0; i < elts.n; i++) {
        const Type *t = type_found(elts.at[i]);
        if (!type_is_any(t) && t->kind == TY_TENSOR && mentions(t, size, 0))
            return true;
    }
    return false;
}

/* Of the labels up to `most` the next of so many parts may have this share, one at least. */
static void share(Trace *t, int most, int parts)
{
    int left = most - t->d->labels.n, mine = left / (parts > 0 ? parts : 1);     /* a walk back may look at more than there were */

    t->most = t->d->labels.n + (mine > 0 ? mine : left > 0);
}

/* What the size was made of: where each part that is known came from, a few steps back. */
static void trace_made(Trace *t, Ast *const *part, int n)
{
    Dim size = t->size;
    int hops = t->hops, most = t->most;

    t->size = DIM_BAD;
    for (int i = 0; i < n; i++) {
        const Type *x = part[i] ? type_found(part[i]) : T_ANY;
        share(t, most, n - i);
        AstSeq elts = AST_IS(part[i], List) ? AST_AS(part[i], List)->elts : AST_IS(part[i], Tuple) ? AST_AS(part[i], Tuple)->elts : (AstSeq){0};
        t->hops = MADE_HOPS < hops ? MADE_HOPS : hops;
        if (elts.n)
            trace_made(t, elts.at, elts.n);
        else if (!type_is_any(x) && (x->kind == TY_TENSOR || (x->kind == TY_INT && AST_IS(part[i], Name))))
            trace(t, part[i]);
    }
    t->size = size;
    t->hops = hops;
    t->most = most;
}

static bool has_size(const Trace *t, const Ast *part)
{
    return part && (mentions(type_found(part), t->size, 0) || display_mentions(part, t->size));
}

/* Those of the parts that have the size: how many there are. */
static int trace_having(Trace *t, Ast *const *part, int n)
{
    int have = 0, most = t->most, left;

    for (int i = 0; i < n; i++)
        have += has_size(t, part[i]);
    left = have;
    for (int i = 0; i < n; i++)
        if (has_size(t, part[i])) {
            share(t, most, left--);
            trace(t, part[i]);
        }
    t->most = most;
    return have;
}

/* The same; where there are none the size is made here, of what the parts are. */
static void trace_parts(Trace *t, Ast *whole, Ast *const *part, int n)
{
    if (trace_having(t, part, n))
        return;
    label(t, whole, whole->span, "is made here");
    if (t->size != DIM_BAD && !t->policy)
        trace_made(t, part, n);
}

/* The function of the program that a call runs; NULL: another, or not known. */
static const Fn *called(const AstCall *c)
{
    const Type *f = type_found(c->func);

    if (type_is_any(f))
        return NULL;
    f = f->kind == TY_INSTANCE ? cls_callee(f->ref) : f->kind == TY_METHOD ? f->ref : f;
    return f && f->kind == TY_FUNC && !((const Fn *)f->ref)->around->home->library ? f->ref : NULL;
}

/* An object of the program's that is called, or what such a call gives: where the object was made tells how. */
static bool is_layer(const Ast *e)
{
    if (AST_IS(e, Call))
        e = AST_AS(e, Call)->func;
    return AST_IS(e, Attribute) && !type_is_any(type_found(e)) && type_found(e)->kind == TY_INSTANCE;
}

/* What the body of a function ends with; NULL: nothing, or that is not so simple. */
static Ast *returned(const Fn *f)
{
    AstSeq body = f->node->kind == AST_FunctionDef ? AST_AS(f->node, FunctionDef)->body : (AstSeq){0};
    Ast *last = body.n ? body.at[body.n - 1] : NULL;

    return AST_IS(last, Return) ? AST_AS(last, Return)->value : NULL;
}

/* In what a function gives, where the size is: of a dict and a tuple the parts that have it. */
static void trace_returned(Trace *t, const Fn *f)
{
    Ast *value = returned(f);
    AstSeq parts = AST_IS(value, Dict) ? AST_AS(value, Dict)->items : AST_IS(value, Tuple) ? AST_AS(value, Tuple)->elts : (AstSeq){0};

    for (int i = 0; i < parts.n; i++) {
        Ast *part = AST_IS(parts.at[i], DictItem) ? AST_AS(parts.at[i], DictItem)->value : parts.at[i];
        if (part && mentions(type_found(part), t->size, 0))
            label(t, part, part->span, "comes from here");
    }
    if (value && !parts.n)
        label(t, t->size == DIM_BAD ? value : NULL, value->span, t->size == DIM_BAD ? "is returned here" : "is in what is returned here");
}

/* Of an object's attributes that have the size, the first one that is stored behind `last` in the text; NULL: none is. */
static const Site *next_stored(const Trace *t, const Inst *o, const Site *last)
{
    const Site *next = NULL;

    for (uint32_t i = 0; i < o->sites.cap; i++) {
        const Site *s = o->sites.key[i] ? (const Site *)o->sites.val[i] : NULL;
        const Type *x = s && s->value ? map_get_ptr(&o->stored, (void *)o->sites.key[i]) : NULL;
        if (x && x->kind != TY_INT && s->frame && !s->frame->home->library && mentions(x, t->size, 0) &&
            (!last || s->value->span.lo > last->value->span.lo) && (!next || s->value->span.lo < next->value->span.lo))
            next = s;
    }
    return next;
}

/* Which attributes of an object that was called have the size, by where they were stored. */
static void trace_object(Trace *t, const Type *object)
{
    const Inst *o = object->inst;
    const Site *s = o && !((const Cls *)object->ref)->home->library ? next_stored(t, o, NULL) : NULL;

    for (; s; s = next_stored(t, o, s))
        label(t, NULL, s->value->span, "comes from here");
}

static void trace_call(Trace *t, AstCall *c)
{
    const Type *callee = type_found(c->func);
    const Fn *f = called(c);
    Ast *part[ITEMS_MAX];
    int n = 0;

    if (f && f->node->kind == AST_FunctionDef && !t->policy && f->sig.ret && AST_AS(f->node, FunctionDef)->returns &&
        (t->size == DIM_BAD || !dim_is_const(t->size) || mentions(f->sig.ret, t->size, 0)))
        label(t, NULL, AST_AS(f->node, FunctionDef)->returns->span, t->size == DIM_BAD ? "declared here" : "is declared here");
    else if (f && !t->policy)
        trace_returned(t, f);
    part[n++] = AST_IS(c->func, Attribute) && !(!type_is_any(callee) && callee->kind == TY_INSTANCE)
                    ? AST_AS(c->func, Attribute)->value : c->func;
    for (int i = 0; i < c->args.n && n < ITEMS_MAX; i++)
        if (AST_IS(c->args.at[i], Arg))
            part[n++] = AST_AS(c->args.at[i], Arg)->value;
    if (t->size != DIM_BAD && !t->policy && !type_is_any(callee) && callee->kind == TY_INSTANCE)
        trace_object(t, callee);
    if (trace_having(t, part, n))
        return;
    label(t, (Ast *)c, c->ast.span, "is made here");
    if (t->size != DIM_BAD && n && is_layer(part[0])) {     /* it made the size of another one */
        Dim size = t->size;
        t->size = DIM_BAD;
        trace(t, part[0]);
        t->size = size;
    }
    if (t->size != DIM_BAD && !t->policy)
        trace_made(t, part, n);
}

static void parts_of_dict(Trace *t, Ast *value)
{
    if (mentions(type_found(value), t->size, 0))
        trace(t, value);
}

static void trace(Trace *t, Ast *e)
{
    if (!e || t->hops-- <= 0 || t->d->labels.n >= t->most)
        return;
    switch (e->kind) {
    case AST_Name:
        trace_name(t, AST_AS(e, Name));
        break;
    case AST_Attribute:
        trace_attribute(t, AST_AS(e, Attribute));
        break;
    case AST_Int:
        label(t, e, e->span, "is written here");
        break;
    case AST_Call:
        label(t, e, e->span, "comes from here");
        trace_call(t, AST_AS(e, Call));
        break;
    case AST_BinOp:
        label(t, e, e->span, "comes from here");
        trace_parts(t, e, (Ast *[]){AST_AS(e, BinOp)->left, AST_AS(e, BinOp)->right}, 2);
        break;
    case AST_UnaryOp:
        trace(t, AST_AS(e, UnaryOp)->operand);
        break;
    case AST_Subscript:
        label(t, e, e->span, "comes from here");
        trace_parts(t, e, (Ast *[]){AST_AS(e, Subscript)->value, AST_AS(e, Subscript)->index}, 2);
        break;
    case AST_Tuple:
        label(t, t->size == DIM_BAD ? e : NULL, e->span, "comes from here");
        trace_parts(t, e, AST_AS(e, Tuple)->elts.at, AST_AS(e, Tuple)->elts.n);
        break;
    case AST_List:
        trace_parts(t, e, AST_AS(e, List)->elts.at, AST_AS(e, List)->elts.n);
        break;
    case AST_Dict:
        for (int i = 0; i < AST_AS(e, Dict)->items.n; i++)
            if (AST_IS(AST_AS(e, Dict)->items.at[i], DictItem) && AST_AS(AST_AS(e, Dict)->items.at[i], DictItem)->value)
                parts_of_dict(t, AST_AS(AST_AS(e, Dict)->items.at[i], DictItem)->value);
        break;
    case AST_ListComp:
        label(t, e, e->span, "comes from here");
        trace(t, AST_AS(e, ListComp)->elt);
        break;
    case AST_IfExp:
        trace_parts(t, e, (Ast *[]){AST_AS(e, IfExp)->body, AST_AS(e, IfExp)->orelse}, 2);
        break;
    case AST_Starred:
        trace(t, AST_AS(e, Starred)->value);
        break;
    default:
        label(t, e, e->span, "comes from here");
    }
}

/* ------------------------------------------------------------- asking */

void origin_of(Check *C, Diag *d, Ast *e, Dim size)
{
    Trace t = {C, d, size, C->home->library ? C->blame.frame : C->frame, HOPS, LABELS, false};

    if (C->shown && t.frame && e)
        trace(&t, e);
}

void origin_policies(Check *C, Diag *d, Ast *node)
{
    Trace t = {C, d, DIM_BAD, C->home->library ? C->blame.frame : C->frame, HOPS, LABELS, true};
    Ast *e = C->home->library ? C->blame.node : node;

    if (!C->shown || !e || !t.frame)
        return;
    if (e->kind == AST_Call)
        trace_call(&t, AST_AS(e, Call));
    else if (e->kind == AST_BinOp)
        trace_parts(&t, e, (Ast *[]){AST_AS(e, BinOp)->left, AST_AS(e, BinOp)->right}, 2);
    else if (e->kind == AST_Compare)
        trace_parts(&t, e, (Ast *[]){AST_AS(e, Compare)->left, AST_AS(AST_AS(e, Compare)->rest.at[0], CompareItem)->right}, 2);
    else
        trace(&t, e);
}

void origins(Check *C, Diag *d, Ast *node, const Dim *size, int n)
{
    Ast *e = C->home->library ? C->blame.node : node;
    Trace t = {C, d, DIM_BAD, C->home->library ? C->blame.frame : C->frame, HOPS, LABELS, false};

    if (!C->shown || !e || !t.frame)
        return;
    for (int i = 0; i < n; i++) {
        t.size = size[i];
        t.hops = HOPS;
        t.most = LABELS * (i + 1) / n;
        if (e->kind == AST_Call)
            trace_call(&t, AST_AS(e, Call));
        else if (e->kind == AST_BinOp)
            trace_parts(&t, e, (Ast *[]){AST_AS(e, BinOp)->left, AST_AS(e, BinOp)->right}, 2);
        else
            trace(&t, e);
    }
}

void origin_sizes(Check *C, Diag *d, CFrame *f, const Ast *annotation, const TType *want, const TType *got)
{
    Trace t = {C, d, DIM_BAD, f, HOPS, LABELS, false};
    const AstSubscript *s = AST_AS(annotation, Subscript);
    Ast *one = AST_IS(annotation, Subscript) ? s->index : NULL;
    AstSeq elts = AST_IS(one, Tuple) ? AST_AS(one, Tuple)->elts : (AstSeq){&one, one != NULL};

    for (int i = 0; C->shown && d && f && i < want->rank && want->rank == got->rank && want->rank != RANK_UNKNOWN; i++)
        if (i < elts.n && (AST_IS(elts.at[i], Name) || AST_IS(elts.at[i], BinOp)) &&
            dim_eq(want->shape[i], got->shape[i], NULL, NULL) != DIM_PROVED) {
            t.size = want->shape[i];
            t.hops = HOPS;
            trace(&t, elts.at[i]);
        }
}

/* An argument that its parameter does not take, in this call `need`: both sides, and the parameter that gave a shared name its size. */
void origin_declared(Check *C, const Fn *f, const AstParam *p, const TType *want, const TType *need, const TType *got, Ast *arg)
{
    Diag *d = C->last;

    if (!d || f->around->home->library)
        return;
    if (p->annotation)
        diag_label(d, p->annotation->span, "declared here");
    if (!want || !got || want->rank != got->rank || want->rank == RANK_UNKNOWN)
        return;
    for (int i = 0; i < want->rank; i++) {
        if (dim_eq(need->shape[i], got->shape[i], NULL, NULL) == DIM_PROVED)
            continue;
        for (int k = 0; k < f->params.n; k++) {
            const AstParam *q = AST_AS(f->params.at[k], Param);
            if (q == p)
                break;
            if (q->ast.kind == AST_Param && q->annotation && q->name && mentions(f->sig.param[q->slot], want->shape[i], 0)) {
                diag_label(d, q->annotation->span, "this parameter tells the size");
                break;
            }
        }
        origin_of(C, d, arg, got->shape[i]);
    }
    origin_sizes(C, d, f->around, p->annotation, want, got);
}

/* A value that a variable which was declared before does not take. */
void origin_stored(Check *C, const TType *want, const TType *got, Ast *value)
{
    for (int i = 0; want->rank == got->rank && want->rank != RANK_UNKNOWN && i < want->rank; i++)
        if (dim_eq(want->shape[i], got->shape[i], NULL, NULL) != DIM_PROVED)
            origin_of(C, C->last, value, got->shape[i]);
}

/* Where a value has its number of axes from: no size tells, so a few steps back. */
static void trace_axes(Check *C, Diag *d, Ast *value)
{
    Trace t = {C, d, DIM_BAD, C->home->library ? C->blame.frame : C->frame, MADE_HOPS, LABELS, false};

    if (C->shown && t.frame && value)
        trace(&t, value);
}

/* A value that its variable's declaration does not take: both sides. */
void origin_annotated(Check *C, Ast *annotation, const TType *want, const TType *got, Ast *value)
{
    Diag *d = C->last;
    AstSubscript *s = AST_AS(annotation, Subscript);
    AstSeq elts = {0};

    if (d && want->rank != got->rank && want->rank != RANK_UNKNOWN && got->rank != RANK_UNKNOWN)
        trace_axes(C, d, value);
    if (!d || want->rank != got->rank || want->rank == RANK_UNKNOWN)
        return;
    if (annotation->kind == AST_Subscript)
        elts = AST_IS(s->index, Tuple) ? AST_AS(s->index, Tuple)->elts : (AstSeq){&s->index, 1};
    for (int i = 0; i < want->rank; i++) {
        if (dim_eq(want->shape[i], got->shape[i], NULL, NULL) == DIM_PROVED)
            continue;
        origin_of(C, d, value, got->shape[i]);
        if (i < elts.n && elts.at[i]->kind != AST_Int)
            origin_of(C, d, elts.at[i], want->shape[i]);
    }
}
