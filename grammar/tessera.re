/*
 * tessera.re - bytes to tokens.
 *
 * re2c recognises words, numbers and operators; what depends on more than a
 * regular language is C around it:
 *
 *   indentation     a stack of widths, measured twice (tabs as 8 and as 1) so
 *                   that a mixture that only looks aligned is found
 *   brackets        a stack; inside one a line end is white space
 *   f-strings       a stack of strings being read; in a hole the ordinary
 *                   scanner runs, and the hole's own } : ! = end or divide it
 *
 * A bracket that is never closed would swallow the rest of the file.  So at the
 * end, or when a line at the statement's own indentation begins with a word
 * that only begins statements, the lexer goes back to the first line that looks
 * like a new statement, says where the bracket was opened, and reads on.  All
 * mistakes are kept in a list until the end, because that re-reading drops some.
 */
#include "frontend/syntax/literal.h"
#include "frontend/syntax/token.h"

#include <string.h>
#include <utf8proc.h>

typedef struct Bracket {
    char open;                  /* ( [ { */
    bool hole, spec;            /* the brace of an f-string's hole; its format spec has begun */
    uint32_t pos;
} Bracket;

typedef struct FString {
    char quote;
    bool triple, raw;
    bool text;                  /* reading text, not a hole's expression */
    int depth;                  /* brackets open around it */
    const char *start;
} FString;

typedef struct { int col, alt, alias; } Indent;

typedef struct Lexer {
    Unit *unit;
    TokenList *out;
    LexErrors errors;
    const char *text, *end;
    const char *cur, *start;        /* next byte; first byte of the token */
    const char *line;               /* start of the physical line */
    uint32_t base;
    Vec(Bracket) br;
    Vec(FString) fs;
    Vec(Indent) indent;
    int first;                      /* first token of the logical line */
    int line_depth;                 /* brackets open where the physical line starts */
    size_t reread;                  /* bytes gone back over, bounded */
    bool bol;                       /* at the start of a logical line */
    bool fresh;                     /* next token is the first of its physical line */
    bool space, bad, end_seen;
    bool too_deep;                  /* said once that blocks are nested too deeply */
    bool forward;                   /* never go back: the text is still being typed */
} Lexer;

/* ---- emitting ---- */

static uint32_t pos_of(const Lexer *x, const char *p)
{
    return x->base + (uint32_t)(p - x->text);
}

static Span span_of(const Lexer *x, const char *from, const char *to)
{
    return (Span){pos_of(x, from), pos_of(x, to)};
}

/* A mistake: the line has its report, so later ones on it are not listed. */
static LexError *mistake(Lexer *x, DiagCode code, Span span, const char *a, const char *b)
{
    static LexError unused;

    if (x->bad)
        return &unused;
    x->bad = true;
    return lex_error(&x->errors, code, span, a, b);
}

static Token *emit(Lexer *x, int kind)
{
    Token t = {.kind = (uint8_t)kind, .span = span_of(x, x->start, x->cur)};

    t.flags = (uint8_t)((x->space ? TOKF_SPACE : 0) | (x->fresh ? TOKF_BOL : 0));
    x->space = x->fresh = false;
    vec_push(&x->out->tok, t);
    return &vec_last(&x->out->tok);
}

static Token *previous(Lexer *x)
{
    return x->out->tok.n > x->first ? &vec_last(&x->out->tok) : NULL;
}

static bool previous_is(Lexer *x, int kind)
{
    Token *t = previous(x);

    return t && t->kind == kind;
}

static void op(Lexer *x, int kind, AstOp o)
{
    emit(x, kind)->op = (uint8_t)o;
}

/* The logical line ends at `at`. */
static void end_line(Lexer *x, const char *at)
{
    Line l = {.first = x->first, .bad = x->bad};
    Token *t = emit(x, TOK_NEWLINE);

    t->span = span_of(x, at, at);
    l.end = x->out->tok.n;
    vec_push(&x->out->line, l);
    x->first = l.end;
    x->bad = false;
    x->bol = true;
}

/* ---- brackets ---- */

static void open_bracket(Lexer *x, char c, int kind, bool hole)
{
    Bracket b = {.open = c, .hole = hole, .pos = pos_of(x, x->start)};

    if (x->br.n >= NEST_MAX)
        mistake(x, E0121, span_of(x, x->start, x->cur), "brackets are nested too deeply", NULL);
    else
        emit(x, kind);
    vec_push(&x->br, b);
}

static const char *bracket_text(char c)
{
    return c == '(' ? "(" : c == '[' ? "[" : c == '{' ? "{" : c == ')' ? ")" : c == ']' ? "]" : "}";
}

/* The innermost open bracket that c would close, down to the innermost hole; -1: none. */
static int matching(const Lexer *x, char open)
{
    for (int i = x->br.n - 1; i >= 0; i--) {
        if (x->br.at[i].hole)
            return -1;
        if (x->br.at[i].open == open)
            return i;
    }
    return -1;
}

static void close_bracket(Lexer *x, char c, int kind)
{
    char open = c == ')' ? '(' : c == ']' ? '[' : '{';
    Span here = span_of(x, x->start, x->cur);

    if (x->br.n && !vec_last(&x->br).hole && vec_last(&x->br).open == open) {
        x->br.n--;
        emit(x, kind);
    } else if (x->br.n && !(vec_last(&x->br).hole && vec_last(&x->br).open == open)) {
        Bracket b = vec_last(&x->br);
        LexError *e = mistake(x, E0110, here, bracket_text(c), bracket_text(b.open));
        int i = matching(x, open);
        e->other = (Span){b.pos, b.pos + 1};
        if (i >= 0)
            x->br.n = i;
    } else {
        mistake(x, E0109, here, bracket_text(c), NULL);
    }
}

/* ---- going back when a bracket was never closed ---- */

static int column(const Lexer *x, const char *p)
{
    const char *b = p;
    int col = 0;

    while (b > x->text && b[-1] != '\n' && b[-1] != '\r')
        b--;
    for (; b < p && (*b == ' ' || *b == '\t' || *b == '\f'); b++)
        col = *b == '\t' ? (col / 8 + 1) * 8 : *b == '\f' ? 0 : col + 1;
    return col;
}

static bool could_begin(int kind)
{
    switch (kind) {
    case TOK_RPAR: case TOK_RSQB: case TOK_RBRACE: case TOK_FRBRACE: case TOK_FTEXT: case TOK_FEND:
    case TOK_COMMA: case TOK_DOT: case TOK_COLON: case TOK_EQ: case TOK_CMP: case TOK_AUG:
    case TOK_PLUS: case TOK_SLASH: case TOK_AND: case TOK_OR: case TOK_PERCENT: case TOK_VBAR:
        return false;
    default:
        return true;
    }
}

/* First token after the outermost open bracket that starts a line no deeper than the statement. */
static int resync_token(const Lexer *x)
{
    const Token *tok = x->out->tok.at;
    int first = x->first, limit;

    while (first < x->out->tok.n && (tok[first].kind == TOK_INDENT || tok[first].kind == TOK_DEDENT))
        first++;
    if (first >= x->out->tok.n)
        return -1;
    limit = column(x, x->text + (tok[first].span.lo - x->base));
    for (int i = first + 1; i < x->out->tok.n; i++)
        if ((tok[i].flags & TOKF_BOL) && tok[i].span.lo > x->br.at[0].pos && could_begin(tok[i].kind) &&
            column(x, x->text + (tok[i].span.lo - x->base)) <= limit)
            return i;
    return -1;
}

static void drop_after(Lexer *x, uint32_t pos)
{
    while (x->unit->comments.n && vec_last(&x->unit->comments).span.lo >= pos)
        x->unit->comments.n--;
    while (x->errors.all.n && vec_last(&x->errors.all).span.lo >= pos)
        x->errors.all.n--;
}

/*
 * Report the innermost open bracket and go on at the line of token k, or at the
 * end when k < 0.  Whatever was read after that line's start is forgotten.
 */
static void never_closed(Lexer *x, int k)
{
    Bracket b = vec_last(&x->br);
    const char *back = x->cur;

    if (k >= 0) {
        back = x->text + (x->out->tok.at[k].span.lo - x->base);
        while (back > x->text && back[-1] != '\n' && back[-1] != '\r')
            back--;
        x->reread += (size_t)(x->cur - back);
        drop_after(x, pos_of(x, back));
        x->out->tok.n = k;
    }
    if (x->errors.all.n == 0 || vec_last(&x->errors.all).span.lo < x->out->tok.at[x->first].span.lo)
        x->bad = false;
    if (b.hole)
        mistake(x, E0118, (Span){b.pos, b.pos + 1}, "this '{' was never closed: expected '}'", NULL);
    else
        mistake(x, E0108, (Span){b.pos, b.pos + 1}, bracket_text(b.open), NULL);
    x->br.n = x->fs.n = 0;
    x->cur = back;
    end_line(x, back);
}

enum { REREAD_FACTOR = 8 };     /* the text may be gone over so many times in all */

static bool may_go_back(const Lexer *x)
{
    return !x->forward && x->reread < REREAD_FACTOR * (size_t)(x->end - x->text) + 4096;
}

/* A word that only begins statements, at the start of a line, while brackets are open. */
static bool begins_statement(int kind)
{
    switch (kind) {
    case TOK_DEF: case TOK_CLASS: case TOK_RETURN: case TOK_IMPORT: case TOK_WHILE: case TOK_TRY: case TOK_WITH:
    case TOK_RAISE: case TOK_ASSERT: case TOK_PASS: case TOK_BREAK: case TOK_CONTINUE: case TOK_DEL: case TOK_GLOBAL:
    case TOK_NONLOCAL:
        return true;
    default:
        return false;
    }
}

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

static void keyword(Lexer *x, int kind)
{
    Token *prev = previous(x);
    Token *t;

    if (prev && prev->kind == TOK_DOT && !is_from_import(x, kind)) {
        t = emit(x, TOK_NAME);
        t->u.sym = sym_n(x->start, (size_t)(x->cur - x->start));
        t->flags |= TOKF_RAW;
    } else if (kind == TOK_IN && prev && prev->kind == TOK_NOT) {
        prev->kind = TOK_CMP;
        prev->op = AOP_NOT_IN;
        prev->span.hi = pos_of(x, x->cur);
    } else if (kind == TOK_NOT && prev && prev->kind == TOK_CMP && prev->op == AOP_IS) {
        prev->op = AOP_IS_NOT;
        prev->span.hi = pos_of(x, x->cur);
    } else {
        bool first = x->fresh;
        t = emit(x, kind);
        t->op = AOP_IN;
        if (first && x->br.n && begins_statement(kind) && may_go_back(x)) {
            int k = resync_token(x);
            if (k >= 0)
                never_closed(x, k);
        }
    }
}

static void name(Lexer *x)
{
    if (x->cur - x->start > NAME_MAX_BYTES)
        mistake(x, E0121, span_of(x, x->start, x->start + 16), "this name has more than 4096 bytes", NULL);
    emit(x, TOK_NAME)->u.sym = sym_n(x->start, (size_t)(x->cur - x->start) > NAME_MAX_BYTES
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

/* Refuse the character at p of n bytes and go on after it. */
static void strange(Lexer *x, const char *p, int n, int32_t c)
{
    LexError *e = mistake(x, E0112, span_of(x, p, p + n), char_text(x, p, n, c), NULL);

    x->cur = p + n;
    for (size_t i = 0; i < sizeof look_alike / sizeof *look_alike; i++) {
        if (look_alike[i].c == c) {
            e->help = arena_printf(&x->unit->arena, "did you mean %s?",
                                   *look_alike[i].ascii == ' ' ? "an ordinary space"
                                   : arena_printf(&x->unit->arena, "'%s'", look_alike[i].ascii));
            e->fix = look_alike[i].ascii;
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
static void wide_name(Lexer *x)
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
        name(x);
    else
        emit(x, TOK_NAME)->u.sym = normal_name(x->start, (size_t)(p - x->start));
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
    mistake(x, E0114, span_of(x, x->start, x->cur), what, NULL);
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

static void integer(Lexer *x, int skip, int base)
{
    int64_t v = 0;
    bool edge = false;
    LexErrors local = {0};
    Literal at = {&x->unit->arena, &local, pos_of(x, x->start)};

    if (word_byte(*x->cur) && !keyword_follows(x)) {
        malformed(x);
        return;
    }
    if (base == 10 && x->start[0] == '0' && strspn(x->start, "0_") < (size_t)(x->cur - x->start)) {
        LexError *e = mistake(x, E0114, span_of(x, x->start, x->cur),
                              "leading zeros in decimal integer literals are not allowed", NULL);
        e->help = "use the prefix 0o for octal numbers, or drop the zeros";
    } else if (!literal_int(at, x->start + skip, (size_t)(x->cur - x->start - skip), base, &v, &edge) ||
               (edge && !minus_is_sign(x))) {
        mistake(x, E0115, span_of(x, x->start, x->cur), NULL, NULL)->help =
            "write it as a float (with a point or exponent) if a rounded value is enough";
    } else if (edge) {                              /* -2^63: the sign joins the literal */
        x->start = x->text + (vec_last(&x->out->tok).span.lo - x->base);
        x->space = vec_last(&x->out->tok).flags & TOKF_SPACE;
        x->fresh = vec_last(&x->out->tok).flags & TOKF_BOL;
        x->out->tok.n--;
    }
    vec_free(&local.all);
    emit(x, TOK_INT)->u.i = v;
}

static void real(Lexer *x, int kind, int suffix)
{
    if (word_byte(*x->cur) && !keyword_follows(x))
        malformed(x);
    else
        emit(x, kind)->u.r = literal_float(x->start, (size_t)(x->cur - x->start - suffix));
}

/* ---- strings ---- */

/* Is the text being read that of a hole's format spec? */
static bool in_spec(const Lexer *x)
{
    return x->br.n > vec_last(&x->fs).depth && vec_last(&x->br).hole && vec_last(&x->br).spec;
}

/* A string on one line, begun at `from`, that the line's end at e cuts off: brackets opened on the line count as closed. */
static void cut_off(Lexer *x, const char *from, const char *e, const char *what)
{
    int depth = x->line_depth;

    mistake(x, E0111, span_of(x, from, e), what, NULL)->help = "end it with the quote it began with, on this line";
    while (x->fs.n && vec_last(&x->fs).start >= (from < x->line ? from : x->line)) {
        depth = vec_last(&x->fs).depth < depth ? vec_last(&x->fs).depth : depth;
        x->fs.n--;
    }
    if (x->br.n > depth)
        x->br.n = depth;
    if (x->fs.n)
        vec_last(&x->fs).text = x->br.n == vec_last(&x->fs).depth || in_spec(x);
    x->cur = e;
    x->out->open |= e == x->end && e > x->text && e[-1] == '\\';
}

static void open_at_end(Lexer *x, const char *from, const char *what)
{
    const char *e = from;

    while (e < x->end && *e != '\n' && *e != '\r')
        e++;
    mistake(x, E0111, span_of(x, from, e), what, NULL);
    x->cur = x->end;
    x->br.n = x->fs.n = 0;
    x->out->open = true;
}

/* An f-string's hole runs into the closing quote: the string that seemed to begin there did not. */
static bool hole_was_open(Lexer *x, char quote)
{
    if (!x->fs.n || vec_last(&x->fs).triple || vec_last(&x->fs).quote != quote || !x->br.n)
        return false;
    for (int i = x->br.n - 1; i >= vec_last(&x->fs).depth; i--)
        if (x->br.at[i].hole)
            mistake(x, E0118, (Span){x->br.at[i].pos, x->br.at[i].pos + 1}, "expected '}' to close this hole", NULL);
    return true;
}

static void string(Lexer *x)
{
    const char *p = x->start, *body;
    StringForm form = {0};
    bool triple, ok = true;
    char q;

    for (; *p != '\'' && *p != '"'; p++) {
        form.raw |= *p == 'r' || *p == 'R';
        form.bytes |= *p == 'b' || *p == 'B';
    }
    q = *p;
    triple = x->cur - p == 3;
    for (body = p = x->cur;; p++) {
        if (p >= x->end) {
            if (!triple && hole_was_open(x, q))
                cut_off(x, x->start, p, "f-string");
            else if (triple)
                open_at_end(x, x->start, "triple-quoted string");
            else
                cut_off(x, x->start, p, "string");
            return;
        }
        if (*p == '\\' && p + 1 < x->end) {
            p += p[1] == '\r' && p[2] == '\n' ? 2 : 1;
        } else if (*p == q && (!triple || (p[1] == q && p[2] == q))) {
            break;
        } else if (!triple && (*p == '\n' || *p == '\r')) {
            hole_was_open(x, q);
            cut_off(x, x->start, p, "string");
            return;
        }
    }
    x->cur = p + (triple ? 3 : 1);
    Literal at = {&x->unit->arena, &x->errors, pos_of(x, body)};
    int before = x->errors.all.n;
    const AstText *t = literal_string(at, body, (size_t)(p - body), form, &ok);
    if (!ok && x->bad)
        x->errors.all.n = before;
    x->bad |= !ok;
    emit(x, form.bytes ? TOK_BYTES : TOK_STRING)->u.text = t;
}

static void fstring(Lexer *x)
{
    const char *p = x->start;
    FString f = {.text = true, .start = x->start, .depth = x->br.n};

    for (; *p != '\'' && *p != '"'; p++)
        f.raw |= *p == 'r' || *p == 'R';
    f.quote = *p;
    f.triple = x->cur - p == 3;
    emit(x, TOK_FSTART);
    vec_push(&x->fs, f);
}

static void emit_text(Lexer *x, const char *from, const char *to, bool spec)
{
    const FString *f = &vec_last(&x->fs);
    StringForm form = {.raw = f->raw, .doubled = !spec};
    Literal at = {&x->unit->arena, &x->errors, pos_of(x, from)};
    int before = x->errors.all.n;
    bool ok = true;
    const AstText *t;

    if (from == to)
        return;
    t = literal_string(at, from, (size_t)(to - from), form, &ok);
    if (!ok && x->bad)
        x->errors.all.n = before;
    x->bad |= !ok;
    x->start = from;
    x->cur = to;
    emit(x, TOK_FTEXT)->u.text = t;
}

/* Skip an escape in an f-string's text, p at the backslash: the next byte belongs to it unless it is a brace. */
static const char *skip_escape(const Lexer *x, const char *p, bool raw)
{
    if (p + 1 >= x->end || p[1] == '{' || p[1] == '}')
        return p + 1;
    if (!raw && p[1] == 'N' && p[2] == '{') {
        while (p < x->end && *p != '}' && *p != '\n')
            p++;
        return p < x->end ? p + 1 : p;
    }
    return p + (p[1] == '\r' && p[2] == '\n' ? 3 : 2);
}

/* The text of an f-string or of a format spec, up to what ends or interrupts it. */
static void fstring_text(Lexer *x)
{
    FString f = vec_last(&x->fs);
    bool spec = in_spec(x);
    const char *from = x->cur, *p = from;

    for (;; p++) {
        while (p < x->end && *p == '\\')
            p = skip_escape(x, p, f.raw);
        if (p >= x->end || (!f.triple && (*p == '\n' || *p == '\r')))
            break;
        if (*p == f.quote && (!f.triple || (p[1] == f.quote && p[2] == f.quote)))
            break;
        if (*p == '{' || *p == '}') {
            if (spec || p[1] != *p)
                break;
            p++;
        }
    }
    emit_text(x, from, p, spec);
    x->start = p;
    x->cur = p + 1;
    if (p >= x->end && f.triple) {
        open_at_end(x, f.start, "triple-quoted f-string");
    } else if (p >= x->end || *p == '\n' || *p == '\r') {
        cut_off(x, f.start, p, "f-string");
    } else if (*p == '{') {
        open_bracket(x, '{', TOK_FLBRACE, true);
        vec_last(&x->fs).text = false;
    } else if (*p == '}' && spec) {
        x->br.n--;
        emit(x, TOK_FRBRACE);
    } else if (*p == '}') {
        mistake(x, E0118, span_of(x, p, p + 1), "single '}' is not allowed", NULL)->help =
            "write '}}' for a brace in the text";
    } else if (spec) {
        mistake(x, E0118, (Span){vec_last(&x->br).pos, vec_last(&x->br).pos + 1}, "expected '}' to close this hole", NULL);
        x->br.n = f.depth;
        x->cur = p + (f.triple ? 3 : 1);
        x->fs.n--;
    } else {
        x->cur = p + (f.triple ? 3 : 1);
        emit(x, TOK_FEND);
        x->fs.n--;
    }
}

/* Is the scanner directly inside a hole's braces, so that } : ! = are the hole's own? */
static bool at_hole(const Lexer *x)
{
    return x->fs.n && x->br.n && vec_last(&x->br).hole;
}

static void right_brace(Lexer *x)
{
    if (at_hole(x)) {
        x->br.n--;
        emit(x, TOK_FRBRACE);
        vec_last(&x->fs).text = true;
    } else {
        close_bracket(x, '}', TOK_RBRACE);
    }
}

static bool colon_of_hole(Lexer *x)
{
    if (!at_hole(x))
        return false;
    x->cur = x->start + 1;
    emit(x, TOK_FCOLON);
    vec_last(&x->br).spec = true;
    vec_last(&x->fs).text = true;
    return true;
}

static void equals(Lexer *x)
{
    const char *p = x->cur;

    while (p < x->end && (*p == ' ' || *p == '\t'))
        p++;
    if (at_hole(x) && (*p == '}' || *p == ':' || *p == '!')) {
        x->cur = p;
        emit(x, TOK_FEQUAL);
    } else {
        emit(x, TOK_EQ);
    }
}

/* ---- lines ---- */

static void newline(Lexer *x)
{
    x->line = x->cur;
    x->line_depth = x->br.n;
    x->fresh = true;
    if (!x->br.n && !x->fs.n)
        end_line(x, x->start);
}

static void comment(Lexer *x)
{
    AstComment c;

    while (x->cur < x->end && *x->cur != '\n' && *x->cur != '\r')
        x->cur++;
    c.span = span_of(x, x->start, x->cur);
    vec_push(&x->unit->comments, c);
}

static void continuation(Lexer *x)
{
    if (x->cur >= x->end) {
        x->out->open = true;
        mistake(x, E0113, span_of(x, x->start, x->cur), "the file ends after a line continuation", NULL);
    } else if (*x->cur == '\n' || *x->cur == '\r') {
        x->cur += x->cur[0] == '\r' && x->cur[1] == '\n' ? 2 : 1;
        x->line = x->cur;
        x->line_depth = x->br.n;
        x->space = true;
        x->out->open |= x->cur >= x->end;
    } else {
        mistake(x, E0113, span_of(x, x->start, x->cur), "unexpected character after the line continuation '\\'", NULL);
    }
}

static void put_indent(Lexer *x, int kind)
{
    x->start = x->cur;
    emit(x, kind);
    x->fresh = true;
}

static void tabs_and_spaces(Lexer *x)
{
    mistake(x, E0107, span_of(x, x->line, x->cur), NULL, NULL)->help =
        "indent this block with spaces only, like the lines around it";
}

/* Compare a line's width with the stack and emit INDENT and DEDENTs. */
static void indentation(Lexer *x, int col, int alt)
{
    Indent top = vec_last(&x->indent);

    if (col == top.col || col == top.alias) {
        if (col == top.col && alt != top.alt)
            tabs_and_spaces(x);
    } else if (col > top.col) {
        Indent in = {col, alt, -1};
        if (alt <= top.alt)
            tabs_and_spaces(x);
        if (x->indent.n > NEST_MAX) {
            if (!x->too_deep)
                mistake(x, E0121, span_of(x, x->line, x->cur), "blocks are nested too deeply", NULL);
            x->too_deep = x->bad = true;
            return;
        }
        vec_push(&x->indent, in);
        put_indent(x, TOK_INDENT);
    } else {
        while (x->indent.n > 1 && x->indent.at[x->indent.n - 2].col >= col) {
            x->indent.n--;
            put_indent(x, TOK_DEDENT);
        }
        if (vec_last(&x->indent).col > col) {           /* between two levels: take the deeper one */
            mistake(x, E0106, span_of(x, x->line, x->cur), NULL, NULL);
            vec_last(&x->indent).alias = col;
        } else if (vec_last(&x->indent).alt != alt && vec_last(&x->indent).col == col) {
            tabs_and_spaces(x);
        }
    }
}

/* At the start of a logical line: blank and comment lines are passed over, others open or close blocks. */
static void line_start(Lexer *x)
{
    int col = 0, alt = 0;

    x->line = x->cur;
    for (;; x->cur++) {
        if (*x->cur == ' ') {
            col++;
            alt++;
        } else if (*x->cur == '\t') {
            col = (col / 8 + 1) * 8;
            alt++;
        } else if (*x->cur == '\f') {
            col = alt = 0;
        } else {
            break;
        }
    }
    if (*x->cur == '#') {
        x->start = x->cur;
        comment(x);
    }
    if (x->cur >= x->end)
        return;
    if (*x->cur == '\n' || *x->cur == '\r') {
        x->cur += x->cur[0] == '\r' && x->cur[1] == '\n' ? 2 : 1;
        return;
    }
    x->bol = false;
    x->line_depth = 0;
    x->fresh = true;
    x->space = false;
    indentation(x, col, alt);
}

/* ---- the scanner ---- */

static void unknown_byte(Lexer *x, unsigned char c)
{
    static const char printable[] = "$?!`";
    const char *shown = strchr(printable, c) && c
        ? arena_printf(&x->unit->arena, "'%c'", c)
        : arena_printf(&x->unit->arena, "U+%04X, which does not print", (unsigned)c);
    LexError *e = mistake(x, E0112, span_of(x, x->start, x->cur), shown, NULL);

    if (c == '?')
        e->help = "a conditional expression is written: a if condition else b";
    else if (c == '!')
        e->help = "write 'not' to negate a condition";
}

#define AUG(o) op(x, TOK_AUG, AOP_##o)
#define CMP(o) op(x, TOK_CMP, AOP_##o)

/* One token, comment or stretch of white space. */
static void scan(Lexer *x)
{
    const char *marker = NULL;

    x->start = x->cur;
/*!re2c
    re2c:define:YYCTYPE = "unsigned char";
    re2c:define:YYCURSOR = "x->cur";
    re2c:define:YYMARKER = "marker";
    re2c:define:YYPEEK = "*(const unsigned char *)x->cur";
    re2c:api = custom;
    re2c:api:style = free-form;
    re2c:define:YYSKIP = "++x->cur;";
    re2c:define:YYBACKUP = "marker = x->cur;";
    re2c:define:YYRESTORE = "x->cur = marker;";
    re2c:yyfill:enable = 0;

    digits = [0-9] ("_"? [0-9])*;
    expo   = [eE] [+-]? digits;
    point  = digits? "." digits | digits ".";
    float  = point expo? | digits expo;
    quote  = "'''" | "'" | ["] | ["]["]["];
    word   = [A-Za-z_] [A-Za-z0-9_]*;
    wide   = [A-Za-z_\x80-\xff] [A-Za-z0-9_\x80-\xff]*;

    [ \t\f]+                { x->space = true; return; }
    "\r\n" | "\n" | "\r"    { newline(x); return; }
    "#"                     { comment(x); return; }
    "\\"                    { continuation(x); return; }
    "\x00"                  { x->cur--; x->end_seen = true; return; }

    "False"    { keyword(x, TOK_FALSE); return; }
    "None"     { keyword(x, TOK_NONE); return; }
    "True"     { keyword(x, TOK_TRUE); return; }
    "and"      { keyword(x, TOK_AND); return; }
    "as"       { keyword(x, TOK_AS); return; }
    "assert"   { keyword(x, TOK_ASSERT); return; }
    "async"    { keyword(x, TOK_ASYNC); return; }
    "await"    { keyword(x, TOK_AWAIT); return; }
    "break"    { keyword(x, TOK_BREAK); return; }
    "class"    { keyword(x, TOK_CLASS); return; }
    "continue" { keyword(x, TOK_CONTINUE); return; }
    "def"      { keyword(x, TOK_DEF); return; }
    "del"      { keyword(x, TOK_DEL); return; }
    "elif"     { keyword(x, TOK_ELIF); return; }
    "else"     { keyword(x, TOK_ELSE); return; }
    "except"   { keyword(x, TOK_EXCEPT); return; }
    "finally"  { keyword(x, TOK_FINALLY); return; }
    "for"      { keyword(x, TOK_FOR); return; }
    "from"     { keyword(x, TOK_FROM); return; }
    "global"   { keyword(x, TOK_GLOBAL); return; }
    "if"       { keyword(x, TOK_IF); return; }
    "import"   { keyword(x, TOK_IMPORT); return; }
    "in"       { keyword(x, TOK_IN); return; }
    "is"       { if (previous_is(x, TOK_DOT)) keyword(x, TOK_CMP); else CMP(IS); return; }
    "lambda"   { keyword(x, TOK_LAMBDA); return; }
    "nonlocal" { keyword(x, TOK_NONLOCAL); return; }
    "not"      { keyword(x, TOK_NOT); return; }
    "or"       { keyword(x, TOK_OR); return; }
    "pass"     { keyword(x, TOK_PASS); return; }
    "raise"    { keyword(x, TOK_RAISE); return; }
    "return"   { keyword(x, TOK_RETURN); return; }
    "try"      { keyword(x, TOK_TRY); return; }
    "while"    { keyword(x, TOK_WHILE); return; }
    "with"     { keyword(x, TOK_WITH); return; }
    "yield"    { keyword(x, TOK_YIELD); return; }
    word       { name(x); return; }
    wide       { wide_name(x); return; }

    digits                       { integer(x, 0, 10); return; }
    "0" [xX] ("_"? [0-9a-fA-F])+ { integer(x, 2, 16); return; }
    "0" [oO] ("_"? [0-7])+       { integer(x, 2, 8); return; }
    "0" [bB] ("_"? [01])+        { integer(x, 2, 2); return; }
    float                        { real(x, TOK_FLOAT, 0); return; }
    (float | digits) [jJ]        { real(x, TOK_IMAG, 1); return; }

    ([rR] | [uU] | [bB] | [rR][bB] | [bB][rR])? quote { string(x); return; }
    ([fF] | [fF][rR] | [rR][fF]) quote                { fstring(x); return; }

    "("   { open_bracket(x, '(', TOK_LPAR, false); return; }
    "["   { open_bracket(x, '[', TOK_LSQB, false); return; }
    "{"   { open_bracket(x, '{', TOK_LBRACE, false); return; }
    ")"   { close_bracket(x, ')', TOK_RPAR); return; }
    "]"   { close_bracket(x, ']', TOK_RSQB); return; }
    "}"   { right_brace(x); return; }
    ","   { emit(x, TOK_COMMA); return; }
    ";"   { emit(x, TOK_SEMI); return; }
    ":"   { if (!colon_of_hole(x)) emit(x, TOK_COLON); return; }
    ":="  { if (!colon_of_hole(x)) emit(x, TOK_WALRUS); return; }
    "!"   { if (at_hole(x)) emit(x, TOK_FBANG); else unknown_byte(x, '!'); return; }
    "="   { equals(x); return; }
    "."   { emit(x, TOK_DOT); return; }
    "..." { emit(x, TOK_ELLIPSIS); return; }
    "->"  { emit(x, TOK_ARROW); return; }
    "@"   { emit(x, TOK_AT); return; }
    "+"   { emit(x, TOK_PLUS); return; }
    "-"   { emit(x, TOK_MINUS); return; }
    "*"   { emit(x, TOK_STAR); return; }
    "/"   { emit(x, TOK_SLASH); return; }
    "//"  { emit(x, TOK_DSLASH); return; }
    "%"   { emit(x, TOK_PERCENT); return; }
    "**"  { emit(x, TOK_DSTAR); return; }
    "|"   { emit(x, TOK_VBAR); return; }
    "&"   { emit(x, TOK_AMPER); return; }
    "^"   { emit(x, TOK_CIRCUMFLEX); return; }
    "~"   { emit(x, TOK_TILDE); return; }
    "<<"  { op(x, TOK_SHIFT, AOP_LSHIFT); return; }
    ">>"  { op(x, TOK_SHIFT, AOP_RSHIFT); return; }
    "=="  { CMP(EQ); return; }
    "!="  { CMP(NE); return; }
    "<"   { CMP(LT); return; }
    "<="  { CMP(LE); return; }
    ">"   { CMP(GT); return; }
    ">="  { CMP(GE); return; }
    "+="  { AUG(ADD); return; }
    "-="  { AUG(SUB); return; }
    "*="  { AUG(MUL); return; }
    "/="  { AUG(DIV); return; }
    "//=" { AUG(FLOORDIV); return; }
    "%="  { AUG(MOD); return; }
    "**=" { AUG(POW); return; }
    "@="  { AUG(MATMUL); return; }
    "<<=" { AUG(LSHIFT); return; }
    ">>=" { AUG(RSHIFT); return; }
    "&="  { AUG(BITAND); return; }
    "|="  { AUG(BITOR); return; }
    "^="  { AUG(BITXOR); return; }
    *     { unknown_byte(x, yych); return; }
*/
}

/* ---- a whole file ---- */

static void flush_errors(Lexer *x, DiagSink *sink)
{
    for (int i = 0; i < x->errors.all.n; i++) {
        const LexError *e = &x->errors.all.at[i];
        Diag *d = DIAG_AT(sink, e->code, e->span, e->a, e->b);
        if (e->help)
            diag_help(d, "%s", e->help);
        if (e->fix)
            diag_fix(d, e->span, e->fix);
        if (e->other.hi)
            diag_label(d, e->other, "opened here");
    }
}

/* Characters that reorder text on the screen can make a program read as what it is not. */
static void warn_of_bidi(Lexer *x)
{
    for (const char *p = x->text; (p = memchr(p, 0xE2, (size_t)(x->end - p))); p++) {
        unsigned char b = (unsigned char)p[1], c = (unsigned char)p[2];
        if ((b == 0x80 && c >= 0xAA && c <= 0xAE) || (b == 0x81 && c >= 0xA6 && c <= 0xA9))
            lex_error(&x->errors, E0122, span_of(x, p, p + 3), NULL, NULL);
    }
}

static void finish(Lexer *x)
{
    if (x->out->tok.n > x->first || x->bad) {
        x->cur = x->end;
        x->bad |= x->forward && x->out->open;       /* half a line is not wrong yet */
        end_line(x, x->end);
    }
    x->start = x->cur = x->end;
    for (; x->indent.n > 1; x->indent.n--)
        put_indent(x, TOK_DEDENT);
    emit(x, 0);
}

static void run(Lexer *x)
{
    for (;;) {
        if (x->bol && !x->br.n) {
            if (x->cur >= x->end)
                break;
            line_start(x);
        } else if (x->fs.n && vec_last(&x->fs).text) {
            fstring_text(x);
        } else {
            scan(x);
        }
        if (x->cur >= x->end && !x->bol && x->br.n) {
            int k = may_go_back(x) ? resync_token(x) : -1;
            x->out->open = true;
            never_closed(x, k);
        } else if (x->end_seen && x->cur >= x->end) {
            break;
        }
        x->end_seen = false;
    }
}

void lex_source(Unit *u, DiagSink *sink, TokenList *out, bool partial)
{
    const Source *s = u->src;
    Lexer x = {.unit = u, .out = out, .text = s->text, .end = s->text + s->len, .base = s->base, .bol = true,
               .forward = partial};
    Indent outer = {0, 0, -1};
    size_t bad = utf8_check(s->text, s->len);

    x.cur = s->text + (s->len >= 3 && !memcmp(s->text, "\xEF\xBB\xBF", 3) ? 3 : 0);
    if (bad < s->len) {
        const char *shown = arena_printf(&u->arena, "0x%02X, which is not UTF-8 here", (unsigned char)s->text[bad]);
        LexError *e = mistake(&x, E0112, (Span){s->base + (uint32_t)bad, s->base + (uint32_t)bad + 1},
                              s->text[bad] ? shown : "U+0000, which does not print", NULL);
        e->help = "source texts are UTF-8 without NUL characters: save the file in that encoding";
        x.bad = false;
    } else {
        warn_of_bidi(&x);
        vec_push(&x.indent, outer);
        run(&x);
    }
    finish(&x);
    flush_errors(&x, sink);
    vec_free(&x.br);
    vec_free(&x.fs);
    vec_free(&x.indent);
    vec_free(&x.errors.all);
}

void tokens_done(TokenList *t)
{
    vec_free(&t->tok);
    vec_free(&t->line);
}
