/*
 * Tuples whose elements have names: class Point(NamedTuple), and namedtuple("Point", "x y"), which makes such a class from texts.
 *
 * An object of one is an instance whose fields are known like a dataclass's; where it is unpacked, indexed or gone through it is the
 * tuple of them.
 */
#include "frontend/check/checker.h"

#include "frontend/check/spaces.h"

#include <string.h>

const Type *record_tuple(const Type *t)
{
    const Cls *c = !type_is_any(t) && t->kind == TY_INSTANCE ? t->ref : NULL;
    const Inst *inst = c ? t->inst : NULL;
    const Type *m[ITEMS_MAX];
    AstParam field[ITEMS_MAX];
    int n;

    if (!c || !c->is_record)
        return t;
    n = cls_fields(c, field, ITEMS_MAX);
    for (int i = 0; i < n; i++) {
        uintptr_t held = 0;
        if (!inst || !map_find(&inst->stored, (uintptr_t)field[i].name, &held) || !held)
            held = (uintptr_t)cls_declared(c, field[i].name);
        m[i] = held ? (const Type *)held : T_ANY;
    }
    return type_tuple(m, n);
}

/* The names in "x y", "x, y" or ["x", "y"]; -1: not known. */
static int names_of(const Type *t, Sym *out)
{
    const Type *const *item;
    int n = type_items(t, &item);

    for (int i = 0; i < n; i++) {
        if (type_is_any(item[i]) || item[i]->kind != TY_STR || !item[i]->text)
            return -1;
        out[i] = item[i]->text;
    }
    if (n >= 0 || t->kind != TY_STR || !t->text)
        return n;
    n = 0;
    for (const char *s = t->text->text; *(s += strspn(s, " ,")); s += strcspn(s, " ,")) {
        if (n == ITEMS_MAX)
            return -1;
        out[n++] = sym_n(s, strcspn(s, " ,"));
    }
    return n;
}

static Ast *field_of(Check *C, Sym name, Span span)
{
    AstAnnAssign *a = ast_new(&C->arena, AnnAssign, span);
    AstName *target = ast_new(&C->arena, Name, span);

    target->id = name;
    a->target = (Ast *)target;
    return (Ast *)a;
}

const Type *record_made(Check *C, const CallArgs *a, Ast *node)
{
    Sym name[ITEMS_MAX];
    Cls *c = map_get_ptr(&C->cls_of, node);
    const Type *base = NULL;
    AstClassDef *def;
    Ast **body;
    int n = a->n == 2 && !a->open && !a->at[0].name && !a->at[1].name && !type_is_any(a->at[1].type) ? names_of(a->at[1].type, name) : -1;

    if (n <= 0 || type_is_any(a->at[0].type) || a->at[0].type->kind != TY_STR || !a->at[0].type->text || C->frame->fn)
        return T_ANY;                               /* in a function each call may make another */
    if (c)
        return type_ref(TY_CLASS, c);
    base = space_type(C, space_builtin("typing"), sym("NamedTuple"));
    if (type_is_any(base) || base->kind != TY_CLASS)
        return T_ANY;
    body = arena_array(&C->arena, Ast *, n);
    for (int i = 0; i < n; i++)
        body[i] = field_of(C, name[i], node->span);
    def = ast_new(&C->arena, ClassDef, node->span);
    def->name = a->at[0].type->text;
    def->body = (AstSeq){body, n};
    c = arena_new(&C->arena, Cls);
    *c = (Cls){.def = def, .home = C->home, .name = def->name, .base = (Cls *)base->ref, .is_record = true};
    for (int i = 0; i < n; i++)
        map_set_ptr(&c->declared, name[i], T_ANY);
    map_set_ptr(&C->cls_of, node, c);
    return type_ref(TY_CLASS, c);
}
