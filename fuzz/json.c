/*
 * json.c - any text, read as JSON.
 *
 * What reads is written and reads back equal (NaN, which equals nothing, apart);
 * what does not is a JSONDecodeError, or a RecursionError for deep nesting.
 */
#include "session.h"
#include "targets.h"

static Interp *I;

/* The pending exception is a ValueError of some kind, or says that something is too deep or too large. */
static void expect_refusal(const char *when)
{
    if (!exc_matches(I, EXC_ValueError) && !exc_matches(I, EXC_RecursionError) && !exc_matches(I, EXC_MemoryError) &&
        !exc_matches(I, EXC_OverflowError) && !exc_matches(I, EXC_KeyboardInterrupt))
        tsr_bug("%s: an exception of another kind", when);
    exc_clear(I);
}

static void write_back(Value v)
{
    Value text = session_call(I, "json", "dumps", &v, 1), again, more;

    if (is_err(text)) {
        expect_refusal("dumps");
        return;
    }
    again = session_call(I, "json", "loads", &text, 1);
    if (is_err(again)) {
        expect_refusal("loads of what dumps wrote");
    } else {
        more = session_call(I, "json", "dumps", &again, 1);
        if (!is_err(more) && !value_equal(I, text, more))
            tsr_bug("written, read and written: another text");
        if (is_err(more))
            exc_clear(I);
        value_unref(more);
    }
    value_unref(again);
    value_unref(text);
}

static void try_text(const uint8_t *data, size_t n)
{
    Value text, v;

    if (utf8_check((const char *)data, n) < n)
        return;
    I = I ? I : session_interp();
    text = str_new((const char *)data, n);
    v = session_call(I, "json", "loads", &text, 1);
    if (is_err(v))
        expect_refusal("loads");
    else
        write_back(v);
    value_unref(v);
    value_unref(text);
}

void fuzz_json(const uint8_t *data, size_t n)
{
    session_run(try_text, data, n);
}
