/*
 * regex.c - a pattern in the first line, a template in the second, a subject in the rest.
 *
 * A pattern is refused with re.error or compiles; then search, findall, sub and split
 * end, whatever it is.
 */
#include "session.h"
#include "targets.h"

static Interp *I;

static void expect_refusal(void)
{
    if (!exc_matches(I, EXC_Exception) && !exc_matches(I, EXC_KeyboardInterrupt))
        tsr_bug("an exception of another kind");
    exc_clear(I);
}

static void call(const char *name, const Value *args, int n)
{
    Value v = session_call(I, "re", name, args, n);

    if (is_err(v))
        expect_refusal();
    value_unref(v);
}

/* The text up to the next line end, which is skipped. */
static Value next_line(const char **s, size_t *n)
{
    const char *end = memchr(*s, '\n', *n);
    size_t len = end ? (size_t)(end - *s) : *n;
    Value v = str_new(*s, len);

    *s += len + (end != NULL);
    *n -= len + (end != NULL);
    return v;
}

static void try_text(const uint8_t *data, size_t n)
{
    const char *s = (const char *)data;
    Value arg[3];

    if (utf8_check(s, n) < n)
        return;
    I = I ? I : session_interp();
    arg[0] = next_line(&s, &n);
    arg[1] = next_line(&s, &n);
    arg[2] = str_new(s, n);
    call("sub", arg, 3);
    call("escape", arg, 1);
    call("fullmatch", arg, 2);
    Value two[2] = {arg[0], arg[2]};
    call("findall", two, 2);
    call("split", two, 2);
    for (int i = 0; i < 3; i++)
        value_unref(arg[i]);
}

void fuzz_regex(const uint8_t *data, size_t n)
{
    session_run(try_text, data, n);
}
