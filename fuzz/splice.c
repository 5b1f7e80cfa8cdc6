/*
 * splice.c - how program texts are changed: by tokens and lines, not by bytes.
 *
 * Most changes keep a text nearly grammatical: a token gives way to another of
 * its class, lines are dropped, doubled, moved, indented, or taken from other
 * inputs; a name gives way to any name of the prelude or of the text itself.
 * One change in eight is libFuzzer's own, so that bytes are not forgotten.
 */
#include "targets.h"

#include "frontend/prelude.h"
#include "frontend/syntax/token.h"

static uint64_t state;

static uint32_t random_below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (uint32_t)(state >> 16) % n : 0;
}

/* ------------------------------------------------------------- pieces of text */

typedef enum Class { BLANK, WORD, NUMBER, TEXT, SIGN, LINE_END } Class;
typedef struct Piece { const char *s; size_t n; Class cls; } Piece;

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t text_length(const char *s, size_t n)
{
    size_t i = 1;

    while (i < n && s[i] != s[0] && s[i] != '\n')
        i += 1 + (s[i] == '\\' && i + 1 < n);
    return i < n ? i + 1 : n;
}

/* The piece at the start of s; n > 0. */
static Piece cut(const char *s, size_t n)
{
    Piece p = {s, 1, SIGN};

    if (*s == '\n')
        p.cls = LINE_END;
    else if (*s == ' ')
        for (p.cls = BLANK; p.n < n && s[p.n] == ' '; p.n++) {}
    else if (is_word(*s))
        for (p.cls = WORD; p.n < n && (is_word(s[p.n]) || is_digit(s[p.n])); p.n++) {}
    else if (is_digit(*s))
        for (p.cls = NUMBER; p.n < n && (is_word(s[p.n]) || is_digit(s[p.n]) || s[p.n] == '.'); p.n++) {}
    else if (*s == '"' || *s == '\'')
        p.n = text_length(s, n), p.cls = TEXT;
    else if (n > 1 && strchr("*/<>=!-&|@", *s) && (s[1] == '=' || s[1] == *s || s[1] == '>'))
        p.n = 2;
    return p;
}

/* A piece at a random place: not blank, when one is near. */
static Piece piece_anywhere(const char *s, size_t n)
{
    uint32_t want = random_below((uint32_t)n);
    size_t at = 0;
    Piece p = cut(s, n);

    while (at + p.n < n && (at + p.n <= want || p.cls == BLANK || p.cls == LINE_END)) {
        at += p.n;
        p = cut(s + at, n - at);
    }
    return p;
}

/* ------------------------------------------------------------- what to put in */

static const char *const numbers[] = {
    "0", "1", "2", "3", "4", "5", "7", "-1", "-2", "8", "16", "100", "1000", "65536", "2147483647", "4294967296",
    "9223372036854775807", "-9223372036854775808", "0.0", "-0.0", "0.5", "1.5", "1e-5", "1e308", "1e-320", "inf", "nan", "2j",
};
static const char *const texts[] = {"''", "'a'", "'abc'", "\"x{}\"", "f'{x!r:>5}'", "'%d'", "'ij,jk->ik'", "b'\\x00'", "'é'", "'\\n'"};
static const char *const atoms[] = {
    "None", "True", "()", "[]", "{}", "x", "self", "...", "[1, 2, 3]", "(1, 2)", "{'a': 1}", "{1, 2}", "range(5)", "lambda x: x",
    "ones((2, 3))", "zeros((0, 3))", "arange(6).reshape(2, 3)", "tensor([1.0, 2.0])", "tensor(3)", "slice(1, None)", "x[0]",
    "x.T", "x + 1", "[i for i in x]", "x if x else 1", "grad(f)", "vmap(f)", "jit(f)", "bf16", "f32", "int8", "f(x)", "*x", "**x",
};

static Piece piece_of(const char *s)
{
    return (Piece){s, strlen(s), SIGN};
}

#define ANY(list) (list)[random_below((uint32_t)(sizeof(list) / sizeof *(list)))]

static const char *any_operator(void)
{
    static int count;

    while (!count || operator_at(count))
        count++;
    return operator_at((int)random_below((uint32_t)count));
}

static const char *any_keyword(void)
{
    static int count;

    while (!count || keyword_at(count))
        count++;
    return keyword_at((int)random_below((uint32_t)count));
}

/* Something to stand where `old` stood: half the time of its class, from the text itself or from the language. */
static Piece substitute(Piece old, const char *s, size_t n)
{
    if (random_below(4) == 0)
        return piece_anywhere(s, n);
    switch (random_below(2) ? old.cls : (Class)random_below(LINE_END)) {
    case NUMBER:
        return piece_of(ANY(numbers));
    case TEXT:
        return piece_of(ANY(texts));
    case SIGN:
        return piece_of(any_operator());
    case WORD:
        return piece_of(random_below(3) ? prelude_row((int)random_below((uint32_t)prelude_count()))->name->text : any_keyword());
    default:
        return piece_of(ANY(atoms));
    }
}

/* ------------------------------------------------------------- lines kept from inputs seen before */

enum { POOL = 4096, LINE_MOST = 120 };

static struct { char s[LINE_MOST]; size_t n; } pool[POOL];
static uint32_t pooled;

static Piece line_at(const char *s, size_t n, size_t at)
{
    size_t lo = at < n ? at : n, hi = lo;

    while (lo > 0 && s[lo - 1] != '\n')
        lo--;
    while (hi < n && s[hi] != '\n')
        hi++;
    hi += hi < n;
    return (Piece){s + lo, hi - lo, LINE_END};
}

static void keep_line(const char *s, size_t n)
{
    Piece p = line_at(s, n, random_below((uint32_t)n));
    uint32_t i = pooled < POOL ? pooled++ : random_below(POOL);

    if (p.n >= 2 && p.n < LINE_MOST) {
        memcpy(pool[i].s, p.s, p.n);
        pool[i].n = p.n;
    }
}

/* ------------------------------------------------------------- changes */

/* The text with [at, at + gone) replaced by p; unchanged when that is too long. */
static size_t replace(char *s, size_t n, size_t max, size_t at, size_t gone, Piece p)
{
    char copy[512];

    if (p.n > sizeof copy || n - gone + p.n > max)
        return n;
    memcpy(copy, p.s, p.n);                     /* it may lie in s */
    memmove(s + at + p.n, s + at + gone, n - at - gone);
    memcpy(s + at, copy, p.n);
    return n - gone + p.n;
}

static size_t insert_line(char *s, size_t n, size_t max)
{
    Piece here = line_at(s, n, random_below((uint32_t)n)), in;
    uint32_t i = random_below(pooled);
    char copy[LINE_MOST + 64];
    size_t blank = 0, own = 0;

    if (!pooled || !pool[i].n)
        return n;
    while (blank < 60 && blank < here.n && here.s[blank] == ' ')
        blank++;
    while (own < pool[i].n && pool[i].s[own] == ' ')
        own++;
    memset(copy, ' ', blank);
    memcpy(copy + blank, pool[i].s + own, pool[i].n - own);
    in = (Piece){copy, blank + pool[i].n - own, LINE_END};
    return replace(s, n, max, (size_t)(here.s - s), 0, in);
}

static size_t change_line(char *s, size_t n, size_t max)
{
    Piece p = line_at(s, n, random_below((uint32_t)n));
    size_t at = (size_t)(p.s - s);
    Piece other = line_at(s, n, random_below((uint32_t)n));

    switch (random_below(5)) {
    case 0:
        return replace(s, n, max, at, p.n, (Piece){s, 0, LINE_END});
    case 1:
        return replace(s, n, max, at, 0, other);
    case 2:
        return replace(s, n, max, at, p.n, other);
    case 3:
        return replace(s, n, max, at, 0, piece_of("    "));
    default:
        return p.n > 4 && !memcmp(p.s, "    ", 4) ? replace(s, n, max, at, 4, piece_of("")) : n;
    }
}

static size_t change_piece(char *s, size_t n, size_t max)
{
    Piece p = piece_anywhere(s, n);
    size_t at = (size_t)(p.s - s);

    switch (random_below(6)) {
    case 0:
        return replace(s, n, max, at, p.n, piece_of(""));
    case 1:
        n = replace(s, n, max, at, 0, piece_of(" "));
        return replace(s, n, max, at, 0, substitute(p, s, n));
    default:
        return replace(s, n, max, at, p.n, substitute(p, s, n));
    }
}

size_t change_text(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    char *s = (char *)data;

    state = seed * 0x9E3779B97F4A7C15ull + 1;
    if (!n || random_below(8) == 0)
        return LLVMFuzzerMutate(data, n, max);
    keep_line(s, n);
    for (uint32_t k = 1 + random_below(4); k && n; k--) {
        uint32_t how = random_below(10);
        n = how < 6 ? change_piece(s, n, max) : how < 8 ? change_line(s, n, max) : insert_line(s, n, max);
    }
    return n;
}

size_t splice_texts(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t max, unsigned seed)
{
    Piece head, tail;
    size_t first, rest;

    state = seed * 0x9E3779B97F4A7C15ull + 1;
    if (!na || !nb)
        return 0;
    head = line_at((const char *)a, na, random_below((uint32_t)na));
    tail = line_at((const char *)b, nb, random_below((uint32_t)nb));
    first = (size_t)(head.s - (const char *)a);
    rest = nb - (size_t)(tail.s - (const char *)b);
    first = first < max ? first : max;
    rest = rest < max - first ? rest : max - first;
    memcpy(out, a, first);
    memcpy(out + first, tail.s, rest);
    return first + rest;
}
