/*
 * Case and character classes of str, by Unicode's tables (utf8proc).
 *
 * utf8proc maps one code point to one; the few letters whose other case is
 * several letters (ß, ŉ, the ligatures) are listed here.
 */
#include "frontend/lib/lib.h"
#include "frontend/lib/number.h"
#include "frontend/lib/text.h"

#include <utf8proc.h>

#include <string.h>

typedef struct { uint32_t c; const char *upper, *title; } SpecialCase;

static const SpecialCase special[] = {
    {0x00df, "SS", "Ss"}, {0x0149, "ʼN", "ʼN"}, {0x01f0, "J̌", "J̌"}, {0x0390, "Ϊ́", "Ϊ́"},
    {0x03b0, "Ϋ́", "Ϋ́"}, {0x0587, "ԵՒ", "Եւ"}, {0x1e96, "H̱", "H̱"}, {0x1e97, "T̈", "T̈"},
    {0x1e98, "W̊", "W̊"}, {0x1e99, "Y̊", "Y̊"}, {0x1e9a, "Aʾ", "Aʾ"}, {0xfb00, "FF", "Ff"},
    {0xfb01, "FI", "Fi"}, {0xfb02, "FL", "Fl"}, {0xfb03, "FFI", "Ffi"}, {0xfb04, "FFL", "Ffl"},
    {0xfb05, "ST", "St"}, {0xfb06, "ST", "St"}, {0xfb13, "ՄՆ", "Մն"}, {0xfb14, "ՄԵ", "Մե"},
    {0xfb15, "ՄԻ", "Մի"}, {0xfb16, "ՎՆ", "Վն"}, {0xfb17, "ՄԽ", "Մխ"},
};

static const SpecialCase *special_of(uint32_t c)
{
    if (c < 0xdf)
        return NULL;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (special[i].c == c)
            return &special[i];
    return NULL;
}

static void put_upper(StrBuf *b, uint32_t c)
{
    const SpecialCase *s = special_of(c);

    if (s)
        sb_puts(b, s->upper);
    else
        sb_put_utf8(b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)c));
}

static void put_title(StrBuf *b, uint32_t c)
{
    const SpecialCase *s = special_of(c);

    if (s)
        sb_puts(b, s->title);
    else
        sb_put_utf8(b, (uint32_t)utf8proc_totitle((utf8proc_int32_t)c));
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

static bool is_upper(uint32_t c)
{
    return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU || utf8proc_isupper((utf8proc_int32_t)c);
}

static bool is_lower(uint32_t c)
{
    return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL || utf8proc_islower((utf8proc_int32_t)c);
}

static bool is_title(uint32_t c)
{
    return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT;
}

static bool is_cased(uint32_t c)
{
    return is_upper(c) || is_lower(c) || is_title(c);
}

/* A final sigma: a cased letter before it and none after (Unicode's Final_Sigma, without ignorable marks). */
static bool final_sigma(const StrObj *s, const char *from, const char *next)
{
    const char *before = from;
    uint32_t c;

    if (from == s->s)
        return false;
    do
        before--;
    while (((unsigned char)*before & 0xc0) == 0x80);
    c = utf8_next(&before);
    if (!is_cased(c))
        return false;
    return next >= s->s + s->len || !is_cased(utf8_next(&next));
}

static void put_lower(StrBuf *b, const StrObj *s, const char *from, const char *next, uint32_t c)
{
    if (c == 0x3a3)
        sb_put_utf8(b, final_sigma(s, from, next) ? 0x3c2 : 0x3c3);
    else if (c == 0x130)
        sb_puts(b, "i̇");
    else
        sb_put_utf8(b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
}

/* ------------------------------------------------------------- case */

typedef enum { UPPER, LOWER, SWAP, TITLE, CAPITALIZE } CaseMode;

static Value ascii_case(const StrObj *s, CaseMode mode)
{
    StrBuf b = {0};
    bool in_word = false;

    sb_write(&b, s->s, s->len);
    for (uint32_t i = 0; i < s->len; i++) {
        char c = b.s[i];
        bool up = c >= 'A' && c <= 'Z', low = c >= 'a' && c <= 'z';
        bool want_up = mode == UPPER || (mode == SWAP && low) || (mode == TITLE && !in_word) || (mode == CAPITALIZE && !i);
        if (want_up ? low : up && mode != UPPER)
            b.s[i] = (char)(c ^ 32);
        in_word = up || low;
    }
    return str_steal(&b);
}

static Value change_case(Interp *I, Value *a, CaseMode mode)
{
    StrObj *s = self_str(I, a[0]);
    const char *p, *end;
    bool in_word = false;
    StrBuf b = {0};

    if (!s)
        return VERR;
    if (str_is_ascii(s) && s->len)
        return ascii_case(s, mode);
    for (p = s->s, end = p + s->len; p < end;) {
        const char *from = p;
        uint32_t c = utf8_next(&p);
        if (mode == UPPER || (mode == SWAP && is_lower(c)))
            put_upper(&b, c);
        else if (mode == SWAP && !is_upper(c))
            sb_write(&b, from, (size_t)(p - from));
        else if ((mode == TITLE && !in_word) || (mode == CAPITALIZE && from == s->s))
            put_title(&b, c);
        else
            put_lower(&b, s, from, p, c);
        in_word = is_cased(c);
    }
    return str_steal(&b);
}

static Value m_upper(Interp *I, Value *a) { return change_case(I, a, UPPER); }
static Value m_lower(Interp *I, Value *a) { return change_case(I, a, LOWER); }
static Value m_swapcase(Interp *I, Value *a) { return change_case(I, a, SWAP); }
static Value m_title(Interp *I, Value *a) { return change_case(I, a, TITLE); }
static Value m_capitalize(Interp *I, Value *a) { return change_case(I, a, CAPITALIZE); }

static Value m_casefold(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    const char *p, *end;
    StrBuf b = {0};

    if (!s)
        return VERR;
    if (str_is_ascii(s))
        return ascii_case(s, LOWER);
    for (p = s->s, end = p + s->len; p < end;) {
        utf8proc_int32_t to[8];
        int last = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)utf8_next(&p), to, 8, UTF8PROC_CASEFOLD, &last);
        for (utf8proc_ssize_t i = 0; i < n && i < 8; i++)
            sb_put_utf8(&b, (uint32_t)to[i]);
    }
    return str_steal(&b);
}

/* ------------------------------------------------------------- classes */

static bool is_alpha(uint32_t c)
{
    if (c < 0x80)
        return (c | 32) >= 'a' && (c | 32) <= 'z';
    switch (category(c)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return true;
    default:
        return false;
    }
}

static bool is_decimal(uint32_t c)
{
    return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND;
}

/* Digits also in raised, lowered and circled form. */
static bool is_digit(uint32_t c)
{
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247c) ||
           (c >= 0x2488 && c <= 0x2490) || (c >= 0x2776 && c <= 0x277e);
}

static bool is_numeric(uint32_t c)
{
    static const char cjk[] = "〇一七万三九二五亿億兆八六十千四百零壱壹弐貳叁參肆伍陸柒捌玖拾佰仟萬";
    utf8proc_category_t k = category(c);

    if (is_digit(c) || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO)
        return true;
    for (const char *p = cjk; *p;)
        if (utf8_next(&p) == c)
            return true;
    return false;
}

static bool is_alnum(uint32_t c)
{
    return is_alpha(c) || is_numeric(c);
}

/* Every code point passes; none at all does not. */
static Value all_chars(Interp *I, Value *a, bool (*test)(uint32_t))
{
    StrObj *s = self_str(I, a[0]);

    if (!s)
        return VERR;
    for (const char *p = s->s; p < s->s + s->len;)
        if (!test(utf8_next(&p)))
            return vbool(false);
    return vbool(s->len > 0);
}

static Value m_isalpha(Interp *I, Value *a) { return all_chars(I, a, is_alpha); }
static Value m_isdecimal(Interp *I, Value *a) { return all_chars(I, a, is_decimal); }
static Value m_isdigit(Interp *I, Value *a) { return all_chars(I, a, is_digit); }
static Value m_isnumeric(Interp *I, Value *a) { return all_chars(I, a, is_numeric); }
static Value m_isalnum(Interp *I, Value *a) { return all_chars(I, a, is_alnum); }
static Value m_isspace(Interp *I, Value *a) { return all_chars(I, a, is_space); }

static Value m_isascii(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    return s ? vbool(str_is_ascii(s)) : VERR;
}

static Value m_isprintable(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);

    if (s && !s->len)
        return vbool(true);
    return all_chars(I, a, codepoint_printable);
}

/* At least one cased letter, and none of the other case. */
static Value one_case(Interp *I, Value *a, bool (*want)(uint32_t), bool (*other)(uint32_t))
{
    StrObj *s = self_str(I, a[0]);
    bool any = false;

    if (!s)
        return VERR;
    for (const char *p = s->s; p < s->s + s->len;) {
        uint32_t c = utf8_next(&p);
        if (other(c) || is_title(c))
            return vbool(false);
        any |= want(c);
    }
    return vbool(any);
}

static Value m_islower(Interp *I, Value *a) { return one_case(I, a, is_lower, is_upper); }
static Value m_isupper(Interp *I, Value *a) { return one_case(I, a, is_upper, is_lower); }

static Value m_istitle(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    bool in_word = false, any = false;

    if (!s)
        return VERR;
    for (const char *p = s->s; p < s->s + s->len;) {
        uint32_t c = utf8_next(&p);
        if (is_upper(c) || is_title(c) ? in_word : is_lower(c) && !in_word)
            return vbool(false);
        in_word = is_cased(c);
        any |= in_word;
    }
    return vbool(any);
}

static bool starts_identifier(uint32_t c)
{
    return c == '_' || is_alpha(c) || (c >= 0x80 && category(c) == UTF8PROC_CATEGORY_NL);
}

static bool continues_identifier(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return starts_identifier(c) || is_decimal(c) || k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC ||
           k == UTF8PROC_CATEGORY_PC;
}

static Value m_isidentifier(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    const char *p;

    if (!s)
        return VERR;
    p = s->s;
    if (!s->len || !starts_identifier(utf8_next(&p)))
        return vbool(false);
    while (p < s->s + s->len)
        if (!continues_identifier(utf8_next(&p)))
            return vbool(false);
    return vbool(true);
}

const NativeDef natives_str_case[] = {
    {"str", "upper", m_upper, "(self, /) -> str", "In upper case."},
    {"str", "lower", m_lower, "(self, /) -> str", "In lower case."},
    {"str", "swapcase", m_swapcase, "(self, /) -> str", "With upper and lower case exchanged."},
    {"str", "title", m_title, "(self, /) -> str", "Each word with a capital and the rest in lower case."},
    {"str", "capitalize", m_capitalize, "(self, /) -> str", "The first character a capital, the rest in lower case."},
    {"str", "casefold", m_casefold, "(self, /) -> str", "For comparing without case."},
    {"str", "isalpha", m_isalpha, "(self, /) -> bool", "Only letters, and at least one?"},
    {"str", "isdecimal", m_isdecimal, "(self, /) -> bool", "Only decimal digits, and at least one?"},
    {"str", "isdigit", m_isdigit, "(self, /) -> bool", "Only digits, raised and circled ones included, and at least one?"},
    {"str", "isnumeric", m_isnumeric, "(self, /) -> bool", "Only numeric characters, and at least one?"},
    {"str", "isalnum", m_isalnum, "(self, /) -> bool", "Only letters and numbers, and at least one?"},
    {"str", "isspace", m_isspace, "(self, /) -> bool", "Only white space, and at least one?"},
    {"str", "isascii", m_isascii, "(self, /) -> bool", "Only ASCII?"},
    {"str", "isprintable", m_isprintable, "(self, /) -> bool", "Does repr() show every character as it is?"},
    {"str", "islower", m_islower, "(self, /) -> bool", "Cased letters, all lower?"},
    {"str", "isupper", m_isupper, "(self, /) -> bool", "Cased letters, all upper?"},
    {"str", "istitle", m_istitle, "(self, /) -> bool", "Words that begin with a capital, the rest lower?"},
    {"str", "isidentifier", m_isidentifier, "(self, /) -> bool", "Could it be a name?"},
    {0},
};
