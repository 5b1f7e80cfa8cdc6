/*
 * The methods of str that take text apart: split and its kin, lines, partition.
 * Each goes over the bytes once; from the end, pieces are found in reverse and turned around.
 */
#include "frontend/lib/lib.h"
#include "frontend/lib/number.h"
#include "frontend/lib/text.h"

static void push_piece(Value list, const char *p, size_t n)
{
    list_push(as_list(list), str_new(p, n));
}

static Value split_space(const StrObj *s, int64_t max)
{
    const char *p = s->s, *end = p + s->len;
    Value out = list_new(8);

    for (;;) {
        const char *q = p, *from;
        while (p < end && (q = p, is_space(utf8_next(&q))))
            p = q;
        if (p >= end)
            return out;
        from = p;
        if (max >= 0 && as_list(out)->n == max) {       /* the rest in one piece */
            push_piece(out, p, (size_t)(end - p));
            return out;
        }
        while (p < end && (q = p, !is_space(utf8_next(&q))))
            p = q;
        push_piece(out, from, (size_t)(p - from));
    }
}

static const char *step_back(const char *start, const char *end)
{
    do
        end--;
    while (end > start && ((unsigned char)*end & 0xc0) == 0x80);
    return end;
}

static bool space_before(const char *start, const char *end)
{
    const char *q = step_back(start, end);
    return is_space(utf8_next(&q));
}

static Value reversed_list(Value l)
{
    Value *at = as_list(l)->at;

    for (int64_t i = 0, j = as_list(l)->n - 1; i < j; i++, j--) {
        Value t = at[i];
        at[i] = at[j];
        at[j] = t;
    }
    return l;
}

static Value rsplit_space(const StrObj *s, int64_t max)
{
    const char *start = s->s, *end = start + s->len;
    Value out = list_new(8);

    for (;;) {
        const char *to;
        while (end > start && space_before(start, end))
            end = step_back(start, end);
        if (end == start)
            return reversed_list(out);
        to = end;
        if (max >= 0 && as_list(out)->n == max) {
            push_piece(out, start, (size_t)(end - start));
            return reversed_list(out);
        }
        while (end > start && !space_before(start, end))
            end = step_back(start, end);
        push_piece(out, end, (size_t)(to - end));
    }
}

static Value split_by(const StrObj *s, const StrObj *sep, int64_t max)
{
    const char *p = s->s, *end = p + s->len, *hit;
    Value out = list_new(8);

    while ((max < 0 || as_list(out)->n < max) && (hit = mem_find(p, (size_t)(end - p), sep->s, sep->len))) {
        push_piece(out, p, (size_t)(hit - p));
        p = hit + sep->len;
    }
    push_piece(out, p, (size_t)(end - p));
    return out;
}

static Value rsplit_by(const StrObj *s, const StrObj *sep, int64_t max)
{
    const char *start = s->s, *end = start + s->len, *hit;
    Value out = list_new(8);

    while ((max < 0 || as_list(out)->n < max) && (hit = mem_rfind(start, (size_t)(end - start), sep->s, sep->len))) {
        push_piece(out, hit + sep->len, (size_t)(end - hit) - sep->len);
        end = hit;
    }
    push_piece(out, start, (size_t)(end - start));
    return reversed_list(out);
}

static Value split(Interp *I, Value *a, bool reverse)
{
    StrObj *s = self_str(I, a[0]), *sep;
    int64_t max;

    if (!s || !value_as_int(I, a[2], &max))
        return VERR;
    if (!is_given(a[1]))
        return reverse ? rsplit_space(s, max) : split_space(s, max);
    sep = need_str(I, a[1], "the separator");
    if (!sep)
        return VERR;
    if (!sep->len)
        return raise(I, EXC_ValueError, "empty separator");
    return reverse ? rsplit_by(s, sep, max) : split_by(s, sep, max);
}

static Value m_split(Interp *I, Value *a) { return split(I, a, false); }
static Value m_rsplit(Interp *I, Value *a) { return split(I, a, true); }

static bool ends_line(uint32_t c)
{
    return c == '\n' || c == '\r' || c == 0x0b || c == 0x0c || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

static Value m_splitlines(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    int keep = s ? value_truth(I, a[1]) : -1;
    const char *p, *end, *from;
    Value out;

    if (keep < 0)
        return VERR;
    out = list_new(8);
    for (p = from = s->s, end = p + s->len; p < end;) {
        const char *at = p;
        uint32_t c = utf8_next(&p);
        if (!ends_line(c))
            continue;
        if (c == '\r' && p < end && *p == '\n')
            p++;
        push_piece(out, from, (size_t)((keep ? p : at) - from));
        from = p;
    }
    if (from < end)
        push_piece(out, from, (size_t)(end - from));
    return out;
}

static Value partition(Interp *I, Value *a, bool reverse)
{
    StrObj *s = self_str(I, a[0]), *sep = s ? need_str(I, a[1], "the separator") : NULL;
    const char *hit;
    size_t n;

    if (!sep)
        return VERR;
    if (!sep->len)
        return raise(I, EXC_ValueError, "empty separator");
    hit = reverse ? mem_rfind(s->s, s->len, sep->s, sep->len) : mem_find(s->s, s->len, sep->s, sep->len);
    if (!hit)
        return reverse ? tuple_of(3, str_new("", 0), str_new("", 0), value_ref(vobj(s)))
                       : tuple_of(3, value_ref(vobj(s)), str_new("", 0), str_new("", 0));
    n = (size_t)(hit - s->s);
    return tuple_of(3, str_new(s->s, n), value_ref(vobj(sep)), str_new(hit + sep->len, s->len - n - sep->len));
}

static Value m_partition(Interp *I, Value *a) { return partition(I, a, false); }
static Value m_rpartition(Interp *I, Value *a) { return partition(I, a, true); }

const NativeDef natives_str_split[] = {
    {"str", "split", m_split, "(self, sep: str | None = None, maxsplit: int = -1) -> list[str]", "The pieces between separators; without sep, between runs of white space."},
    {"str", "rsplit", m_rsplit, "(self, sep: str | None = None, maxsplit: int = -1) -> list[str]", "Like split, but maxsplit counts from the end."},
    {"str", "splitlines", m_splitlines, "(self, keepends: bool = False) -> list[str]", "The lines, without their ends unless keepends."},
    {"str", "partition", m_partition, "(self, sep: str, /) -> tuple[str, str, str]", "Before, separator, after; (self, '', '') when sep is not found."},
    {"str", "rpartition", m_rpartition, "(self, sep: str, /) -> tuple[str, str, str]", "Like partition at the last separator."},
    {0},
};
