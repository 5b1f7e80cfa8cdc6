/* Names, keywords and numbers: what depends on more than their own spelling. */
#include "frontend/syntax/lexer.h"

#include <string.h>
#include <utf8proc.h>

/* ---- words ---- */

/* "from . import x": the dot does not make a name of the keyword. */
static bool is_from_import(Lexer *x, int kind)
{
    int n = x->out->tok.n, i = x->first;
    const Token *t = x->out->tok.at;

    while (i < n && (t[i].kind == TOK_INDENT || t[i].kind == TOK_DEDENT))
        i++;
    return kind == TOK_IMPORT && n - i >= 2 && t[i].kind == TOK_FROM &&
           (t[n - 2].kind == TOK_FROM || t[n - 2].kind == TOK_DOT || t[n - 2].kind == TOK_ELLIPSIS);
}

void lex_keyword(Lexer *x, int kind)
{
    Token *prev = lex_previous(x);
    Token *t;

    if (prev && prev->kind == TOK_DOT && !is_from_import(x, kind)) {
        t = lex_emit(x, TOK_NAME);
        t->u.sym = sym_n(x->start, (size_t)(x->cur - x->start));
        t->flags |= TOKF_RAW;
    } else if (kind == TOK_IN && prev && prev->kind == TOK_NOT) {
        prev->kind = TOK_CMP;
        prev->op = AOP_NOT_IN;
        prev->span.hi = lex_pos_of(x, x->cur);
    } else if (kind == TOK_NOT && prev && prev->kind == TOK_CMP && prev->op == AOP_IS) {
        prev->op = AOP_IS_NOT;
        prev->span.hi = lex_pos_of(x, x->cur);
    } else {
        bool first = x->fresh;
        t = lex_emit(x, kind);
        t->op = AOP_IN;
        if (first && x->br.n && lex_begins_statement(kind) && lex_may_go_back(x)) {
            int k = lex_resync_token(x);
            if (k >= 0)
                lex_never_closed(x, k);
        }
    }
}

void lex_name(Lexer *x)
{
    if (x->cur - x->start > NAME_MAX_BYTES)
        lex_mistake(x, E0121, lex_span_of(x, x->start, x->start + 16), "this name has more than 4096 bytes", NULL);
    lex_emit(x, TOK_NAME)->u.sym = sym_n(x->start, (size_t)(x->cur - x->start) > NAME_MAX_BYTES
                                                   ? NAME_MAX_BYTES : (size_t)(x->cur - x->start));
}

static bool may_start_name(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: case UTF8PROC_CATEGORY_NL:
        return true;
    default:
        return c == '_';
    }
}

static bool may_continue_name(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN: case UTF8PROC_CATEGORY_MC: case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return may_start_name(c);
    }
}

static const char *char_text(Lexer *x, const char *p, int n, int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    bool visible = k != UTF8PROC_CATEGORY_CC && k != UTF8PROC_CATEGORY_CF && k != UTF8PROC_CATEGORY_ZS &&
                   k != UTF8PROC_CATEGORY_CN && k != UTF8PROC_CATEGORY_CO;

    return visible ? arena_printf(&x->unit->arena, "'%.*s' (U+%04X)", n, p, (unsigned)c)
                   : arena_printf(&x->unit->arena, "U+%04X, which does not print", (unsigned)c);
}

/* Characters that word processors put in place of ASCII ones. */
static const struct { int32_t c; const char *ascii; } look_alike[] = {
    {0x2018, "'"}, {0x2019, "'"}, {0x201C, "\""}, {0x201D, "\""}, {0x2013, "-"}, {0x2014, "-"}, {0x2212, "-"},
    {0x00D7, "*"}, {0x00F7, "/"}, {0x2264, "<="}, {0x2265, ">="}, {0x2260, "!="}, {0x00A0, " "}, {0xFF08, "("},
    {0xFF09, ")"}, {0xFF1A, ":"}, {0xFF0C, ","}, {0xFF1D, "="}, {0x2026, "..."}, {0x2192, "->"}, {0x3000, " "},
};

/* A text between typographic quotes on one line is mended as a whole. */
static void mend_quotes(Lexer *x, LexError *e, const char *p, int n, char quote)
{
    const char *close = quote == '"' ? "\xe2\x80\x9d" : "\xe2\x80\x99";
    size_t line = strcspn(p, "\n");
    const char *end = strstr(p + n, close);

    if (!end || (size_t)(end - p) >= line || memchr(p, quote, (size_t)(end - p)) || memchr(p, '\\', (size_t)(end - p)))
        return;
    e->fix = arena_printf(&x->unit->arena, "%c%.*s%c", quote, (int)(end - p - n), p + n, quote);
    e->span = lex_span_of(x, p, end + strlen(close));
    x->cur = end + strlen(close);
}

/* Refuse the character at p of n bytes and go on after it. */
static void strange(Lexer *x, const char *p, int n, int32_t c)
{
    LexError *e = lex_mistake(x, E0112, lex_span_of(x, p, p + n), char_text(x, p, n, c), NULL);

    x->cur = p + n;
    for (size_t i = 0; i < sizeof look_alike / sizeof *look_alike; i++) {
        if (look_alike[i].c == c) {
            e->help = arena_printf(&x->unit->arena, "did you mean %s?",
                                   *look_alike[i].ascii == ' ' ? "an ordinary space"
                                   : arena_printf(&x->unit->arena, "'%s'", look_alike[i].ascii));
            e->fix = look_alike[i].ascii;
            if (*e->fix == '"' || *e->fix == '\'')
                mend_quotes(x, e, p, n, *e->fix);
        }
    }
}

/* The NFKC form of [p, p + n), as a name. */
static Sym normal_name(const char *p, size_t n)
{
    utf8proc_option_t form = (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE);
    utf8proc_ssize_t need = utf8proc_decompose((const uint8_t *)p, (utf8proc_ssize_t)n, NULL, 0, form), len;
    int32_t *buf;
    Sym s;

    if (need <= 0)
        return sym_n(p, n);
    buf = tsr_alloc(((size_t)need + 1) * sizeof *buf);
    utf8proc_decompose((const uint8_t *)p, (utf8proc_ssize_t)n, buf, need, form);
    len = utf8proc_reencode(buf, need, form);
    s = len > 0 ? sym_n((const char *)buf, (size_t)len) : sym_n(p, n);
    tsr_free(buf);
    return s;
}

/* A word with bytes beyond ASCII: each character must be allowed; names are compared in NFKC. */
void lex_wide_name(Lexer *x)
{
    const char *p = x->start, *end = x->cur;

    while (p < end) {
        int32_t c;
        int len = (int)utf8proc_iterate((const uint8_t *)p, end - p, &c);
        if (p == x->start && !may_start_name(c)) {
            strange(x, p, len, c);
            return;
        }
        if (!may_start_name(c) && !may_continue_name(c))
            break;
        p += len;
    }
    x->cur = p;                     /* a character that ends the name is looked at next */
    if (p - x->start > NAME_MAX_BYTES)
        lex_name(x);
    else
        lex_emit(x, TOK_NAME)->u.sym = normal_name(x->start, (size_t)(p - x->start));
}

/* ---- numbers ---- */

static bool word_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

/* "1if x else 2": a keyword may follow a number at once. */
static bool keyword_follows(const Lexer *x)
{
    static const char *const words[] = {"and", "else", "for", "if", "in", "is", "not", "or"};
    const char *p = x->cur;

    while (p < x->end && word_byte(*p))
        p++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((size_t)(p - x->cur) == strlen(words[i]) && !memcmp(words[i], x->cur, strlen(words[i])))
            return true;
    return false;
}

static const char *base_name(char c)
{
    return c == 'x' || c == 'X' ? "hexadecimal" : c == 'o' || c == 'O' ? "octal" : c == 'b' || c == 'B' ? "binary"
                                                                                                       : "decimal";
}

static void malformed(Lexer *x)
{
    Arena *a = &x->unit->arena;
    char second = x->start[0] == '0' ? x->start[1] : 0, next = *x->cur;
    const char *kind = base_name(second), *what, *after = x->cur;

    if (x->cur == x->start + 1 && strcmp(kind, "decimal"))
        after++;                                    /* 0x with nothing good behind it */
    while (x->cur < x->end && word_byte(*x->cur))
        x->cur++;
    if (after < x->cur && *after >= '0' && *after <= '9')
        what = arena_printf(a, "invalid digit '%c' in %s literal", *after, kind);
    else if (next == '_')
        what = arena_printf(a, "invalid %s literal: underscores stand between digits, one at a time", kind);
    else if (strcmp(kind, "decimal"))
        what = arena_printf(a, "invalid %s literal: digits are missing", kind);
    else if (next == 'e' || next == 'E')
        what = "invalid decimal literal: the exponent has no digits";
    else
        what = "invalid decimal literal: a name cannot start with a digit";
    lex_mistake(x, E0114, lex_span_of(x, x->start, x->cur), what, NULL)->help =
        strstr(what, "a name") ? "begin the name with a letter or '_'; between a number and a name stands an operator" : NULL;
    x->space = x->fresh = false;
}

/* Something ends before the minus at tok[n - 1], so it is the binary one. */
static bool minus_is_sign(const Lexer *x)
{
    int n = x->out->tok.n;

    if (n <= x->first || x->out->tok.at[n - 1].kind != TOK_MINUS)
        return false;
    if (n - 1 <= x->first)
        return true;
    switch (x->out->tok.at[n - 2].kind) {
    case TOK_NAME: case TOK_INT: case TOK_FLOAT: case TOK_IMAG: case TOK_STRING: case TOK_FEND: case TOK_RPAR:
    case TOK_RSQB: case TOK_RBRACE: case TOK_NONE: case TOK_TRUE: case TOK_FALSE: case TOK_ELLIPSIS: case TOK_BYTES:
        return false;
    default:
        return true;
    }
}

void lex_integer(Lexer *x, int skip, int base)
{
    int64_t v = 0;
    bool edge = false;
    LexErrors local = {0};
    Literal at = {&x->unit->arena, &local, lex_pos_of(x, x->start)};

    if (word_byte(*x->cur) && !keyword_follows(x)) {
        malformed(x);
        return;
    }
    if (base == 10 && x->start[0] == '0' && strspn(x->start, "0_") < (size_t)(x->cur - x->start)) {
        LexError *e = lex_mistake(x, E0114, lex_span_of(x, x->start, x->cur),
                              "leading zeros in decimal integer literals are not allowed", NULL);
        e->help = "use the prefix 0o for octal numbers, or drop the zeros";
    } else if (!literal_int(at, x->start + skip, (size_t)(x->cur - x->start - skip), base, &v, &edge) ||
               (edge && !minus_is_sign(x))) {
        lex_mistake(x, E0115, lex_span_of(x, x->start, x->cur), NULL, NULL)->help =
            "write it as a float (with a point or exponent) if a rounded value is enough";
    } else if (edge) {                              /* -2^63: the sign joins the literal */
        x->start = x->text + (vec_last(&x->out->tok).span.lo - x->base);
        x->space = vec_last(&x->out->tok).flags & TOKF_SPACE;
        x->fresh = vec_last(&x->out->tok).flags & TOKF_BOL;
        x->out->tok.n--;
    }
    vec_free(&local.all);
    lex_emit(x, TOK_INT)->u.i = v;
}

void lex_real(Lexer *x, int kind, int suffix)
{
    if (word_byte(*x->cur) && !keyword_follows(x))
        malformed(x);
    else
        lex_emit(x, kind)->u.r = literal_float(x->start, (size_t)(x->cur - x->start - suffix));
}
