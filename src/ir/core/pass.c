/*
 * Which passes run, and what is looked at behind each.
 *
 * Names are few and passes run rarely, so lists of names will do.
 */
#include "ir/core/pass.h"

#include "base/alloc.h"
#include "base/sym.h"
#include "base/vec.h"

#include <stdio.h>
#include <string.h>

typedef struct Declared { Sym name, what; } Declared;

bool passes_verify;
const char *passes_shown;
static Vec(Sym) off, met;               /* met: passes that were asked for */
static Vec(Declared) declared;

void passes_off(const char *names)
{
    for (size_t n; *names; names += n + (names[n] == ',')) {
        n = strcspn(names, ",");
        if (n)
            vec_push(&off, sym_n(names, n));
    }
}

bool pass_runs(const char *name)
{
    Sym s = off.n ? sym(name) : NULL;
    bool on = true, seen = false;

    for (int i = 0; i < off.n; i++)
        on &= off.at[i] != s;
    for (int i = 0; i < met.n; i++)
        seen |= met.at[i] == s;
    if (s && !seen)
        vec_push(&met, s);
    return on;
}

void pass_declare(const char *name, const char *what)
{
    Declared d = {sym(name), sym(what)};

    (void)pass_runs(name);
    for (int i = 0; i < declared.n; i++)
        if (declared.at[i].name == d.name) {
            declared.at[i] = d;
            return;
        }
    vec_push(&declared, d);
}

const char *pass_declared(int i, const char **what)
{
    if (i >= declared.n)
        return NULL;
    *what = declared.at[i].what->text;
    return declared.at[i].name->text;
}

const char *pass_unknown(int i)
{
    for (int k = 0; k < off.n; k++) {
        bool seen = false;
        for (int j = 0; j < met.n; j++)
            seen |= met.at[j] == off.at[k];
        if (!seen && i-- == 0)
            return off.at[k]->text;
    }
    return NULL;
}

/* Is the name one of a list separated by commas? */
static bool listed(const char *names, const char *name)
{
    size_t want = strlen(name);

    if (!strcmp(names, "all"))
        return true;
    for (size_t n; *names; names += n + (names[n] == ',')) {
        n = strcspn(names, ",");
        if (n == want && !memcmp(names, name, n))
            return true;
    }
    return false;
}

void pass_done(const char *name, const PassIr *how, const void *ir)
{
    StrBuf err = {0}, out = {0};

    if (passes_shown && listed(passes_shown, name)) {
        how->print(ir, &out);
        fprintf(stderr, "# after %s\n%s", name, sb_str(&out));
        sb_clear(&out);
    }
    if (passes_verify && !how->verify(ir, &err)) {
        how->print(ir, &out);
        tsr_bug("after the pass %s: %s\n%s", name, sb_str(&err), sb_str(&out));
    }
    sb_done(&err);
    sb_done(&out);
}
