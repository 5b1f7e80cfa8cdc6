/*
 * The module re, on PCRE2.
 *
 * Python's patterns are PCRE2's with three spellings to translate: (?P<n>...),
 * (?P=n) and (?P>n) PCRE2 knows itself; \Z means PCRE2's \z; named groups keep
 * their order.  Positions in the language count code points, inside bytes.
 */
#include "frontend/lib/re.h"

#include "base/vec.h"
#include "frontend/lib/text.h"

#include <ctype.h>
#include <string.h>

enum { RE_I = 2, RE_M = 8, RE_S = 16, RE_U = 32, RE_X = 64, RE_A = 256 };       /* Python's numbers */

static void pattern_free(void *p)
{
    value_unref(((Pattern *)p)->text);
    pcre2_code_free(((Pattern *)p)->code);
}

static void match_free(void *p)
{
    value_unref(((Match *)p)->re);
    value_unref(((Match *)p)->text);
    tsr_free(((Match *)p)->at);
}

static Value pattern_getattr(Interp *I, void *p, Sym name);
static Value match_getattr(Interp *I, void *p, Sym name);

/* ", re.IGNORECASE|re.DOTALL" */
static void put_flags(int flags, StrBuf *b)
{
    static const struct { int flag; const char *name; } names[] = {
        {RE_I, "IGNORECASE"}, {RE_M, "MULTILINE"}, {RE_S, "DOTALL"}, {RE_X, "VERBOSE"}, {RE_A, "ASCII"},
    };
    const char *before = ", re.";

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (flags & names[i].flag) {
            sb_printf(b, "%s%s", before, names[i].name);
            before = "|re.";
        }
}

static void pattern_repr(Interp *I, void *p, StrBuf *b)
{
    sb_puts(b, "re.compile(");
    value_repr_to(I, ((Pattern *)p)->text, b);
    put_flags(((Pattern *)p)->flags, b);
    sb_putc(b, ')');
}

static void match_repr(Interp *I, void *p, StrBuf *b)
{
    Match *m = p;
    StrObj *s = as_str(m->text);

    sb_printf(b, "<re.Match object; span=(%lld, %lld), match=", (long long)str_index_of(s, m->at[0]),
              (long long)str_index_of(s, m->at[1]));
    repr_str(b, s->s + m->at[0], m->at[1] - m->at[0]);
    sb_putc(b, '>');
}

static const NativeType pattern_type = {"Pattern", pattern_free, .getattr = pattern_getattr, .repr = pattern_repr};
static const NativeType match_type = {"Match", match_free, .getattr = match_getattr, .repr = match_repr};

/* ------------------------------------------------------------- compiling */

/* The digits behind \u or \U; 0: there are not so many. */
static size_t code_point_digits(const char *s, size_t n)
{
    size_t want = n ? (*s == 'u' ? 4 : *s == 'U' ? 8 : 0) : 0, have = 0;

    while (have < want && 1 + have < n && isxdigit((unsigned char)s[1 + have]))
        have++;
    return have == want ? have : 0;
}

/* \Z to \z, \u00e4 to \x{00e4}, and Python's meaning of $ without MULTILINE (the end, or before a last newline) is PCRE2's own. */
static void translate(const char *s, size_t n, StrBuf *b)
{
    for (size_t i = 0; i < n; i++) {
        size_t digits = s[i] == '\\' ? code_point_digits(s + i + 1, n - i - 1) : 0;
        if (digits) {
            sb_printf(b, "\\x{%.*s}", (int)digits, s + i + 2);
            i += digits + 1;
        } else if (s[i] == '\\' && i + 1 < n) {
            sb_putc(b, '\\');
            sb_putc(b, s[++i] == 'Z' ? 'z' : s[i]);
        } else {
            sb_putc(b, s[i]);
        }
    }
}

static uint32_t options_of(int flags)
{
    uint32_t o = PCRE2_UTF | PCRE2_NO_UTF_CHECK;

    o |= flags & RE_I ? PCRE2_CASELESS : 0;
    o |= flags & RE_M ? PCRE2_MULTILINE : 0;
    o |= flags & RE_S ? PCRE2_DOTALL : 0;
    o |= flags & RE_X ? PCRE2_EXTENDED : 0;
    o |= flags & RE_A ? 0 : PCRE2_UCP;
    return o;
}

/* NULL: why says what is wrong with it. */
static pcre2_code *read_pattern(const char *s, size_t n, int flags, StrBuf *why)
{
    pcre2_compile_context *ctx = pcre2_compile_context_create(NULL);
    StrBuf b = {0};
    PCRE2_SIZE at;
    PCRE2_UCHAR text[160];
    int err;
    pcre2_code *code;

    translate(s, n, &b);
    pcre2_set_newline(ctx, PCRE2_NEWLINE_LF);
    code = pcre2_compile((PCRE2_SPTR)sb_str(&b), b.n, options_of(flags), &err, &at, ctx);
    pcre2_compile_context_free(ctx);
    sb_done(&b);
    if (!code) {
        pcre2_get_error_message(err, text, sizeof text);
        sb_printf(why, "%s at position %lld", (char *)text, (long long)utf8_count(s, at < n ? at : n));
    }
    return code;
}

bool re_wrong(const char *s, size_t n, StrBuf *why)
{
    pcre2_code *code = read_pattern(s, n, 0, why);

    pcre2_code_free(code);
    return !code;
}

static Value compile(Interp *I, StrObj *text, int64_t flags)
{
    StrBuf why = {0};
    pcre2_code *code = read_pattern(text->s, text->len, (int)flags, &why);
    Pattern *p;

    if (!code)
        raise(I, EXC_PatternError, "%s", sb_str(&why));
    sb_done(&why);
    if (!code)
        return VERR;
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    p = nativeobj_new(&pattern_type, sizeof *p);
    p->text = value_ref(vobj(text));
    p->flags = (int)flags | RE_U;
    p->code = code;
    pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &p->ngroups);
    return vobj(p);
}

/* Patterns given as text, by flags and text: compiled once. */
static Value cache;

void re_done(void)
{
    value_unref(cache);
    cache = VERR;
}

static Pattern *as_pattern(Value v)
{
    return v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type == &pattern_type ? (Pattern *)v.o : NULL;
}

/* The pattern of an argument: compiled already, or text. New reference; NULL pending. */
static Pattern *pattern_of(Interp *I, Value v, int64_t flags)
{
    Value key, p;

    if (as_pattern(v))
        return (Pattern *)value_ref(v).o;
    v = unwrap_base(v);
    if (v.tag != V_STR) {
        raise(I, EXC_TypeError, "first argument must be string or compiled pattern");
        return NULL;
    }
    if (cache.tag != V_DICT)
        cache = dict_new();
    key = tuple_of(2, value_ref(v), vint(flags));
    p = dict_get(I, as_dict(cache), key);
    if (!is_err(p)) {
        value_ref(p);
    } else if (!exc_pending(I)) {
        p = compile(I, as_str(v), flags);
        if (as_dict(cache)->n > 500)
            dict_clear(as_dict(cache));
        if (!is_err(p) && !dict_set(I, as_dict(cache), key, p)) {
            value_unref(p);
            p = VERR;
        }
    }
    value_unref(key);
    return is_err(p) ? NULL : (Pattern *)p.o;
}

static Value f_compile(Interp *I, Value *a)
{
    int64_t flags;
    Pattern *p = value_as_int(I, a[1], &flags) ? pattern_of(I, a[0], flags) : NULL;

    return p ? vobj(p) : VERR;
}

/* ------------------------------------------------------------- matching */

typedef enum { SEARCH, MATCH, FULL } How;

static Match *match_new(const Pattern *p, StrObj *s, const PCRE2_SIZE *ov)
{
    Match *m = nativeobj_new(&match_type, sizeof *m);

    m->re = value_ref(vobj((void *)(uintptr_t)p));
    m->text = value_ref(vobj(s));
    m->n = p->ngroups + 1;
    m->at = tsr_alloc(m->n * 2 * sizeof *m->at);
    memcpy(m->at, ov, m->n * 2 * sizeof *m->at);
    return m;
}

/* Match in the bytes [from, to) of s; None when there is nothing. */
static Value run(Interp *I, const Pattern *p, StrObj *s, size_t from, size_t to, How how, uint32_t more)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(p->code, NULL);
    uint32_t o = PCRE2_NO_UTF_CHECK | more | (how == SEARCH ? 0 : PCRE2_ANCHORED) | (how == FULL ? PCRE2_ENDANCHORED : 0);
    int rc = pcre2_match(p->code, (PCRE2_SPTR)s->s, to, from, o, data, NULL);
    Value v = VNONE;

    if (rc >= 0) {
        v = vobj(match_new(p, s, pcre2_get_ovector_pointer(data)));
    } else if (rc != PCRE2_ERROR_NOMATCH) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(rc, why, sizeof why);
        v = raise(I, EXC_RuntimeError, "matching gave up: %s", (char *)why);
    }
    pcre2_match_data_free(data);
    return v;
}

static bool byte_bounds(Interp *I, StrObj *s, Value pos, Value endpos, size_t *from, size_t *to)
{
    int64_t n = str_nchars(s), a = 0, b = n;

    if ((is_given(pos) && !value_as_int(I, pos, &a)) || (is_given(endpos) && !value_as_int(I, endpos, &b)))
        return false;
    a = a < 0 ? 0 : a > n ? n : a;
    b = b < a ? a : b > n ? n : b;
    *from = str_byte_of(s, a);
    *to = str_byte_of(s, b);
    return true;
}

static StrObj *subject(Interp *I, Value v)
{
    Value s = unwrap_base(v);

    if (s.tag == V_STR)
        return as_str(s);
    raise(I, EXC_TypeError, "expected string or bytes-like object, got '%s'", value_type_name(v));
    return NULL;
}

/* a = pattern, string, flags */
static Value once(Interp *I, Value *a, How how)
{
    int64_t flags;
    Pattern *p = value_as_int(I, a[2], &flags) ? pattern_of(I, a[0], flags) : NULL;
    StrObj *s = p ? subject(I, a[1]) : NULL;
    Value v = s ? run(I, p, s, 0, s->len, how, 0) : VERR;

    obj_unref(p);
    return v;
}

static Value f_search(Interp *I, Value *a) { return once(I, a, SEARCH); }
static Value f_match(Interp *I, Value *a) { return once(I, a, MATCH); }
static Value f_fullmatch(Interp *I, Value *a) { return once(I, a, FULL); }

/* a = self, string, pos, endpos */
static Value m_once(Interp *I, Value *a, How how)
{
    StrObj *s = subject(I, a[1]);
    size_t from, to;

    return s && byte_bounds(I, s, a[2], a[3], &from, &to) ? run(I, (Pattern *)a[0].o, s, from, to, how, 0) : VERR;
}

static Value m_search(Interp *I, Value *a) { return m_once(I, a, SEARCH); }
static Value m_match(Interp *I, Value *a) { return m_once(I, a, MATCH); }
static Value m_fullmatch(Interp *I, Value *a) { return m_once(I, a, FULL); }

/* ------------------------------------------------------------- all matches */

/*
 * The next match; V_NONE at the end.  After an empty match the next one may
 * start at the same place but not be empty, as in Python since 3.7.
 */
Value scan_next(Interp *I, Scan *c)
{
    while (!c->done) {
        uint32_t more = c->after_empty ? PCRE2_NOTEMPTY_ATSTART : 0;
        Value v = run(I, c->p, c->s, c->at, c->s->len - c->cut, SEARCH, more);
        if (v.tag == V_NONE)
            c->done = true;
        if (v.tag != V_NATIVEOBJ)
            return v;
        Match *m = (Match *)v.o;
        c->after_empty = m->at[0] == m->at[1];
        c->at = m->at[1];
        return v;
    }
    return VNONE;
}

Value group_text(const Match *m, uint32_t i, Value dflt)
{
    if (m->at[2 * i] == PCRE2_UNSET)
        return value_ref(dflt);
    return str_new(as_str(m->text)->s + m->at[2 * i], m->at[2 * i + 1] - m->at[2 * i]);
}

/* What findall lists for a match: the whole, the one group, or the tuple of groups. */
static Value found(const Match *m)
{
    Value empty = str_new("", 0), v;

    if (m->n <= 2) {
        v = group_text(m, m->n - 1, empty);
    } else {
        v = tuple_new(m->n - 1);
        for (uint32_t i = 1; i < m->n; i++)
            as_tuple(v)->at[i - 1] = group_text(m, i, empty);
    }
    value_unref(empty);
    return v;
}

static Value findall(Interp *I, Scan *c, bool texts)
{
    Value out = list_new(4), v;

    while ((v = scan_next(I, c)).tag == V_NATIVEOBJ) {
        list_push(as_list(out), texts ? found((Match *)v.o) : value_ref(v));
        value_unref(v);
    }
    if (!is_err(v))
        return out;
    value_unref(out);
    return VERR;
}

static Value all(Interp *I, Value *a, bool texts)
{
    int64_t flags;
    Pattern *p = value_as_int(I, a[2], &flags) ? pattern_of(I, a[0], flags) : NULL;
    StrObj *s = p ? subject(I, a[1]) : NULL;
    Value v = s ? findall(I, &(Scan){p, s}, texts) : VERR;

    obj_unref(p);
    return v;
}

static Value iterator_of(Interp *I, Value list)
{
    Value it = is_err(list) ? VERR : value_iter(I, list);

    value_unref(list);
    return it;
}

static Value f_findall(Interp *I, Value *a) { return all(I, a, true); }
static Value f_finditer(Interp *I, Value *a) { return iterator_of(I, all(I, a, false)); }

/* a = pattern, string, pos, endpos */
static Value all_between(Interp *I, Value *a, bool texts)
{
    StrObj *s = subject(I, a[1]);
    size_t from, to;

    if (!s || !byte_bounds(I, s, a[2], a[3], &from, &to))
        return VERR;
    return findall(I, &(Scan){(Pattern *)a[0].o, s, from, s->len - to}, texts);
}

static Value m_findall(Interp *I, Value *a) { return all_between(I, a, true); }
static Value m_finditer(Interp *I, Value *a) { return iterator_of(I, all_between(I, a, false)); }

/* ------------------------------------------------------------- split and sub */

/* a = pattern, repl, string, count, flags */
static Value sub(Interp *I, Value *a, bool with_count)
{
    int64_t flags, max, n;
    Pattern *p = value_as_int(I, a[3], &max) && value_as_int(I, a[4], &flags) ? pattern_of(I, a[0], flags) : NULL;
    StrObj *s = p ? subject(I, a[2]) : NULL;
    Value v = s ? re_substitute(I, p, a[1], s, max, &n) : VERR;

    obj_unref(p);
    return is_err(v) || !with_count ? v : tuple_of(2, v, vint(n));
}

static Value f_sub(Interp *I, Value *a) { return sub(I, a, false); }
static Value f_subn(Interp *I, Value *a) { return sub(I, a, true); }

static Value m_sub(Interp *I, Value *a)
{
    Value args[5] = {a[0], a[1], a[2], a[3], vint(0)};
    return sub(I, args, false);
}

static Value m_subn(Interp *I, Value *a)
{
    Value args[5] = {a[0], a[1], a[2], a[3], vint(0)};
    return sub(I, args, true);
}

/* a = pattern, string, maxsplit, flags */
static Value f_split(Interp *I, Value *a)
{
    int64_t flags, max;
    Pattern *p = value_as_int(I, a[2], &max) && value_as_int(I, a[3], &flags) ? pattern_of(I, a[0], flags) : NULL;
    StrObj *s = p ? subject(I, a[1]) : NULL;
    Value v = s ? re_split(I, p, s, max) : VERR;

    obj_unref(p);
    return v;
}

static Value m_split(Interp *I, Value *a)
{
    Value args[4] = {a[0], a[1], a[2], vint(0)};
    return f_split(I, args);
}

static Value f_escape(Interp *I, Value *a)
{
    StrObj *s = need_str(I, a[0], "the text");
    StrBuf b = {0};

    if (!s)
        return VERR;
    for (uint32_t i = 0; i < s->len; i++) {
        if (s->s[i] && strchr("()[]{}?*+-|^$\\.&~# \t\n\r\v\f", s->s[i]))
            sb_putc(&b, '\\');
        sb_putc(&b, s->s[i]);
    }
    return str_steal(&b);
}

/* ------------------------------------------------------------- Match and Pattern */

static Value m_group(Interp *I, Value *a)
{
    Match *m = (Match *)a[0].o;
    TupleObj *which = as_tuple(a[1]);
    Value out;
    int64_t i;

    if (!which->n)
        return group_text(m, 0, VNONE);
    if (which->n == 1)
        return (i = re_group_index((Pattern *)m->re.o, I, which->at[0])) < 0 ? VERR : group_text(m, (uint32_t)i, VNONE);
    out = tuple_new(which->n);
    for (int64_t k = 0; k < which->n; k++)
        as_tuple(out)->at[k] = VNONE;
    for (int64_t k = 0; k < which->n; k++) {
        i = re_group_index((Pattern *)m->re.o, I, which->at[k]);
        if (i < 0) {
            value_unref(out);
            return VERR;
        }
        as_tuple(out)->at[k] = group_text(m, (uint32_t)i, VNONE);
    }
    return out;
}

static Value m_getitem(Interp *I, Value *a)
{
    int64_t i = re_group_index((Pattern *)((Match *)a[0].o)->re.o, I, a[1]);
    return i < 0 ? VERR : group_text((Match *)a[0].o, (uint32_t)i, VNONE);
}

static Value m_groups(Interp *I, Value *a)
{
    Match *m = (Match *)a[0].o;
    Value out = tuple_new(m->n - 1);

    for (uint32_t i = 1; i < m->n; i++)
        as_tuple(out)->at[i - 1] = group_text(m, i, a[1]);
    return out;
}

/* fn(name, number) for the named groups, by number. */
static void named_groups(const Pattern *p, void (*fn)(void *st, const char *name, uint32_t i), void *st)
{
    uint32_t count, size;
    PCRE2_SPTR table;

    pcre2_pattern_info(p->code, PCRE2_INFO_NAMECOUNT, &count);
    pcre2_pattern_info(p->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
    pcre2_pattern_info(p->code, PCRE2_INFO_NAMETABLE, &table);
    for (uint32_t i = 1; i <= p->ngroups; i++)
        for (uint32_t k = 0; k < count; k++) {
            PCRE2_SPTR e = table + k * size;
            if ((uint32_t)(e[0] << 8 | e[1]) == i)
                fn(st, (const char *)e + 2, i);
        }
}

typedef struct { Value dict, dflt; const Match *m; } Named;

static void put_named(void *st, const char *name, uint32_t i)
{
    Named *n = st;
    Value v = n->m ? group_text(n->m, i, n->dflt) : vint(i);

    dict_set_sym(as_dict(n->dict), sym(name), v);
    value_unref(v);
}

static Value m_groupdict(Interp *I, Value *a)
{
    Match *m = (Match *)a[0].o;
    Named n = {dict_new(), a[1], m};

    named_groups((Pattern *)m->re.o, put_named, &n);
    return n.dict;
}

/* a = self, group: start, end or both of it in code points, -1 when it took no part */
static Value place(Interp *I, Value *a, int what)
{
    Match *m = (Match *)a[0].o;
    int64_t i = re_group_index((Pattern *)m->re.o, I, a[1]), at[2] = {-1, -1};

    if (i < 0)
        return VERR;
    for (int k = 0; k < 2 && m->at[2 * i] != PCRE2_UNSET; k++)
        at[k] = str_index_of(as_str(m->text), m->at[2 * i + k]);
    return what == 2 ? tuple_of(2, vint(at[0]), vint(at[1])) : vint(at[what]);
}

static Value m_start(Interp *I, Value *a) { return place(I, a, 0); }
static Value m_end(Interp *I, Value *a) { return place(I, a, 1); }
static Value m_span(Interp *I, Value *a) { return place(I, a, 2); }

static Value m_expand(Interp *I, Value *a)
{
    StrObj *t = need_str(I, a[1], "the template");
    StrBuf b = {0};

    if (t && re_replacement(I, (Match *)a[0].o, vobj(t), &b))
        return str_steal(&b);
    sb_done(&b);
    return VERR;
}

/* The name of a group; None when it has none. */
static Value group_name(const Pattern *p, uint32_t group)
{
    Named n = {dict_new(), VNONE, NULL};
    Value r = VNONE;

    named_groups(p, put_named, &n);
    for (int64_t i = 0; i < as_dict(n.dict)->used; i++) {
        const DictEntry *e = &as_dict(n.dict)->entry[i];
        if (e->val.tag == V_INT && e->val.i == group)
            r = value_ref(e->key);
    }
    value_unref(n.dict);
    return r;
}

/* The group that took part and ended last: ends come in the order of closing brackets, inner ones before those around them. */
static uint32_t last_closed(const Match *m)
{
    const StrObj *s = as_str(((Pattern *)m->re.o)->text);
    Vec(uint32_t) open = {0};
    uint32_t count = 0, last = 0;

    for (const char *p = s->s, *end = p + s->len; p < end; p++) {
        if (*p == '\\' && p + 1 < end) {
            p++;
        } else if (*p == '[') {
            p += p[1] == '^' ? 1 : 0;
            p += p[1] == ']' ? 1 : 0;
            for (p++; p < end && *p != ']'; p++)
                p += *p == '\\';
        } else if (*p == '(') {
            bool takes = p[1] != '?' || (p[2] == 'P' && p[3] == '<') || (p[2] == '<' && p[3] != '=' && p[3] != '!');
            vec_push(&open, takes ? ++count : 0);
        } else if (*p == ')' && open.n) {
            uint32_t g = open.at[--open.n];
            if (g && g < m->n && m->at[2 * g] != PCRE2_UNSET)
                last = g;
        }
    }
    vec_free(&open);
    return last;
}

static Value match_getattr(Interp *I, void *p, Sym name)
{
    Match *m = p;
    uint32_t last = 0;
    bool named = !strcmp(name->text, "lastgroup");

    if (!strcmp(name->text, "string"))
        return value_ref(m->text);
    if (!strcmp(name->text, "re"))
        return value_ref(m->re);
    if (!named && strcmp(name->text, "lastindex"))
        return VERR;
    last = last_closed(m);
    return !last ? VNONE : named ? group_name((Pattern *)m->re.o, last) : vint(last);
}

static Value pattern_getattr(Interp *I, void *v, Sym name)
{
    Pattern *p = v;

    if (!strcmp(name->text, "pattern"))
        return value_ref(p->text);
    if (!strcmp(name->text, "flags"))
        return vint(p->flags);
    if (!strcmp(name->text, "groups"))
        return vint(p->ngroups);
    if (strcmp(name->text, "groupindex"))
        return VERR;
    Named n = {dict_new(), VNONE, NULL};
    named_groups(p, put_named, &n);
    return n.dict;
}

static Value c_error(Interp *I, Value *a) { return value_ref(vobj(exc_class(I, EXC_PatternError))); }
static Value c_i(Interp *I, Value *a) { return vint(RE_I); }
static Value c_m(Interp *I, Value *a) { return vint(RE_M); }
static Value c_s(Interp *I, Value *a) { return vint(RE_S); }
static Value c_x(Interp *I, Value *a) { return vint(RE_X); }
static Value c_a(Interp *I, Value *a) { return vint(RE_A); }

static Value f_purge(Interp *I, Value *a)
{
    re_done();
    return VNONE;
}

const NativeDef natives_re[] = {
    {"re", "compile", f_compile, "(pattern, flags: int = 0) -> Pattern", "A pattern for use many times; re.error says what is wrong with it."},
    {"re", "search", f_search, "(pattern, string: str, flags: int = 0)", "The first match anywhere."},
    {"re", "match", f_match, "(pattern, string: str, flags: int = 0)", "A match at the beginning."},
    {"re", "fullmatch", f_fullmatch, "(pattern, string: str, flags: int = 0)", "A match of the whole string."},
    {"re", "findall", f_findall, "(pattern, string: str, flags: int = 0) -> list", "The texts of all matches, or of their groups."},
    {"re", "finditer", f_finditer, "(pattern, string: str, flags: int = 0) -> Iterator", "All matches."},
    {"re", "sub", f_sub, "(pattern, repl, string: str, count: int = 0, flags: int = 0) -> str", "Matches replaced by a template with \\1 and \\g<name>, or by what a function gives."},
    {"re", "subn", f_subn, "(pattern, repl, string: str, count: int = 0, flags: int = 0) -> tuple[str, int]", "Like sub, with how many were replaced."},
    {"re", "split", f_split, "(pattern, string: str, maxsplit: int = 0, flags: int = 0) -> list", "The texts between matches, with their groups."},
    {"re", "purge", f_purge, "() -> None", "Forgets the patterns that were compiled for calls."},
    {"re", "escape", f_escape, "(pattern: str, /) -> str", "The text as a pattern that matches it."},
    {"re", "error", c_error, "type[PatternError]", "Raised for patterns that are not well formed."},
    {"re", "PatternError", c_error, "type[PatternError]", "Raised for patterns that are not well formed."},
    {"re", "I", c_i, "int", "Ignore case."},
    {"re", "IGNORECASE", c_i, "int", "Ignore case."},
    {"re", "M", c_m, "int", "^ and $ match at every line."},
    {"re", "MULTILINE", c_m, "int", "^ and $ match at every line."},
    {"re", "S", c_s, "int", ". matches newlines."},
    {"re", "DOTALL", c_s, "int", ". matches newlines."},
    {"re", "X", c_x, "int", "White space and comments in patterns."},
    {"re", "VERBOSE", c_x, "int", "White space and comments in patterns."},
    {"re", "A", c_a, "int", "Classes such as \\w hold ASCII only."},
    {"re", "ASCII", c_a, "int", "Classes such as \\w hold ASCII only."},
    {"Pattern", "search", m_search, "(self, string: str, pos: int = 0, endpos: int | None = None)", "The first match anywhere."},
    {"Pattern", "match", m_match, "(self, string: str, pos: int = 0, endpos: int | None = None)", "A match at the beginning."},
    {"Pattern", "fullmatch", m_fullmatch, "(self, string: str, pos: int = 0, endpos: int | None = None)", "A match of the whole string."},
    {"Pattern", "findall", m_findall, "(self, string: str, pos: int = 0, endpos: int | None = None) -> list", "The texts of all matches, or of their groups."},
    {"Pattern", "finditer", m_finditer, "(self, string: str, pos: int = 0, endpos: int | None = None) -> Iterator", "All matches."},
    {"Pattern", "sub", m_sub, "(self, repl, string: str, count: int = 0) -> str", "Matches replaced."},
    {"Pattern", "subn", m_subn, "(self, repl, string: str, count: int = 0) -> tuple[str, int]", "Like sub, with how many were replaced."},
    {"Pattern", "split", m_split, "(self, string: str, maxsplit: int = 0) -> list", "The texts between matches, with their groups."},
    {"Match", "group", m_group, "(self, *groups)", "The text of a group, by number or name; of the whole match; a tuple of several."},
    {"Match", "__getitem__", m_getitem, "(self, group)", "The text of a group."},
    {"Match", "groups", m_groups, "(self, default=None) -> tuple", "The texts of all groups."},
    {"Match", "groupdict", m_groupdict, "(self, default=None) -> dict", "The texts of the named groups."},
    {"Match", "start", m_start, "(self, group=0, /) -> int", "Where a group begins."},
    {"Match", "end", m_end, "(self, group=0, /) -> int", "Where a group ends."},
    {"Match", "span", m_span, "(self, group=0, /) -> tuple[int, int]", "Where a group begins and ends."},
    {"Match", "expand", m_expand, "(self, template: str, /) -> str", "A replacement template filled from this match."},
    {0},
};
