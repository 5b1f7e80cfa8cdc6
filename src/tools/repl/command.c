/* The session's own commands: a table of a name, what follows it, what it does. `?name` is a spelling of `:doc name`. */
#include "base/sym.h"
#include "base/vfs.h"
#include "tools/load.h"
#include "tools/repl/session.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct Command {
    const char *name, *operand, *summary;
    void (*fn)(Session *s, const char *arg);
} Command;

static void cmd_help(Session *s, const char *arg);

static void print(StrBuf *out)
{
    fwrite(sb_str(out), 1, out->n, stdout);
    sb_done(out);
}

static void complain(const char *fmt, const char *arg)
{
    fflush(stdout);
    fputs("error: ", stderr);
    fprintf(stderr, fmt, arg);
    fputc('\n', stderr);
}

static void cmd_doc(Session *s, const char *arg)
{
    StrBuf out = {0};
    Value v = session_lookup(s, arg, strlen(arg));

    if (is_err(v)) {
        complain("there is no name '%s' here", arg);
        return;
    }
    describe_value(s, v, &out);
    value_unref(v);
    print(&out);
}

static void cmd_type(Session *s, const char *arg)
{
    StrBuf out = {0};
    Value v;

    if (!session_eval(s, "<type>", arg, strlen(arg), &v))
        return;
    describe_type(s, v, &out);
    sb_putc(&out, '\n');
    value_unref(v);
    print(&out);
}

static void cmd_ir(Session *s, const char *arg)
{
    session_ir(s, arg, strlen(arg));
}

static void cmd_time(Session *s, const char *arg)
{
    struct timespec a, b;
    double t;

    clock_gettime(CLOCK_MONOTONIC, &a);
    if (!session_run(s, "<time>", arg, strlen(arg)))
        return;
    clock_gettime(CLOCK_MONOTONIC, &b);
    t = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    if (t < 1e-3)
        printf("%.1f us\n", t * 1e6);
    else if (t < 1)
        printf("%.2f ms\n", t * 1e3);
    else
        printf("%.2f s\n", t);
}

static void cmd_load(Session *s, const char *arg)
{
    StrBuf err = {0};
    const Source *src = load_program(arg, &err);

    if (src)
        session_run(s, src->path, src->text, src->len);
    else
        complain("%s", sb_str(&err));
    sb_done(&err);
}

static void cmd_save(Session *s, const char *arg)
{
    StrBuf out = {0};
    int err;

    for (int i = 0; i < s->worked.n; i++) {
        const Source *src = s->worked.at[i];
        sb_write(&out, src->text, src->len);
        if (src->len && src->text[src->len - 1] != '\n')
            sb_putc(&out, '\n');
    }
    err = vfs_write_atomic(arg, sb_str(&out), out.n);
    if (err)
        complain("cannot write: %s", strerror(err));
    sb_done(&out);
}

static void cmd_who(Session *s, const char *arg)
{
    StrBuf out = {0};

    for (int i = 0; i < s->globals->locals.n; i++) {
        Sym name = s->globals->locals.at[i].name;
        Value v = session_lookup(s, name->text, name->len);
        if (is_err(v) || !strcmp(name->text, "_")) {
            value_unref(v);
            continue;
        }
        sb_printf(&out, "%s: ", name->text);
        describe_type(s, v, &out);
        sb_putc(&out, '\n');
        value_unref(v);
    }
    print(&out);
}

static void cmd_quit(Session *s, const char *arg)
{
    s->done = true;
}

static const Command commands[] = {
    {"doc", "NAME", "what a name is and does (also: ?NAME)", cmd_doc},
    {"type", "EXPR", "the type and shape of a value", cmd_type},
    {"ir", "EXPR", "the graph that an expression becomes: f(x), x @ w", cmd_ir},
    {"time", "CODE", "run something and say how long it took", cmd_time},
    {"who", "", "the names defined here", cmd_who},
    {"load", "FILE", "run a file in this session", cmd_load},
    {"save", "FILE", "write the inputs that worked to a file", cmd_save},
    {"help", "", "this list", cmd_help},
    {"quit", "", "leave (also: ctrl-D)", cmd_quit},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void cmd_help(Session *s, const char *arg)
{
    char left[32];

    for (int i = 0; i < COMMAND_COUNT; i++) {
        snprintf(left, sizeof left, ":%s %s", commands[i].name, commands[i].operand);
        printf("%-14s %s\n", left, commands[i].summary);
    }
    printf("Tab completes, ctrl-R searches the history, alt-Enter makes a new line, ctrl-C stops what runs.\n");
}

static const char *next_command(void *state)
{
    int *i = state;

    return *i < COMMAND_COUNT ? commands[(*i)++].name : NULL;
}

static void unknown_command(const char *name)
{
    int i = 0;
    const char *near = closest_name(name, next_command, &i);

    fflush(stdout);
    fprintf(stderr, "error: there is no command ':%s'; %s%s%s\n", name, near ? "did you mean ':" : ":help lists them",
            near ? near : "", near ? "'?" : "");
}

/* The text after the command's name, without blanks around it; owned by b. */
static const char *trimmed(const char *arg, StrBuf *b)
{
    size_t n;

    while (isspace((unsigned char)*arg))
        arg++;
    n = strlen(arg);
    while (n && isspace((unsigned char)arg[n - 1]))
        n--;
    sb_write(b, arg, n);
    return sb_str(b);
}

void session_command(Session *s, const char *line)
{
    char name[16];
    size_t n = 0;
    StrBuf b = {0};
    const Command *c = NULL;
    const char *arg;

    if (*line == '?') {
        snprintf(name, sizeof name, "doc");
        n = 1;
    } else {
        line++;
        n = strcspn(line, " \t\n");
        snprintf(name, sizeof name, "%.*s", (int)n, line);
    }
    arg = trimmed(line + n, &b);
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i].name, name))
            c = &commands[i];
    if (!c)
        unknown_command(name);
    else if (*c->operand && !*arg)
        fprintf(stderr, "error: ':%s' needs something after it: :%s %s\n", c->name, c->name, c->operand);
    else
        c->fn(s, arg);
    sb_done(&b);
}
