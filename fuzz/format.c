/*
 * format.c - any text as a format specification, a % template and a str.format template.
 *
 * Each is applied to values of every kind; it is refused with an exception, or gives text.
 */
#include "session.h"
#include "targets.h"

#include "frontend/eval/eval.h"

#include <math.h>
static Interp *I;

static void settle(Value v)
{
    if (is_err(v)) {
        if (!exc_matches(I, EXC_Exception) && !exc_matches(I, EXC_KeyboardInterrupt))
            tsr_bug("an exception of another kind");
        exc_clear(I);
    }
    value_unref(v);
}

static void apply(const char *s, size_t n)
{
    static const double reals[] = {0.0, -0.0, 1.5, -123456.789, 1e300, 5e-324, NAN, INFINITY};
    static const int64_t ints[] = {0, 1, -1, 65, 1114112, INT64_MAX, INT64_MIN};
    Value text = str_new("héllo", 6), list;

    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        settle(value_format(I, vfloat(reals[i]), s, n));
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        settle(value_format(I, vint(ints[i]), s, n));
    settle(value_format(I, vbool(true), s, n));
    settle(value_format(I, VNONE, s, n));
    settle(value_format(I, text, s, n));
    list = session_call(I, "", "list", &text, 1);
    settle(value_format(I, list, s, n));
    value_unref(list);
    value_unref(text);
}

/* template % (3, "a", 2.5) and template.format(3, "a", 2.5) */
static void fill(Value template)
{
    Value text = str_new("a", 1), three[3] = {vint(3), text, vfloat(2.5)}, tuple = tuple_new(3);

    for (int i = 0; i < 3; i++)
        as_tuple(tuple)->at[i] = value_ref(three[i]);
    settle(value_binary(I, AOP_MOD, template, tuple));
    settle(value_binary(I, AOP_MOD, template, vint(7)));
    settle(value_call_method(I, template, sym("format"), three, 3));
    value_unref(tuple);
    value_unref(text);
}

static void try_text(const uint8_t *data, size_t n)
{
    Value template;

    if (utf8_check((const char *)data, n) < n)
        return;
    I = I ? I : session_interp();
    apply((const char *)data, n);
    template = str_new((const char *)data, n);
    fill(template);
    value_unref(template);
}

void fuzz_format(const uint8_t *data, size_t n)
{
    session_run(try_text, data, n);
}
