/*
 * The command line is read by the table.  One pass: options may stand before
 * the verb and anywhere after it; for `run` the first operand ends them, since
 * what follows belongs to the program.  A first word that is no verb but looks
 * like a file means `run`.
 */
#include "tools/options.h"

#include "base/alloc.h"
#include "base/sym.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { FLAG, MAYBE, TEXT, NUMBER, CHOICE } OptKind;         /* MAYBE: a flag that may name a file of lines of JSON */
typedef struct { const char *name, *operands, *summary; int least, most; } VerbRow;
typedef struct { const char *name, *value, *summary; uint32_t verbs; char letter; OptKind kind; } OptRow;
typedef struct { const char *name, *summary; } EnvRow;

#define ON(verb) (1u << VERB_##verb)
#define ON_ALL (~0u)

static const VerbRow verbs[VERB_COUNT] = {
#define VERB(name, operands, least, most, summary) {#name, operands, summary, least, most},
#include "tools/options.def"
};
static const OptRow opts[OPT_COUNT] = {
#define OPT(verbs, name, letter, kind, value, summary) {#name, value, summary, verbs, letter, kind},
#include "tools/options.def"
};
_Static_assert(OPT_COUNT <= 64, "a bit for each option");
static const EnvRow env_rows[] = {
#define ENVIRONMENT(name, summary) {#name, summary},
#include "tools/options.def"
};
enum { ENV_COUNT = sizeof env_rows / sizeof *env_rows };

/* ------------------------------------------------------------- names and near misses */

/* "why_compile" as "why-compile". */
static const char *verb_name(Verb v)
{
    static char name[VERB_COUNT][24];
    char *p = name[v];

    for (const char *s = verbs[v].name; *s; s++)
        *p++ = *s == '_' ? '-' : *s;
    return name[v];
}

static const char *next_verb(void *state)
{
    int *i = state;

    return *i < VERB_COUNT ? verb_name((Verb)((*i)++)) : NULL;
}

/* "dump_ast" as "--dump-ast". */
static const char *long_name(const OptRow *r, char buf[static 48])
{
    char *p = buf + 2;

    memcpy(buf, "--", 2);
    for (const char *s = r->name; *s && p < buf + 47; s++)
        *p++ = *s == '_' ? '-' : *s;
    *p = 0;
    return buf;
}

typedef struct { Verb verb; int i; char name[OPT_COUNT][48]; } OptNames;

static const char *next_option(void *state)
{
    OptNames *n = state;

    while (n->i < OPT_COUNT) {
        int i = n->i++;
        if (n->verb == VERB_COUNT || opts[i].verbs >> n->verb & 1)
            return long_name(&opts[i], n->name[i]);
    }
    return NULL;
}

static bool unknown_option(const char *arg, Verb verb, StrBuf *err)
{
    OptNames n = {.verb = verb};
    const char *near = closest_name(arg, next_option, &n);

    sb_printf(err, "unknown option '%s'", arg);
    if (near)
        sb_printf(err, "; did you mean '%s'?", near);
    else if (verb < VERB_COUNT)
        sb_printf(err, "; 'tessera help %s' lists the options", verb_name(verb));
    return false;
}

/* ------------------------------------------------------------- parsing */

typedef struct Parser {
    int argc, i;
    char **argv;
    Options *o;
    StrBuf *err;
    uint64_t given;             /* bit for each option named, to be checked against the verb */
} Parser;

static bool is_choice(const char *words, const char *w, size_t n)
{
    for (const char *p = words; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (strcspn(p, "|") == n && !strncmp(p, w, n))
            return true;
        if (!*p)
            break;
    }
    return false;
}

static bool set_option(Parser *p, int opt, const char *value)
{
    const OptRow *r = &opts[opt];
    char name[48], *end;

    long_name(r, name);
    if (r->kind == CHOICE && !is_choice(r->value, value, strlen(value))) {
        sb_printf(p->err, "'%s' is not a value of %s; use one of %s", value, name, r->value);
        return false;
    }
    if (r->kind == NUMBER) {
        errno = 0;
        p->o->number[opt] = strtol(value, &end, 10);
        if (errno || end == value || *end || p->o->number[opt] < 0) {
            sb_printf(p->err, "%s takes a whole number, not '%s'", name, value);
            return false;
        }
    }
    p->o->value[opt] = value;
    p->given |= (uint64_t)1 << opt;
    return true;
}

/* The value of an option that needs one: after the = or the next argument. */
static bool take_value(Parser *p, int opt, const char *attached)
{
    char name[48];

    if (attached)
        return set_option(p, opt, attached);
    if (p->i + 1 >= p->argc) {
        sb_printf(p->err, "%s needs a value: %s %s", long_name(&opts[opt], name), name, opts[opt].value);
        return false;
    }
    return set_option(p, opt, p->argv[++p->i]);
}

/* The next argument where it is such a file; 1: it is a flag. */
static bool take_file(Parser *p, int opt, const char *attached)
{
    const char *next = p->i + 1 < p->argc ? p->argv[p->i + 1] : "";
    size_t n = strlen(next);

    if (!attached && n > 6 && !strcmp(next + n - 6, ".jsonl"))
        attached = p->argv[++p->i];
    return set_option(p, opt, attached ? attached : "1");
}

static int find_long(const char *name, size_t n)
{
    char buf[48];

    for (int i = 0; i < OPT_COUNT; i++)
        if (strlen(long_name(&opts[i], buf) + 2) == n && !strncmp(buf + 2, name, n))
            return i;
    return -1;
}

static bool parse_long(Parser *p, const char *arg)
{
    const char *name = arg + 2, *eq = strchr(name, '=');
    size_t n = eq ? (size_t)(eq - name) : strlen(name);
    bool off = !strncmp(name, "no-", 3);
    int opt = find_long(name, n);

    if (opt < 0 && off) {
        opt = find_long(name + 3, n - 3);
        if (opt < 0 || opts[opt].kind > MAYBE || eq)
            return unknown_option(arg, p->o->verb, p->err);
        p->o->value[opt] = NULL;
        return true;
    }
    if (opt < 0)
        return unknown_option(arg, p->o->verb, p->err);
    if (opt == OPT_memory && p->o->verb == VERB_prof)
        opt = OPT_memory_timeline;                  /* the levels of a memory are those of devices */
    if (opts[opt].kind == MAYBE)
        return take_file(p, opt, eq ? eq + 1 : NULL);
    if (opts[opt].kind != FLAG)
        return take_value(p, opt, eq ? eq + 1 : NULL);
    if (eq) {
        sb_printf(p->err, "--%s takes no value", opts[opt].name);
        return false;
    }
    return set_option(p, opt, "1");
}

static bool parse_letters(Parser *p, const char *arg)
{
    for (const char *c = arg + 1; *c; c++) {
        int opt = 0;
        while (opt < OPT_COUNT && opts[opt].letter != *c)
            opt++;
        if (opt == OPT_COUNT)
            return unknown_option(arg, p->o->verb, p->err);
        if (opts[opt].kind != FLAG)
            return take_value(p, opt, c[1] ? c + 1 : NULL);
        if (!set_option(p, opt, "1"))
            return false;
    }
    return true;
}

static bool looks_like_file(const char *word)
{
    size_t n = strlen(word);

    return !strcmp(word, "-") || strchr(word, '/') || (n > 4 && !strcmp(word + n - 4, ".tsr")) ||
           access(word, F_OK) == 0;
}

/* The first word: a verb, or a file to run. */
static bool parse_first_word(Parser *p, char *word)
{
    int i = 0;
    const char *near;

    for (int v = 0; v < VERB_COUNT; v++)
        if (!strcmp(verb_name((Verb)v), word)) {
            p->o->verb = (Verb)v;
            return true;
        }
    if (looks_like_file(word)) {
        p->o->verb = VERB_run;
        p->o->operand[p->o->noperands++] = word;
        return true;
    }
    near = closest_name(word, next_verb, &i);
    sb_printf(p->err, "unknown command '%s'", word);
    if (near)
        sb_printf(p->err, "; did you mean '%s'?", near);
    else
        sb_puts(p->err, "; 'tessera help' lists the commands");
    return false;
}

static bool options_ended(const Parser *p)
{
    return (p->o->verb == VERB_run || p->o->verb == VERB_why_compile) && (p->o->noperands || option_on(p->o, OPT_eval));
}

static bool parse_arguments(Parser *p)
{
    bool words_only = false;

    for (p->i = 1; p->i < p->argc; p->i++) {
        char *arg = p->argv[p->i];
        bool ok = true;
        if (words_only || arg[0] != '-' || !arg[1] || (options_ended(p) && p->o->noperands)) {
            if (p->o->verb == VERB_COUNT && !option_on(p->o, OPT_eval))
                ok = parse_first_word(p, arg);
            else
                p->o->operand[p->o->noperands++] = arg;
            words_only |= p->o->noperands && options_ended(p);
        } else if (!strcmp(arg, "--")) {
            words_only = true;
        } else {
            ok = arg[1] == '-' ? parse_long(p, arg) : parse_letters(p, arg);
        }
        if (!ok)
            return false;
    }
    return true;
}

/* Options were read before the verb was known; now each must be one of its own. */
static bool check_options(Parser *p)
{
    char name[48];

    for (int i = 0; i < OPT_COUNT; i++)
        if (p->given >> i & 1 && !(opts[i].verbs >> p->o->verb & 1)) {
            sb_printf(p->err, "%s is not an option of 'tessera %s'", long_name(&opts[i], name),
                      verb_name(p->o->verb));
            return false;
        }
    return true;
}

static bool check_operands(Parser *p)
{
    const VerbRow *v = &verbs[p->o->verb];
    int n = p->o->noperands, least = p->o->verb == VERB_run && option_on(p->o, OPT_eval) ? 0 : v->least;

    if (option_on(p->o, OPT_help) || option_on(p->o, OPT_version))
        return true;
    if (n < least)
        sb_printf(p->err, "a file is missing: tessera %s %s", v->name, v->operands);
    else if (v->most >= 0 && n > v->most)
        sb_printf(p->err, "'%s' is one operand too many: tessera %s %s", p->o->operand[v->most], v->name, v->operands);
    else
        return true;
    return false;
}

bool options_parse(int argc, char **argv, Options *out, StrBuf *err)
{
    Parser p = {.argc = argc, .argv = argv, .o = out, .err = err};

    *out = (Options){.verb = VERB_COUNT};
    out->operand = tsr_calloc(sizeof(char *) * ((size_t)argc + 1));
    if (!parse_arguments(&p))
        return false;
    if (out->verb == VERB_COUNT)
        out->verb = option_on(out, OPT_eval)      ? VERB_run
                    : option_on(out, OPT_help)    ? VERB_help
                    : option_on(out, OPT_version) ? VERB_version
                                                  : VERB_repl;
    return check_options(&p) && check_operands(&p);
}

void options_done(Options *o)
{
    tsr_free(o->operand);
}

/* ------------------------------------------------------------- help */

static void put_row(StrBuf *out, const char *left, const char *text)
{
    enum { COLUMN = 26 };
    size_t n = strlen(left);

    sb_printf(out, "  %s", left);
    sb_pad(out, ' ', n + 2 < COLUMN ? COLUMN - n - 2 : 2);
    sb_printf(out, "%s\n", text);
}

void help_overview(StrBuf *out)
{
    sb_puts(out, "tessera - a language for tensors\n\n"
                 "  tessera FILE.tsr [ARG]...   run a program\n"
                 "  tessera                     an interactive session\n\ncommands:\n");
    for (int v = 0; v < VERB_COUNT; v++)
        put_row(out, verb_name((Verb)v), verbs[v].summary);
    sb_puts(out, "\n'tessera help COMMAND' says more about one.\n");
}

void help_verb(Verb v, StrBuf *out)
{
    char name[48], left[96];

    sb_printf(out, "tessera %s [OPTION]... %s\n\n%s\n\noptions:\n", verb_name((Verb)v), verbs[v].operands, verbs[v].summary);
    for (int i = 0; i < OPT_COUNT; i++) {
        const OptRow *r = &opts[i];
        if (!(r->verbs >> v & 1))
            continue;
        if (r->letter)
            snprintf(left, sizeof left, "-%c, %s%s%s", r->letter, long_name(r, name), *r->value ? "=" : "", r->value);
        else
            snprintf(left, sizeof left, "%s%s%s", long_name(r, name), *r->value ? "=" : "", r->value);
        put_row(out, left, r->summary);
    }
    if (v == VERB_run)
        sb_puts(out, "\nWhat follows FILE belongs to the program (sys.argv).\n");
}

static void help_environment(StrBuf *out)
{
    sb_puts(out, "Environment variables that Tessera reads:\n\n");
    for (int i = 0; i < ENV_COUNT; i++)
        put_row(out, env_rows[i].name, env_rows[i].summary);
}

static void help_exit_codes(StrBuf *out)
{
    sb_puts(out, "Exit codes:\n\n");
    put_row(out, "0", "all is well");
    put_row(out, "1", "the program has a mistake, raised an exception, or a file could not be read");
    put_row(out, "2", "the command line is wrong");
    put_row(out, "130", "interrupted by ctrl-C");
    put_row(out, "N", "what the program gave to sys.exit(N)");
}

bool help_topic(const char *topic, StrBuf *out, StrBuf *err)
{
    int i = 0;
    const char *near;

    for (int v = 0; v < VERB_COUNT; v++)
        if (!strcmp(topic, verb_name((Verb)v))) {
            help_verb((Verb)v, out);
            return true;
        }
    if (!strcmp(topic, "environment"))
        return help_environment(out), true;
    if (!strcmp(topic, "exit-codes"))
        return help_exit_codes(out), true;
    near = closest_name(topic, next_verb, &i);
    sb_printf(err, "no help on '%s'; %s%s%s", topic, near ? "did you mean '" : "topics: the commands, environment, exit-codes",
              near ? near : "", near ? "'?" : "");
    return false;
}

/* ------------------------------------------------------------- environment */

static const char *next_variable(void *state)
{
    int *i = state;

    return *i < ENV_COUNT ? env_rows[(*i)++].name : NULL;
}

static bool is_known_variable(const char *name)
{
    for (int i = 0; i < ENV_COUNT; i++)
        if (!strcmp(env_rows[i].name, name))
            return true;
    return !strncmp(name, "TESSERA_TEST_", 13);        /* the test runner's own */
}

void environment_check(char **environ_, StrBuf *out)
{
    for (char **e = environ_; *e; e++) {
        char name[64];
        size_t n = strcspn(*e, "=");
        int i = 0;
        const char *near;

        if (strncmp(*e, "TESSERA_", 8) || n >= sizeof name)
            continue;
        memcpy(name, *e, n);
        name[n] = 0;
        if (is_known_variable(name))
            continue;
        near = closest_name(name, next_variable, &i);
        sb_printf(out, "warning: the environment variable %s has no meaning", name);
        if (near)
            sb_printf(out, "; did you mean %s?", near);
        sb_putc(out, '\n');
    }
}

bool mode_is_fast(const Options *o)
{
    return o->value[OPT_mode] && strcmp(o->value[OPT_mode], "deterministic");
}
