/*
 * The prelude's rows, made once from three tables: natives without an owner,
 * the library's shown names, and the namespaces.  The first to claim a name has it.
 */
#include "frontend/prelude.h"

#include "frontend/eval/native.h"
#include "frontend/stdlib_embed.h"

#include "base/map.h"
#include "base/vec.h"

#include <string.h>

static Vec(PreludeRow) rows;
static int shown;               /* how many of them are names; the others are methods alone */
static Map row_of;              /* Sym -> row + 1 */
static Map types;               /* Sym of an owner that is a type -> one of its natives */
static Map methods;             /* Sym of a function that tensors have as a method -> row + 1 */
static Map spaces;              /* Sym of a namespace, or of one that holds others -> 1 */

static void add(const char *name, PreludeKind kind, const char *module, const void *native)
{
    PreludeRow r = {sym(name), kind, module, native};

    if (map_get_ptr(&row_of, r.name))
        return;
    vec_push(&rows, r);
    map_set(&row_of, (uintptr_t)r.name, (uintptr_t)rows.n);
}

/* Types own methods, not names: one native that takes self or cls, or a row "type[owner]", tells them. */
static void find_types(void)
{
    const char *known = NULL;

    for (int t = 0; native_tables[t]; t++)
        for (const NativeDef *d = native_tables[t]; d->name; d++) {
            if (*d->owner && d->sig && d->owner != known && (!strncmp(d->sig, "(self", 5) || !strncmp(d->sig, "(cls", 4)))
                map_set_ptr(&types, sym(known = d->owner), d);
            if (d->sig && !strncmp(d->sig, "type[", 5))
                map_set_ptr(&types, sym_n(d->sig + 5, strcspn(d->sig + 5, "]")), d);
        }
}

static bool is_type_owner(const char *owner)
{
    return map_get_ptr(&types, sym(owner)) != NULL;
}

/* "os.path" brings "os": the part before the first dot is the name that a program can use. */
static void add_space(const char *owner)
{
    const char *dot = strchr(owner, '.');
    Sym head = sym_n(owner, dot ? (size_t)(dot - owner) : strlen(owner));

    add(head->text, PRELUDE_SPACE, head->text, NULL);
}

static void add_exceptions(void)
{
    static const char *const names[] = {
#define EXC(name, base) #name,
#include "frontend/eval/exceptions.def"
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add(names[i], PRELUDE_EXCEPTION, "", NULL);
}

/* "os.path" is a namespace, and so is "os"; a type is none, though it may hold some. */
static void note_space(const char *dotted, bool library)
{
    for (const char *end = dotted + strcspn(dotted, "."); ; end += 1 + strcspn(end + 1, ".")) {
        Sym s = sym_n(dotted, (size_t)(end - dotted));
        if ((library && !*end) || !is_type_owner(s->text))
            map_set(&spaces, (uintptr_t)s, 1);
        if (!*end)
            return;
    }
}

/* Tables give the natives of an owner in a row: is d the first of them? */
static bool begins_owner(const NativeDef *table, const NativeDef *d)
{
    return d == table || (d[-1].owner != d->owner && strcmp(d[-1].owner, d->owner));
}

static void find_spaces(void)
{
    note_space("tessera", true);
    note_space("ts", true);
    for (const EmbeddedModule *m = stdlib_embedded; m->name; m++)
        note_space(m->name, true);
    for (int t = 0; native_tables[t]; t++)
        for (const NativeDef *d = native_tables[t]; d->name; d++)
            if (begins_owner(native_tables[t], d))
                note_space(d->owner, false);
}

static void fill(void)
{
    find_types();
    find_spaces();
    add("tessera", PRELUDE_SPACE, "tessera", NULL);
    add("ts", PRELUDE_SPACE, "tessera", NULL);
    for (int t = 0; native_tables[t]; t++)
        for (const NativeDef *d = native_tables[t]; d->name; d++)
            if (!*d->owner)
                add(d->name, PRELUDE_NATIVE, "", d);
    add_exceptions();
    for (const EmbeddedModule *m = stdlib_embedded; m->name; m++)
        for (const char *const *n = m->shown; *n; n++)
            add(*n, PRELUDE_STDLIB, m->name, NULL);
    for (const EmbeddedModule *m = stdlib_embedded; m->name; m++)
        add_space(m->name);
    for (int t = 0; native_tables[t]; t++)
        for (const NativeDef *d = native_tables[t]; d->name; d++)
            if (*d->owner && begins_owner(native_tables[t], d) && !is_type_owner(d->owner))
                add_space(d->owner);
    shown = rows.n;
    for (const EmbeddedMethod *m = stdlib_methods; m->name; m++) {
        uintptr_t row = 0;
        map_find(&row_of, (uintptr_t)sym(m->name), &row);
        if (m->module) {
            vec_push(&rows, ((PreludeRow){sym(m->name), PRELUDE_STDLIB, m->module, NULL}));
            row = (uintptr_t)rows.n;
        }
        map_set(&methods, (uintptr_t)sym(m->name), row);
    }
}

int prelude_count(void)
{
    if (!rows.n)
        fill();
    return shown;
}

int prelude_room(void)
{
    return prelude_count(), rows.n;
}

const PreludeRow *prelude_row(int i)
{
    return i >= 0 && i < prelude_room() ? &rows.at[i] : NULL;
}

int prelude_find(Sym name)
{
    uintptr_t i = 0;

    prelude_count();
    return map_find(&row_of, (uintptr_t)name, &i) ? (int)i - 1 : -1;
}

int prelude_method(Sym name)
{
    uintptr_t i = 0;

    prelude_count();
    return map_find(&methods, (uintptr_t)name, &i) ? (int)i - 1 : -1;
}

void prelude_done(void)
{
    vec_free(&rows);
    map_done(&row_of);
    map_done(&types);
    map_done(&spaces);
    map_done(&methods);
}

static const EmbeddedModule *embedded(const char *module)
{
    for (const EmbeddedModule *m = stdlib_embedded; m->name; m++)
        if (!strcmp(m->name, module))
            return m;
    return NULL;
}

bool space_exists(const char *dotted)
{
    prelude_count();
    return map_find(&spaces, (uintptr_t)sym(dotted), NULL);
}

const char *stdlib_text(const char *module, size_t *len)
{
    const EmbeddedModule *m = embedded(module);

    if (m && len)
        *len = m->len;
    return m ? m->text : NULL;
}

const EmbeddedPiece *stdlib_pieces(const char *module, int *n)
{
    const EmbeddedModule *m = embedded(module);

    *n = m ? m->npiece : 0;
    return m ? m->piece : NULL;
}

const char *stdlib_name(int i)
{
    return stdlib_embedded[i].name;
}
