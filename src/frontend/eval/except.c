/*
 * Exceptions: raising them, what they hold, how a traceback is built and shown.
 *
 * An exception is an instance with `args` in its attributes.  Raising makes it
 * pending in the Interp; every function returns its error value until a handler
 * takes it.  Each frame that it leaves, and the one that catches it, adds its
 * place to the exception's traceback, innermost first.
 */
#include "frontend/eval/eval.h"

#include <errno.h>
#include <string.h>

static Sym s_context, s_cause, s_suppress, s_traceback, s_notes;

static void name_symbols(void)
{
    s_cause = sym("__cause__");
    s_suppress = sym("__suppress_context__");
    s_traceback = sym("__traceback__");
    s_notes = sym("__notes__");
    s_context = sym("__context__");
}

/* ------------------------------------------------------------- classes */

ClassObj *exc_class(Interp *I, ExcKind kind)
{
    return I->exc_class[kind];
}

void exc_init(Interp *I)
{
    static const struct { const char *name; ExcKind base; } rows[] = {
#define EXC(name, base) {#name, EXC_##base},
#include "frontend/eval/exceptions.def"
    };

    name_symbols();
    I->exc_class[EXC_BaseException] = native_class(I, "BaseException");
    for (int i = 1; i < EXC_COUNT; i++)
        I->exc_class[i] = (ClassObj *)class_new(I, sym(rows[i].name), I->exc_class[rows[i].base], NULL).o;
}

/* ------------------------------------------------------------- the pending exception */

static DictObj *attrs_of(Value exc)
{
    InstanceObj *e = (InstanceObj *)exc.o;

    if (!e->attrs)
        e->attrs = as_dict(dict_new());
    return e->attrs;
}

/* The exception that was being handled when this one came; a chain must not close on itself. */
static void set_context(Interp *I, Value exc)
{
    Value h = I->handling, c;

    if (is_err(h) || h.o == exc.o)
        return;
    if (is_err(dict_get_sym(attrs_of(exc), s_traceback))) {     /* never raised before: in no chain */
        dict_set_sym(attrs_of(exc), s_context, h);
        return;
    }
    for (Value at = h; !is_err(c = dict_get_sym(attrs_of(at), s_context)) && c.tag == V_INSTANCE; at = c)
        if (c.o == exc.o) {
            dict_del_sym(attrs_of(at), s_context);
            break;
        }
    dict_set_sym(attrs_of(exc), s_context, h);
}

static Value set_pending(Interp *I, Value exc)
{
    Value old = I->exc;

    set_context(I, exc);
    I->exc = exc;
    I->reraised = false;
    value_unref(old);
    return VERR;
}

static Value exc_make(Interp *I, ExcKind kind, Value args)
{
    Value e = instance_new(I->exc_class[kind]);

    dict_set_sym(attrs_of(e), I->s_args, args);
    value_unref(args);
    return e;
}

Value raise(Interp *I, ExcKind kind, const char *fmt, ...)
{
    StrBuf b = {0};
    va_list ap;

    va_start(ap, fmt);
    sb_vprintf(&b, fmt, ap);
    va_end(ap);
    return set_pending(I, exc_make(I, kind, tuple_of(1, str_steal(&b))));
}

Value raise_value(Interp *I, Value v)
{
    Value e;

    if (v.tag == V_CLASS && is_exc_class(I, (ClassObj *)v.o)) {
        e = class_call(I, (ClassObj *)v.o, NULL, 0, NULL, NULL, 0);
        if (is_err(e) || (e.tag == V_INSTANCE && is_exc_class(I, ((InstanceObj *)e.o)->cls)))
            return is_err(e) ? VERR : set_pending(I, e);
        raise(I, EXC_TypeError, "calling %s should have returned an instance of BaseException, not '%s'",
              ((ClassObj *)v.o)->name->text, value_type_name(e));
        value_unref(e);
        return VERR;
    }
    if (v.tag != V_INSTANCE || !is_exc_class(I, ((InstanceObj *)v.o)->cls))
        return raise(I, EXC_TypeError, "exceptions must derive from BaseException");
    return set_pending(I, value_ref(v));
}

Value raise_key_error(Interp *I, Value key)
{
    return set_pending(I, exc_make(I, EXC_KeyError, tuple_of(1, value_ref(key))));
}

ExcKind errno_class(int err)
{
    switch (err) {
    case ENOENT: return EXC_FileNotFoundError;
    case EEXIST: return EXC_FileExistsError;
    case EISDIR: return EXC_IsADirectoryError;
    case ENOTDIR: return EXC_NotADirectoryError;
    case EACCES: case EPERM: return EXC_PermissionError;
    case ETIMEDOUT: return EXC_TimeoutError;
    case EPIPE: return EXC_BrokenPipeError;
    case EAGAIN: return EXC_BlockingIOError;
    default: return EXC_OSError;
    }
}

Value raise_errno(Interp *I, int err, const char *path)
{
    Value e = exc_make(I, errno_class(err), tuple_of(2, vint(err), str_c(strerror(err))));

    if (path) {
        Value p = str_c(path);
        dict_set_sym(attrs_of(e), sym("filename"), p);
        value_unref(p);
    }
    return set_pending(I, e);
}

Value raise_stop(Interp *I, Value it)
{
    GenObj *g = (GenObj *)it.o;
    Value v = it.tag == V_GENERATOR && !is_err(g->out) ? value_ref(g->out) : VERR;

    return set_pending(I, exc_make(I, EXC_StopIteration, is_err(v) || v.tag == V_NONE ? tuple_new(0) : tuple_of(1, v)));
}

bool exc_pending(Interp *I)
{
    return I->exc.tag != V_ERR;
}

bool exc_matches(Interp *I, ExcKind kind)
{
    return exc_pending(I) && class_derives(((InstanceObj *)I->exc.o)->cls, I->exc_class[kind]);
}

Value exc_take(Interp *I)
{
    Value e = I->exc;

    I->exc = VERR;
    I->reraised = false;
    return e;
}

void exc_clear(Interp *I)
{
    value_unref(exc_take(I));
}

int exc_exit_code(Interp *I, Value exc)
{
    Value code;
    int r = 1;

    if (exc.tag != V_INSTANCE || !class_derives(((InstanceObj *)exc.o)->cls, I->exc_class[EXC_SystemExit]))
        return -1;
    code = exc_attr(I, (InstanceObj *)exc.o, sym("code"));
    if (code.tag == V_NONE) {
        r = 0;
    } else if (code.tag == V_INT || code.tag == V_BOOL) {
        r = (int)code.i & 255;
    } else {
        Value s = value_str(I, code);
        interp_flush(I);
        fprintf(stderr, "%s\n", is_err(s) ? "exit" : as_str(s)->s);
        value_unref(s);
    }
    value_unref(code);
    return r;
}

/* ------------------------------------------------------------- tracebacks */

typedef struct { const Code *code; Span at; const void *frame; } Entry;
typedef struct { NativeInst inst; Vec(Entry) entry; } Traceback;

static void traceback_free(void *self)
{
    vec_free(&((Traceback *)self)->entry);
}

static const NativeType traceback_type = {.name = "traceback", .free = traceback_free};

static Traceback *traceback_of(Value exc, bool make)
{
    Value t = dict_get_sym(attrs_of(exc), s_traceback);

    if (t.tag == V_NATIVEOBJ && ((NativeInst *)t.o)->type == &traceback_type)
        return (Traceback *)t.o;
    if (!make)
        return NULL;
    t = vobj(nativeobj_new(&traceback_type, sizeof(Traceback)));
    dict_set_sym(attrs_of(exc), s_traceback, t);
    value_unref(t);
    return (Traceback *)t.o;
}

void traceback_add(Interp *I, const Frame *f)
{
    Traceback *t = traceback_of(I->exc, true);
    Entry e = {f->code, f->at ? f->at->span : (Span){0, 0}, f};

    if (I->reraised && t->entry.n && vec_last(&t->entry).frame == f)
        return;
    I->reraised = false;
    vec_push(&t->entry, e);
}

void exc_set_cause(Interp *I, Value cause)
{
    if (cause.tag == V_CLASS && is_exc_class(I, (ClassObj *)cause.o))
        cause = class_call(I, (ClassObj *)cause.o, NULL, 0, NULL, NULL, 0);
    else
        value_ref(cause);
    if (!is_err(cause) && cause.tag != V_NONE && !(cause.tag == V_INSTANCE && is_exc_class(I, ((InstanceObj *)cause.o)->cls))) {
        value_unref(cause);
        exc_clear(I);
        raise(I, EXC_TypeError, "exception causes must derive from BaseException");
        return;
    }
    if (!is_err(cause) && exc_pending(I)) {
        dict_set_sym(attrs_of(I->exc), s_cause, cause);
        dict_set_sym(attrs_of(I->exc), s_suppress, vbool(true));
    }
    value_unref(cause);
}

int exc_fits(Interp *I, Value exc, Value type)
{
    if (type.tag == V_TUPLE) {
        for (int64_t i = 0; i < as_tuple(type)->n; i++) {
            int r = exc_fits(I, exc, as_tuple(type)->at[i]);
            if (r)
                return r;
        }
        return 0;
    }
    if (type.tag == V_CLASS && is_exc_class(I, (ClassObj *)type.o))
        return class_derives(class_of(I, exc), (ClassObj *)type.o);
    raise(I, EXC_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return -1;
}

Value exc_catch(Interp *I, Frame *f)
{
    traceback_add(I, f);
    return exc_take(I);
}

static void render_entry(const Entry *e, StrBuf *out)
{
    Place p = source_place(e->at.lo);
    uint32_t n;
    const char *line;

    if (!p.src) {
        sb_printf(out, "  in %s\n", e->code->name->text);
        return;
    }
    sb_printf(out, "  File \"%s\", line %u, in %s\n", p.src->path, p.line, e->code->name->text);
    line = source_line(p.src, p.line, &n);
    while (n && (*line == ' ' || *line == '\t'))
        line++, n--;
    if (n)
        sb_printf(out, "    %.*s\n", (int)n, line);
}

static bool same_place(const Entry *a, const Entry *b)
{
    return a->code == b->code && source_place(a->at.lo).line == source_place(b->at.lo).line;
}

enum { REPEATS_SHOWN = 3, ENTRIES_SHOWN = 100 };

/* How many entries before i, seen from the outermost, are at the same place as it without a break. */
static int repeats(const Traceback *t, int i, int before)
{
    return i < t->entry.n - 1 && same_place(&t->entry.at[i], &t->entry.at[i + 1]) ? before + 1 : 0;
}

static int count_shown(const Traceback *t)
{
    int shown = 0, run = 0;

    for (int i = t->entry.n - 1; i >= 0; i--) {
        run = repeats(t, i, run);
        shown += run < REPEATS_SHOWN;
    }
    return shown;
}

/* A line repeated by recursion is counted; of a very deep stack the middle is left out. */
static void render_traceback(const Traceback *t, StrBuf *out)
{
    int run = 0, shown = 0, total = count_shown(t);
    int skip_from = ENTRIES_SHOWN / 2, skip_to = total > ENTRIES_SHOWN ? total - ENTRIES_SHOWN / 2 : 0;

    sb_puts(out, "Traceback (most recent call last):\n");
    for (int i = t->entry.n - 1; i >= 0; i--) {
        const Entry *e = &t->entry.at[i];
        bool hidden = shown >= skip_from && shown < skip_to;
        run = repeats(t, i, run);
        if (run < REPEATS_SHOWN && hidden && shown == skip_from)
            sb_printf(out, "  [%d calls are not shown]\n", skip_to - skip_from);
        if (run < REPEATS_SHOWN && !hidden)
            render_entry(e, out);
        shown += run < REPEATS_SHOWN;
        if (!hidden && run >= REPEATS_SHOWN && (i == 0 || !same_place(e, e - 1)))
            sb_printf(out, "  [Previous line repeated %d more time%s]\n", run - REPEATS_SHOWN + 1,
                      run > REPEATS_SHOWN ? "s" : "");
    }
}

static void render_message(Interp *I, Value exc, StrBuf *out)
{
    StrBuf text = {0};
    Value notes = dict_get_sym(attrs_of(exc), s_notes);

    sb_puts(out, value_type_name(exc));
    if (!object_str_to(I, exc, &text)) {
        exc_clear(I);
        sb_clear(&text);
        sb_puts(&text, "<exception str() failed>");
    }
    if (text.n)
        sb_printf(out, ": %s", sb_str(&text));
    sb_putc(out, '\n');
    for (int64_t i = 0; notes.tag == V_LIST && i < as_list(notes)->n; i++)
        if (as_list(notes)->at[i].tag == V_STR)
            sb_printf(out, "%s\n", as_str(as_list(notes)->at[i])->s);
    sb_done(&text);
}

enum { CHAIN_SHOWN = 50, GROUP_SHOWN = 15, GROUP_DEPTH = 10 };

/* Where in groups of groups the writing is, which shifts its lines to the right; close: the last of a group stands above, without its end. */
typedef struct { Interp *I; StrBuf *out; int depth; bool close; } Writing;

/* The text, line by line behind a margin where it is of a group; margin: of its first line. Used up. */
static void emit(const Writing *w, StrBuf *text, char margin)
{
    for (const char *s = sb_str(text), *end; *s; s = end, margin = '|') {
        end = strchr(s, '\n') ? strchr(s, '\n') + 1 : s + strlen(s);
        if (w->depth)
            sb_printf(w->out, "%*s%c ", 2 * w->depth, "", margin);
        sb_write(w->out, s, (size_t)(end - s));
    }
    sb_done(text);
}

/* The exceptions of a group; VERR: it is none. Borrowed. */
static Value group_parts(Value exc)
{
    const ClassObj *c = ((InstanceObj *)exc.o)->cls;
    Value parts = dict_get_sym(attrs_of(exc), sym("exceptions"));

    while (c && strcmp(c->name->text, "ExceptionGroup"))
        c = c->base;
    return c && parts.tag == V_TUPLE ? parts : VERR;
}

static void render_chain(Writing *w, Value exc, int chained);

static void render_parts(Writing *w, const TupleObj *parts)
{
    int64_t n = parts->n > GROUP_SHOWN ? GROUP_SHOWN : parts->n;
    StrBuf rest = {0};

    for (int64_t i = 0; i < n; i++) {
        w->close = i == n - 1;
        sb_printf(w->out, "%*s%s+---------------- %lld ----------------\n", 2 * w->depth, "", i ? "  " : "+-", (long long)i + 1);
        w->depth++;
        if (parts->at[i].tag == V_INSTANCE)
            render_chain(w, parts->at[i], 0);
        if (i == n - 1 && parts->n > n) {
            sb_printf(&rest, "and %lld more exceptions\n", (long long)(parts->n - n));
            emit(w, &rest, '|');
        }
        if (i == n - 1 && w->close)
            sb_printf(w->out, "%*s+------------------------------------\n", 2 * w->depth, "");
        w->close = w->close && i < n - 1;
        w->depth--;
    }
}

/* One exception, without those before it: where it comes from, and what it says. */
static void render_one(Writing *w, Value exc)
{
    const Traceback *t = traceback_of(exc, false);
    Value parts = group_parts(exc);
    bool top = !is_err(parts) && !w->depth;
    StrBuf text = {0};

    if (t && t->entry.n) {
        sb_puts(&text, is_err(parts) ? "" : "Exception Group ");
        render_traceback(t, &text);
    }
    render_message(w->I, exc, &text);
    w->depth += top;
    emit(w, &text, top ? '+' : '|');
    if (!is_err(parts) && w->depth < GROUP_DEPTH)
        render_parts(w, as_tuple(parts));
    w->depth -= top;
}

static void render_chain(Writing *w, Value exc, int chained)
{
    DictObj *a = attrs_of(exc);
    Value cause = dict_get_sym(a, s_cause), context = dict_get_sym(a, s_context), hide = dict_get_sym(a, s_suppress);
    StrBuf between = {0};

    if (chained < CHAIN_SHOWN && cause.tag == V_INSTANCE) {
        render_chain(w, cause, chained + 1);
        sb_puts(&between, "\nThe above exception was the direct cause of the following exception:\n\n");
    } else if (chained < CHAIN_SHOWN && context.tag == V_INSTANCE && !(hide.tag == V_BOOL && hide.i)) {
        render_chain(w, context, chained + 1);
        sb_puts(&between, "\nDuring handling of the above exception, another exception occurred:\n\n");
    }
    emit(w, &between, '|');
    render_one(w, exc);
}

void exc_render(Interp *I, Value exc, StrBuf *out)
{
    render_chain(&(Writing){.I = I, .out = out}, exc, 0);
}

/* ------------------------------------------------------------- what an exception answers */

static Value nth_arg(Interp *I, InstanceObj *e, int i)
{
    Value args = dict_get_sym(e->attrs, I->s_args);

    return args.tag == V_TUPLE && as_tuple(args)->n > i ? value_ref(as_tuple(args)->at[i]) : VNONE;
}

Value exc_attr(Interp *I, InstanceObj *e, Sym name)
{
    static const struct { const char *name; ExcKind of; int arg; } fields[] = {
        {"code", EXC_SystemExit, 0}, {"value", EXC_StopIteration, 0}, {"errno", EXC_OSError, 0},
        {"strerror", EXC_OSError, 1}, {"filename", EXC_OSError, 2}, {"name", EXC_NameError, 9}, {"name", EXC_ImportError, 9},
    };

    if (!e->attrs)
        e->attrs = as_dict(dict_new());
    if (name == s_cause || name == s_context || name == s_traceback)
        return VNONE;
    if (name == s_suppress)
        return vbool(false);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(name->text, fields[i].name) && class_derives(e->cls, I->exc_class[fields[i].of]))
            return nth_arg(I, e, fields[i].arg);
    return VERR;
}

static Value os_error_text(Interp *I, InstanceObj *e, TupleObj *args)
{
    Value file = dict_get_sym(e->attrs, sym("filename"));
    StrBuf b = {0};

    if (is_err(file) && args->n > 2)
        file = args->at[2];
    sb_puts(&b, "[Errno ");
    if (!value_str_to(I, args->at[0], &b))
        return sb_done(&b), VERR;
    sb_puts(&b, "] ");
    if (!value_str_to(I, args->at[1], &b))
        return sb_done(&b), VERR;
    if (!is_err(file)) {
        sb_puts(&b, ": ");
        if (!value_repr_to(I, file, &b))
            return sb_done(&b), VERR;
    }
    return str_steal(&b);
}

Value exc_str(Interp *I, InstanceObj *e)
{
    Value args = dict_get_sym(e->attrs, I->s_args);

    if (args.tag != V_TUPLE || !as_tuple(args)->n)
        return str_c("");
    if (as_tuple(args)->n == 1)
        return class_derives(e->cls, I->exc_class[EXC_KeyError]) ? value_repr(I, as_tuple(args)->at[0])
                                                                 : value_str(I, as_tuple(args)->at[0]);
    if (class_derives(e->cls, I->exc_class[EXC_OSError]) && as_tuple(args)->n <= 3 && as_tuple(args)->at[0].tag == V_INT)
        return os_error_text(I, e, as_tuple(args));
    return value_repr(I, args);
}
