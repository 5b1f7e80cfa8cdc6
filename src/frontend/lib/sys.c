/* The modules sys and time. */
#include "frontend/lib/lib.h"

#include "base/sym.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* ------------------------------------------------------------- sys */

static Value c_argv(Interp *I, Value *a)
{
    const InterpOptions *o = interp_options(I);
    Value l = list_new(o->argc);

    for (int i = 0; i < o->argc; i++)
        list_push(as_list(l), text_decode(I, o->argv[i], strlen(o->argv[i]), "utf-8", "replace"));
    return l;
}

static Value c_path(Interp *I, Value *a)
{
    const char *const *p = interp_options(I)->path;
    Value l = list_new(2);

    for (; p && *p; p++)
        list_push(as_list(l), str_c(*p));
    return l;
}

static Value c_stdin(Interp *I, Value *a) { return std_file(0); }
static Value c_stdout(Interp *I, Value *a) { return std_file(1); }
static Value c_stderr(Interp *I, Value *a) { return std_file(2); }
static Value c_maxsize(Interp *I, Value *a) { return vint(INT64_MAX); }
static Value c_platform(Interp *I, Value *a) { return str_c("linux"); }
static Value c_byteorder(Interp *I, Value *a) { return str_c("little"); }
static Value c_version(Interp *I, Value *a) { return str_c("3.12 (Tessera)"); }
static Value c_version_info(Interp *I, Value *a) { return tuple_of(3, vint(3), vint(12), vint(0)); }
static Value c_executable(Interp *I, Value *a) { return str_c("tessera"); }
static Value f_exit(Interp *I, Value *a) { return raise_exit(I, a[0]); }
static Value f_getrecursionlimit(Interp *I, Value *a) { return vint(*interp_depth_limit(I)); }

static Value f_setrecursionlimit(Interp *I, Value *a)
{
    int64_t n;

    if (!value_as_int(I, a[0], &n))
        return VERR;
    if (n < 1)
        return raise(I, EXC_ValueError, "recursion limit must be greater or equal than 1");
    *interp_depth_limit(I) = n > 1000000 ? 1000000 : (int)n;
    return VNONE;
}

static Value f_intern(Interp *I, Value *a)
{
    StrObj *s = need_str(I, a[0], "intern() argument");
    return s ? value_ref(str_sym(sym_n(s->s, s->len))) : VERR;
}

/* ------------------------------------------------------------- time */

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static Value f_time(Interp *I, Value *a) { return vfloat((double)clock_ns(CLOCK_REALTIME) * 1e-9); }
static Value f_time_ns(Interp *I, Value *a) { return vint(clock_ns(CLOCK_REALTIME)); }
static Value f_perf_counter(Interp *I, Value *a) { return vfloat((double)clock_ns(CLOCK_MONOTONIC) * 1e-9); }
static Value f_perf_counter_ns(Interp *I, Value *a) { return vint(clock_ns(CLOCK_MONOTONIC)); }
static Value f_process_time(Interp *I, Value *a) { return vfloat((double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9); }
static Value f_process_time_ns(Interp *I, Value *a) { return vint(clock_ns(CLOCK_PROCESS_CPUTIME_ID)); }

static Value f_sleep(Interp *I, Value *a)
{
    struct timespec t;
    double s;

    if (!value_as_float(I, a[0], &s))
        return VERR;
    if (!(s >= 0))
        return raise(I, EXC_ValueError, "sleep length must be non-negative");
    if (s > 1e9)
        return raise(I, EXC_OverflowError, "sleep length is too large");
    interp_flush(I);
    t.tv_sec = (time_t)s;
    t.tv_nsec = (long)((s - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        if (!interp_poll(I))
            return VERR;
    return interp_poll(I) ? VNONE : VERR;
}

/* a = seconds since 1970, now when not given; local time or UTC */
static bool broken_down(Interp *I, Value secs, bool utc, struct tm *out)
{
    double s = (double)clock_ns(CLOCK_REALTIME) * 1e-9;
    time_t t;

    if (is_given(secs) && !value_as_float(I, secs, &s))
        return false;
    t = (time_t)s;
    if (!(s > -1e14 && s < 1e14) || !(utc ? gmtime_r(&t, out) : localtime_r(&t, out))) {
        raise(I, EXC_OverflowError, "timestamp out of range for platform time_t");
        return false;
    }
    return true;
}

/* The class struct_time of the library's file time_classes; borrowed by the module's row, new here. */
static Value struct_time(Interp *I)
{
    Value space = prelude_get(I, "time_classes");
    return is_err(space) ? VERR : value_getattr(I, space, sym("struct_time"));
}

static Value c_struct_time(Interp *I, Value *a) { return struct_time(I); }

static Value tm_tuple(Interp *I, const struct tm *t)
{
    Value made = VERR, cls = struct_time(I), all;

    all = tuple_of(9, vint(t->tm_year + 1900), vint(t->tm_mon + 1), vint(t->tm_mday), vint(t->tm_hour), vint(t->tm_min),
                    vint(t->tm_sec), vint((t->tm_wday + 6) % 7), vint(t->tm_yday + 1), vint(t->tm_isdst));
    if (!is_err(cls))
        made = value_call(I, cls, &all, 1);
    value_unref(all);
    value_unref(cls);
    return made;
}

static Value f_localtime(Interp *I, Value *a)
{
    struct tm t;
    return broken_down(I, a[0], false, &t) ? tm_tuple(I, &t) : VERR;
}

static Value f_gmtime(Interp *I, Value *a)
{
    struct tm t;
    return broken_down(I, a[0], true, &t) ? tm_tuple(I, &t) : VERR;
}

static bool tm_of(Interp *I, Value v, struct tm *out)
{
    int64_t f[9] = {0};

    *out = (struct tm){0};
    v = unwrap_base(v);
    if (v.tag != V_TUPLE || as_tuple(v)->n != 9) {
        raise(I, EXC_TypeError, "Tuple or struct_time argument required");
        return false;
    }
    for (int i = 0; i < 9; i++)
        if (!value_as_int(I, as_tuple(v)->at[i], &f[i]))
            return false;
    *out = (struct tm){.tm_year = (int)f[0] - 1900, .tm_mon = (int)f[1] - 1, .tm_mday = (int)f[2], .tm_hour = (int)f[3],
                       .tm_min = (int)f[4], .tm_sec = (int)f[5], .tm_wday = ((int)f[6] + 1) % 7, .tm_yday = (int)f[7] - 1,
                       .tm_isdst = (int)f[8]};
    return true;
}

/* "Thu Jan  1 00:00:00 1970", of a tuple or of seconds. */
static Value clock_text(const struct tm *t)
{
    char text[64];
    return str_new(text, strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", t));
}

static Value f_asctime(Interp *I, Value *a)
{
    struct tm t;
    return (is_given(a[0]) ? tm_of(I, a[0], &t) : broken_down(I, VNONE, false, &t)) ? clock_text(&t) : VERR;
}

/* a = format, tuple */
static Value f_strftime(Interp *I, Value *a)
{
    StrObj *format = need_str(I, a[0], "strftime() argument 1");
    char text[512];
    struct tm t;

    if (!format || !(is_given(a[1]) ? tm_of(I, a[1], &t) : broken_down(I, VNONE, false, &t)))
        return VERR;
    return str_new(text, strftime(text, sizeof text, format->s, &t));
}

static Value f_mktime(Interp *I, Value *a)
{
    struct tm t;
    return tm_of(I, a[0], &t) ? vfloat((double)mktime(&t)) : VERR;
}

static Value f_ctime(Interp *I, Value *a)
{
    char text[64];
    struct tm t;

    if (!broken_down(I, a[0], false, &t))
        return VERR;
    return str_new(text, strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &t));
}

typedef struct Names { const ListObj *list; int64_t at; } Names;

static const char *next_listed(void *state)
{
    Names *n = state;

    while (n->at < n->list->n) {
        Value v = n->list->at[n->at++];
        if (v.tag == V_STR)
            return as_str(v)->s;
    }
    return NULL;
}

static Value f_closest_name(Interp *I, Value *a)        /* word, names */
{
    StrObj *word = need_str(I, a[0], "closest_name() argument 1");
    Value names = word ? value_to_list(I, a[1]) : VERR;

    if (is_err(names))
        return VERR;
    Names n = {as_list(names), 0};
    const char *near = closest_name(word->s, next_listed, &n);
    Value v = near ? str_c(near) : VNONE;
    value_unref(names);
    return v;
}

static Value f_autotune_trace(Interp *I, Value *a)
{
    const char *to = interp_options(I)->autotune_trace;

    return !to ? VNONE : str_c(to);
}

const NativeDef natives_sys[] = {
    {"_core", "autotune_trace", f_autotune_trace, "() -> str | None", "Where the command line asks to be told of trials: \"1\" is standard error, else a file of lines of JSON."},
    {"_core", "closest_name", f_closest_name, "(word: str, names: Iterable) -> str | None", "The name most likely meant by a mistyped word."},
    {"sys", "argv", c_argv, "list[str]", "The program's file and its arguments."},
    {"sys", "path", c_path, "list[str]", "Folders searched for modules."},
    {"sys", "stdin", c_stdin, "TextIOWrapper", "Standard input."},
    {"sys", "stdout", c_stdout, "TextIOWrapper", "Standard output."},
    {"sys", "stderr", c_stderr, "TextIOWrapper", "Standard error."},
    {"sys", "maxsize", c_maxsize, "int", "The largest int."},
    {"sys", "platform", c_platform, "str", "'linux'"},
    {"sys", "byteorder", c_byteorder, "str", "'little'"},
    {"sys", "version", c_version, "str", "The version of Python whose syntax is read, and the implementation."},
    {"sys", "version_info", c_version_info, "tuple", "(major, minor, micro) of that version."},
    {"sys", "executable", c_executable, "str", "The name of the program that runs this one."},
    {"sys", "exit", f_exit, "(status=None, /) -> None", "Leave the program: SystemExit."},
    {"sys", "getrecursionlimit", f_getrecursionlimit, "() -> int", "How deep calls may nest."},
    {"sys", "setrecursionlimit", f_setrecursionlimit, "(limit: int, /) -> None", "Set how deep calls may nest."},
    {"sys", "intern", f_intern, "(string: str, /) -> str", "The one object for this text."},
    {"time", "time", f_time, "() -> float", "Seconds since 1970."},
    {"time", "__call__", f_time, "() -> float", "time.time(), as tessera.time()."},
    {"time", "time_ns", f_time_ns, "() -> int", "Nanoseconds since 1970."},
    {"time", "perf_counter", f_perf_counter, "() -> float", "Seconds of a clock for measuring."},
    {"time", "perf_counter_ns", f_perf_counter_ns, "() -> int", "Nanoseconds of a clock for measuring."},
    {"time", "monotonic", f_perf_counter, "() -> float", "Seconds of a clock that never goes back."},
    {"time", "monotonic_ns", f_perf_counter_ns, "() -> int", "Nanoseconds of a clock that never goes back."},
    {"time", "process_time", f_process_time, "() -> float", "Seconds of processor time used."},
    {"time", "process_time_ns", f_process_time_ns, "() -> int", "Nanoseconds of processor time used."},
    {"time", "sleep", f_sleep, "(seconds: float, /) -> None", "Wait."},
    {"time", "struct_time", c_struct_time, "type[struct_time]", "A time taken apart: tm_year, tm_mon ... by name and by number."},
    {"time", "localtime", f_localtime, "(seconds: float | None = None, /) -> tuple", "Year, month, day, hour, minute, second, weekday, day of year, dst."},
    {"time", "asctime", f_asctime, "(t: tuple | None = None, /) -> str", "A time as text: 'Thu Jan  1 00:00:00 1970'."},
    {"time", "gmtime", f_gmtime, "(seconds: float | None = None, /) -> tuple", "The same in UTC."},
    {"time", "mktime", f_mktime, "(t: tuple, /) -> float", "Seconds since 1970 of a local time."},
    {"time", "strftime", f_strftime, "(format: str, t: tuple | None = None, /) -> str", "A time as text."},
    {"time", "ctime", f_ctime, "(seconds: float | None = None, /) -> str", "A time as 'Sat Nov 21 15:00:00 2026'."},
    {0},
};
