/* Splitting and replacing by patterns: walks over the matches, and replacement templates with \1 and \g<name>. */
#include "frontend/lib/re.h"

#include "frontend/lib/text.h"

#include <ctype.h>
#include <string.h>

Value re_split(Interp *I, const Pattern *p, StrObj *s, int64_t max)
{
    Scan c = {p, s};
    Value out = list_new(4), v = VNONE;
    size_t from = 0;

    for (int64_t n = 0; (max <= 0 || n < max) && (v = scan_next(I, &c)).tag == V_NATIVEOBJ; n++) {
        Match *m = (Match *)v.o;
        list_push(as_list(out), str_new(s->s + from, m->at[0] - from));
        for (uint32_t i = 1; i < m->n; i++)
            list_push(as_list(out), group_text(m, i, VNONE));
        from = m->at[1];
        value_unref(v);
    }
    if (is_err(v)) {
        value_unref(out);
        return VERR;
    }
    list_push(as_list(out), str_new(s->s + from, s->len - from));
    return out;
}

int64_t re_group_index(const Pattern *p, Interp *I, Value v)
{
    int64_t i;
    int n;

    if (v.tag == V_STR) {
        n = pcre2_substring_number_from_name(p->code, (PCRE2_SPTR)as_str(v)->s);
        if (n > 0)
            return n;
    } else if (value_as_int(I, v, &i)) {
        if (i >= 0 && i <= p->ngroups)
            return i;
    } else {
        exc_clear(I);
    }
    raise(I, EXC_IndexError, "no such group");
    return -1;
}

static bool put_group(Interp *I, const Match *m, Value which, StrBuf *b)
{
    int64_t i = re_group_index((Pattern *)m->re.o, I, which);
    Value none;

    if (i < 0) {
        exc_clear(I);
        raise(I, EXC_PatternError, "invalid group reference in the replacement");
        return false;
    }
    none = str_new("", 0);
    Value t = group_text(m, (uint32_t)i, none);
    sb_write(b, as_str(t)->s, as_str(t)->len);
    value_unref(t);
    value_unref(none);
    return true;
}

/* One escape of a replacement behind its backslash at *p: \1 \12 \g<name> \n \\ ... */
static bool put_escape(Interp *I, const Match *m, const char **p, const char *end, StrBuf *b)
{
    static const char from[] = "ntrabfv\\", to[] = "\n\t\r\a\b\f\v\\";
    char c = **p;
    const char *hit;

    if (c == 'g' && *p + 1 < end && (*p)[1] == '<') {
        const char *name = *p + 2, *close = memchr(name, '>', (size_t)(end - name));
        int64_t i;
        if (!close) {
            raise(I, EXC_PatternError, "missing >, unterminated name");
            return false;
        }
        *p = close + 1;
        if (parse_int(name, (size_t)(close - name), 10, &i) == PARSE_OK)
            return put_group(I, m, vint(i), b);
        Value key = str_new(name, (size_t)(close - name));
        bool ok = put_group(I, m, key, b);
        value_unref(key);
        return ok;
    }
    ++*p;
    if (isdigit((unsigned char)c)) {
        int64_t i = c - '0';
        if (*p < end && isdigit((unsigned char)**p))
            i = i * 10 + (*(*p)++ - '0');
        return put_group(I, m, vint(i), b);
    }
    hit = c ? strchr(from, c) : NULL;
    if (!hit && isalpha((unsigned char)c)) {
        raise(I, EXC_PatternError, "bad escape \\%c in the replacement", c);
        return false;
    }
    if (!hit)
        sb_putc(b, '\\');
    sb_putc(b, hit ? to[hit - from] : c);
    return true;
}

bool re_replacement(Interp *I, const Match *m, Value repl, StrBuf *b)
{
    Value r, arg = vobj((void *)(uintptr_t)m);
    const char *p, *end;

    if (repl.tag != V_STR) {
        r = value_call(I, repl, &arg, 1);
        StrObj *s = is_err(r) ? NULL : need_str(I, r, "the replacement");
        if (s)
            sb_write(b, s->s, s->len);
        value_unref(r);
        return s != NULL;
    }
    for (p = as_str(repl)->s, end = p + as_str(repl)->len; p < end;) {
        if (*p != '\\' || p + 1 >= end) {
            sb_putc(b, *p++);
            continue;
        }
        p++;
        if (!put_escape(I, m, &p, end, b))
            return false;
    }
    return true;
}

/* The text with up to max matches replaced, and how many were. */
Value re_substitute(Interp *I, const Pattern *p, Value repl, StrObj *s, int64_t max, int64_t *count)
{
    Scan c = {p, s};
    StrBuf b = {0};
    Value v = VNONE;
    size_t from = 0;

    for (*count = 0; (max <= 0 || *count < max) && (v = scan_next(I, &c)).tag == V_NATIVEOBJ; ++*count) {
        Match *m = (Match *)v.o;
        bool ok;
        sb_write(&b, s->s + from, m->at[0] - from);
        from = m->at[1];
        ok = re_replacement(I, m, repl, &b);
        value_unref(v);
        if (!ok) {
            v = VERR;
            break;
        }
    }
    if (is_err(v)) {
        sb_done(&b);
        return VERR;
    }
    sb_write(&b, s->s + from, s->len - from);
    return str_steal(&b);
}

