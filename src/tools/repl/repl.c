/*
 * repl.c - read, run, show.
 *
 * An input is a whole statement; the parser says when it is.  On a terminal it
 * is edited as a block; from a pipe or a dumb terminal lines are gathered until
 * the next one does not continue them.  All inputs share one module, whose
 * scope grows; units stay alive because functions point into them.
 */
#include "tools/repl/repl.h"

#include "base/interrupt.h"
#include "tools/repl/highlight.h"
#include "tools/repl/session.h"
#include "tools/term.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------- running */

/* Show and clear the pending exception; SystemExit ends the session. */
static void session_report(Session *s)
{
    Value exc = exc_take(s->I);
    int code = exc_exit_code(s->I, exc);
    StrBuf out = {0};

    interp_flush(s->I);
    fflush(stdout);
    if (code >= 0) {
        s->done = true;
        s->exit_code = code;
    } else {
        exc_render(s->I, exc, &out);
        fputs(sb_str(&out), stderr);
    }
    sb_done(&out);
    value_unref(exc);
}

static void show_diagnostics(Session *s, const DiagSink *sink)
{
    StrBuf out = {0};

    diag_render(sink, term_style(s->options, STDERR_FILENO), &out);
    fflush(stdout);
    fputs(sb_str(&out), stderr);
    sb_done(&out);
}

bool session_eval(Session *s, const char *name, const char *text, size_t n, Value *result)
{
    const Source *src = source_add(name, text, n);
    DiagSink sink = {0};
    Unit *u;
    bool ok = false;

    if (!src) {
        fputs("error: too much text for one session; start a new one\n", stderr);
        return false;
    }
    u = unit_parse(src, &sink);
    vec_push(&s->units, u);
    if (!sink.errors)
        scope_resolve(u, s->globals, (ScopeOptions){.repl = true}, &sink);
    if (sink.all.n)
        show_diagnostics(s, &sink);
    if (!sink.errors) {
        ok = interp_run_input(s->I, u, result);
        if (ok)
            vec_push(&s->worked, src);
        else
            session_report(s);
    }
    diag_sink_done(&sink);
    return ok;
}

/* _ is the last value that was shown, as in Python; its place is made by an input of its own. */
static void keep_value(Session *s, Value v)
{
    static const char text[] = "_ = None\n";
    Sym name = sym("_");
    int slot = scope_find(s->globals, name);
    Value none;

    if (slot < 0 && session_eval(s, "<session>", text, sizeof text - 1, &none)) {
        value_unref(none);
        (void)vec_pop(&s->worked);
        slot = scope_find(s->globals, name);
    }
    if (slot >= 0 && slot < interp_main(s->I)->nslots) {
        Value *at = &interp_main(s->I)->slot[slot], old = *at;
        *at = value_ref(v);
        if (!is_err(old))
            value_unref(old);
    }
}

static void show_value(Session *s, Value v)
{
    Value text;

    if (v.tag == V_NONE)
        return;
    text = value_repr(s->I, v);
    if (is_err(text)) {
        session_report(s);
        return;
    }
    interp_write(s->I, as_str(text)->s, as_str(text)->len);
    interp_write(s->I, "\n", 1);
    value_unref(text);
    keep_value(s, v);
}

bool session_run(Session *s, const char *name, const char *text, size_t n)
{
    Value v;

    if (!session_eval(s, name, text, n, &v))
        return false;
    show_value(s, v);
    value_unref(v);
    interp_flush(s->I);
    return true;
}

static bool is_blank(const char *text)
{
    return !text[strspn(text, " \t\r\n")];
}

static void handle_input(Session *s, const char *text)
{
    char name[32];

    if (is_blank(text))
        return;
    if (*text == ':' || *text == '?') {
        session_command(s, text);
        return;
    }
    snprintf(name, sizeof name, "<input %d>", ++s->inputs);
    session_run(s, name, text, strlen(text));
}

/* ------------------------------------------------------------- reading on a terminal */

/* A block with an indented last line ends with an empty one: more may follow until then. */
static bool is_complete(void *state, const char *text, size_t n)
{
    const char *nl = memrchr(text, '\n', n);

    if (*text == ':' || *text == '?' || is_blank(text))
        return true;
    if (nl && (nl[1] == ' ' || nl[1] == '\t') && !is_blank(nl))
        return false;
    return input_state(text, n) != INPUT_OPEN;
}

static void paint(void *state, const char *text, size_t n, uint8_t *style)
{
    if (*text != ':' && *text != '?')
        highlight(text, n, style);
}

static void edit_inputs(Session *s)
{
    EditHooks hooks = {.state = s, .is_complete = is_complete, .paint = paint, .complete = session_complete};
    bool color = term_style(s->options, STDOUT_FILENO).color;
    char *text;

    history_open(&s->history);
    while (!s->done) {
        EditResult r = edit_read(&hooks, &s->history, ">>> ", color, &text);
        if (r == EDIT_EOF)
            break;
        if (r == EDIT_CANCELLED)
            continue;
        if (!is_blank(text))
            history_add(&s->history, text);
        handle_input(s, text);
        tsr_interrupted = 0;
        tsr_free(text);
    }
    history_close(&s->history);
}

/* ------------------------------------------------------------- reading lines */

/* The next line with its end; false at the end of input. */
static bool read_line(StrBuf *out)
{
    int c;

    sb_clear(out);
    while ((c = getchar()) != EOF) {
        sb_putc(out, (char)c);
        if (c == '\n')
            break;
    }
    return out->n > 0;
}

/* Can this line belong to the block before it: indented, blank, or a clause such as `else`? */
static bool continues_block(const char *line)
{
    static const char *const clauses[] = {"else", "elif", "except", "finally"};

    if (*line == ' ' || *line == '\t' || *line == '#' || is_blank(line))
        return true;
    for (size_t i = 0; i < sizeof clauses / sizeof *clauses; i++) {
        size_t n = strlen(clauses[i]);
        if (!strncmp(line, clauses[i], n) && !isalnum((unsigned char)line[n]) && line[n] != '_')
            return true;
    }
    return false;
}

static void prompt(const Session *s, bool first)
{
    if (!isatty(STDIN_FILENO))
        return;
    fputs(first ? ">>> " : "... ", stdout);
    fflush(stdout);
}

/* Is the gathered text a block that later lines may go on with? A person ends it with a blank line. */
static bool stays_open(const char *text, const char *last)
{
    bool compound = strchr(text, '\n') != strrchr(text, '\n');

    if (*text == ':' || *text == '?')
        return false;
    if (input_state(text, strlen(text)) == INPUT_OPEN)
        return true;
    return compound && !(isatty(STDIN_FILENO) && is_blank(last)) && (*last == ' ' || *last == '\t' || is_blank(last));
}

static void submit(Session *s, StrBuf *text)
{
    handle_input(s, sb_str(text));
    sb_clear(text);
    tsr_interrupted = 0;
}

static void read_inputs(Session *s)
{
    StrBuf text = {0}, line = {0};
    bool open = false;

    for (prompt(s, true); !s->done && read_line(&line); prompt(s, !text.n)) {
        if (text.n && !open && !continues_block(sb_str(&line)))
            submit(s, &text);
        if (s->done)
            break;
        if (!text.n && is_blank(sb_str(&line)))
            continue;
        sb_puts(&text, sb_str(&line));
        open = input_state(sb_str(&text), text.n) == INPUT_OPEN && *text.s != ':' && *text.s != '?';
        if (!stays_open(sb_str(&text), sb_str(&line)))
            submit(s, &text);
    }
    if (text.n && !s->done)
        submit(s, &text);
    sb_done(&text);
    sb_done(&line);
}

/* ------------------------------------------------------------- the session */

static void greet(const Session *s)
{
    if (isatty(STDIN_FILENO))
        puts("Tessera. :help lists commands, ?name explains a name, ctrl-D leaves.");
}

int repl_run(const Options *o)
{
    static char *argv[] = {"", NULL};
    InterpOptions io = {.argc = 1, .argv = argv, .debug = option_on(o, OPT_debug), .fast = mode_is_fast(o)};
    Session s = {.options = o, .smart = term_is_smart(STDIN_FILENO)};

    s.I = interp_new(&io);
    s.globals = scope_new_module(sym("__main__"));
    greet(&s);
    if (s.smart)
        edit_inputs(&s);
    else
        read_inputs(&s);
    interp_flush(s.I);
    interp_free(s.I);
    scope_free_module(s.globals);
    for (int i = 0; i < s.units.n; i++)
        unit_free(s.units.at[i]);
    vec_free(&s.units);
    vec_free(&s.worked);
    return s.exit_code;
}
