/*
 * Data movement as it is declared: prefetches, asynchronous copies and the functions that bring a tensor into a memory, each with its
 * operand, where it goes, and its line.  Nothing runs: the text says it all.
 */
#include "tools/moves.h"

#include "base/source.h"
#include "tools/program.h"

#include <stdio.h>
#include <string.h>

/* What moves its first argument: the parameter that says where to, its default; NULL: the name itself says it. */
typedef struct Mover { const char *name, *keyword, *to; bool of_memory; } Mover;
static const Mover movers[] = {
    {"prefetch", "into", "L2_cache", false}, {"prefetch", "to", "shared", true}, {"async_copy", "to", "global", true},
    {"async_load", "to", "global", false}, {"async_store", "to", "host", false},
    {"prefetch_to_l2", NULL, "L2_cache", true}, {"to_register", NULL, "register", false}, {"to_shared", NULL, "shared", false},
    {"to_global", NULL, "global", false}, {"to_host", NULL, "host", false},
};

static const char *text_of(const Ast *a) { return AST_IS(a, Str) ? AST_AS(a, Str)->value.s : NULL; }

/* The library's own: a name of the prelude, or one of tessera.memory. */
static const Mover *mover_of(const Ast *f)
{
    const Ast *owner = AST_IS(f, Attribute) ? AST_AS(f, Attribute)->value : NULL;
    const char *name = owner ? AST_AS(f, Attribute)->attr->text : AST_IS(f, Name) ? AST_AS(f, Name)->id->text : "";
    const char *of = AST_IS(owner, Attribute) ? AST_AS(owner, Attribute)->attr->text : AST_IS(owner, Name) ? AST_AS(owner, Name)->id->text : "";
    bool own = AST_IS(f, Name) ? AST_AS(f, Name)->bind == BIND_PRELUDE : !strcmp(of, "tessera") || !strcmp(of, "ts") || !strcmp(of, "memory");

    for (size_t i = 0; own && i < sizeof movers / sizeof *movers; i++)
        if (!strcmp(movers[i].name, name) && movers[i].of_memory == (owner && !strcmp(of, "memory")))
            return &movers[i];
    return NULL;
}

static bool see(Ast *n, void *state)
{
    const AstCall *c = n && n->kind == AST_Call ? AST_AS(n, Call) : NULL;
    const Mover *m = c ? mover_of(c->func) : NULL;
    const char *to = m ? m->to : NULL, *overlap = NULL;
    StrBuf what = {0}, *out = state;
    int at = 0;

    if (!n)
        return true;
    for (int i = 0; m && i < c->args.n; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        const char *name = a->name ? a->name->text : at++ == 0 ? "" : m->keyword ? m->keyword : "";
        if (m->keyword && !strcmp(name, m->keyword) && text_of(a->value))
            to = text_of(a->value);
        else if (!strcmp(name, "overlap"))
            overlap = text_of(a->value);
        else if (!what.n)
            ast_print(a->value, &what);
    }
    if (m && what.n) {
        sb_printf(out, "%s -> %s", sb_str(&what), to);
        if (overlap)
            sb_printf(out, " overlap=%s", overlap);
        sb_printf(out, " at line %u\n", source_place(n->span.lo).line);
    }
    sb_done(&what);
    return ast_walk(n, see, state);
}

int moves_of_program(const Options *o)
{
    StrBuf out = {0};
    Program p;

    if (!program_open(&p, o, stderr))
        return EXIT_MISTAKE;
    see(&p.unit->module->ast, &out);
    fwrite(sb_str(&out), 1, out.n, stdout);
    program_report(&p, o, stderr);
    program_done(&p);
    sb_done(&out);
    return EXIT_OK;
}
