/*
 * tessera.re - bytes to tokens.
 *
 * re2c recognises words, numbers and operators; what depends on more than a
 * regular language is C around it (src/frontend/syntax/lex_*.c), and here the
 * lines: a stack of indentation widths, measured twice (tabs as 8 and as 1) so
 * that a mixture that only looks aligned is found.  Inside brackets a line end
 * is white space.
 *
 * The mistakes of a portion are kept in a list until its end, because text may be
 * read again when a bracket was never closed, and that drops some.
 */
#include "frontend/syntax/lexer.h"

#include <limits.h>
#include <string.h>

/* ---- lines ---- */

static void newline(Lexer *x)
{
    x->line = x->cur;
    x->line_depth = x->br.n;
    x->fresh = true;
    if (!x->br.n && !x->fs.n)
        lex_end_line(x, x->start);
}

static void comment(Lexer *x)
{
    AstComment c;

    while (x->cur < x->end && *x->cur != '\n' && *x->cur != '\r')
        x->cur++;
    c.span = lex_span_of(x, x->start, x->cur);
    vec_push(&x->unit->comments, c);
}

static void continuation(Lexer *x)
{
    if (x->cur >= x->end) {
        x->out->open = true;
        lex_mistake(x, E0113, lex_span_of(x, x->start, x->cur), "the file ends after a line continuation", NULL);
    } else if (*x->cur == '\n' || *x->cur == '\r') {
        x->cur += x->cur[0] == '\r' && x->cur[1] == '\n' ? 2 : 1;
        x->line = x->cur;
        x->line_depth = x->br.n;
        x->space = true;
        x->out->open |= x->cur >= x->end;
    } else {
        lex_mistake(x, E0113, lex_span_of(x, x->start, x->cur), "unexpected character after the line continuation '\\'", NULL);
    }
}

static void put_indent(Lexer *x, int kind)
{
    x->start = x->cur;
    lex_emit(x, kind);
    x->fresh = true;
}

static void tabs_and_spaces(Lexer *x)
{
    lex_mistake(x, E0107, lex_span_of(x, x->line, x->cur), NULL, NULL)->help =
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
                lex_mistake(x, E0121, lex_span_of(x, x->line, x->cur), "blocks are nested too deeply", NULL);
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
            lex_mistake(x, E0106, lex_span_of(x, x->line, x->cur), NULL, NULL);
            vec_last(&x->indent).alias = col;
        } else if (vec_last(&x->indent).alt != alt && vec_last(&x->indent).col == col) {
            tabs_and_spaces(x);
        }
    }
}

/*
 * Is it time for the parser? Not in front of what may belong to the statement before it (else, elif, except, finally), nor
 * behind a line that asks for the next one.
 */
static bool may_pause(const Lexer *x)
{
    const Token *tok = x->out->tok.at;
    int n = x->out->tok.n, i;

    if (n < x->portion || *x->cur == 'e' || *x->cur == 'f')
        return false;
    for (i = vec_last(&x->out->line).first; tok[i].kind == TOK_INDENT || tok[i].kind == TOK_DEDENT; i++)
        ;
    return tok[i].kind != TOK_AT && !(n - 2 > i && tok[n - 2].kind == TOK_COLON);
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
    if (col == 0 && may_pause(x)) {
        x->cur = x->line;
        x->full = true;
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
    LexError *e = lex_mistake(x, E0112, lex_span_of(x, x->start, x->cur), shown, NULL);

    if (c == '?')
        e->help = "a conditional expression is written: a if condition else b";
    else if (c == '!')
        e->help = "write 'not' to negate a condition";
}

#define AUG(o) lex_op(x, TOK_AUG, AOP_##o)
#define CMP(o) lex_op(x, TOK_CMP, AOP_##o)

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

    "False"    { lex_keyword(x, TOK_FALSE); return; }
    "None"     { lex_keyword(x, TOK_NONE); return; }
    "True"     { lex_keyword(x, TOK_TRUE); return; }
    "and"      { lex_keyword(x, TOK_AND); return; }
    "as"       { lex_keyword(x, TOK_AS); return; }
    "assert"   { lex_keyword(x, TOK_ASSERT); return; }
    "async"    { lex_keyword(x, TOK_ASYNC); return; }
    "await"    { lex_keyword(x, TOK_AWAIT); return; }
    "break"    { lex_keyword(x, TOK_BREAK); return; }
    "class"    { lex_keyword(x, TOK_CLASS); return; }
    "continue" { lex_keyword(x, TOK_CONTINUE); return; }
    "def"      { lex_keyword(x, TOK_DEF); return; }
    "del"      { lex_keyword(x, TOK_DEL); return; }
    "elif"     { lex_keyword(x, TOK_ELIF); return; }
    "else"     { lex_keyword(x, TOK_ELSE); return; }
    "except"   { lex_keyword(x, TOK_EXCEPT); return; }
    "finally"  { lex_keyword(x, TOK_FINALLY); return; }
    "for"      { lex_keyword(x, TOK_FOR); return; }
    "from"     { lex_keyword(x, TOK_FROM); return; }
    "global"   { lex_keyword(x, TOK_GLOBAL); return; }
    "if"       { lex_keyword(x, TOK_IF); return; }
    "import"   { lex_keyword(x, TOK_IMPORT); return; }
    "in"       { lex_keyword(x, TOK_IN); return; }
    "is"       { if (lex_previous_is(x, TOK_DOT)) lex_keyword(x, TOK_CMP); else CMP(IS); return; }
    "lambda"   { lex_keyword(x, TOK_LAMBDA); return; }
    "nonlocal" { lex_keyword(x, TOK_NONLOCAL); return; }
    "not"      { lex_keyword(x, TOK_NOT); return; }
    "or"       { lex_keyword(x, TOK_OR); return; }
    "pass"     { lex_keyword(x, TOK_PASS); return; }
    "raise"    { lex_keyword(x, TOK_RAISE); return; }
    "return"   { lex_keyword(x, TOK_RETURN); return; }
    "try"      { lex_keyword(x, TOK_TRY); return; }
    "while"    { lex_keyword(x, TOK_WHILE); return; }
    "with"     { lex_keyword(x, TOK_WITH); return; }
    "yield"    { lex_keyword(x, TOK_YIELD); return; }
    word       { lex_name(x); return; }
    wide       { lex_wide_name(x); return; }

    digits                       { lex_integer(x, 0, 10); return; }
    "0" [xX] ("_"? [0-9a-fA-F])+ { lex_integer(x, 2, 16); return; }
    "0" [oO] ("_"? [0-7])+       { lex_integer(x, 2, 8); return; }
    "0" [bB] ("_"? [01])+        { lex_integer(x, 2, 2); return; }
    float                        { lex_real(x, TOK_FLOAT, 0); return; }
    (float | digits) [jJ]        { lex_real(x, TOK_IMAG, 1); return; }

    ([rR] | [uU] | [bB] | [rR][bB] | [bB][rR])? quote { lex_string(x); return; }
    ([fF] | [fF][rR] | [rR][fF]) quote                { lex_fstring(x); return; }

    "("   { lex_open_bracket(x, '(', TOK_LPAR, false); return; }
    "["   { lex_open_bracket(x, '[', TOK_LSQB, false); return; }
    "{"   { lex_open_bracket(x, '{', TOK_LBRACE, false); return; }
    ")"   { lex_close_bracket(x, ')', TOK_RPAR); return; }
    "]"   { lex_close_bracket(x, ']', TOK_RSQB); return; }
    "}"   { lex_right_brace(x); return; }
    ","   { lex_emit(x, TOK_COMMA); return; }
    ";"   { lex_emit(x, TOK_SEMI); return; }
    ":"   { if (!lex_colon_of_hole(x)) lex_emit(x, TOK_COLON); return; }
    ":="  { if (!lex_colon_of_hole(x)) lex_emit(x, TOK_WALRUS); return; }
    "!"   { if (lex_at_hole(x)) lex_emit(x, TOK_FBANG); else unknown_byte(x, '!'); return; }
    "="   { lex_equals(x); return; }
    "."   { lex_emit(x, TOK_DOT); return; }
    "..." { lex_emit(x, TOK_ELLIPSIS); return; }
    "->"  { lex_emit(x, TOK_ARROW); return; }
    "@"   { lex_emit(x, TOK_AT); return; }
    "+"   { lex_emit(x, TOK_PLUS); return; }
    "-"   { lex_emit(x, TOK_MINUS); return; }
    "*"   { lex_emit(x, TOK_STAR); return; }
    "/"   { lex_emit(x, TOK_SLASH); return; }
    "//"  { lex_emit(x, TOK_DSLASH); return; }
    "%"   { lex_emit(x, TOK_PERCENT); return; }
    "**"  { lex_emit(x, TOK_DSTAR); return; }
    "|"   { lex_emit(x, TOK_VBAR); return; }
    "&"   { lex_emit(x, TOK_AMPER); return; }
    "^"   { lex_emit(x, TOK_CIRCUMFLEX); return; }
    "~"   { lex_emit(x, TOK_TILDE); return; }
    "<<"  { lex_op(x, TOK_SHIFT, AOP_LSHIFT); return; }
    ">>"  { lex_op(x, TOK_SHIFT, AOP_RSHIFT); return; }
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

/* ---- a portion ---- */

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
    x->errors.all.n = 0;
}

/* Characters that reorder text on the screen can make a program read as what it is not. */
static void warn_of_bidi(Lexer *x)
{
    for (const char *p = x->text; (p = memchr(p, 0xE2, (size_t)(x->end - p))); p++) {
        unsigned char b = (unsigned char)p[1], c = (unsigned char)p[2];
        if ((b == 0x80 && c >= 0xAA && c <= 0xAE) || (b == 0x81 && c >= 0xA6 && c <= 0xA9))
            lex_error(&x->errors, E0122, lex_span_of(x, p, p + 3), NULL, NULL);
    }
}

static void finish(Lexer *x)
{
    if (x->out->tok.n > x->first || x->bad) {
        x->cur = x->end;
        x->bad |= x->forward && x->out->open;       /* half a line is not wrong yet */
        lex_end_line(x, x->end);
    }
    x->start = x->cur = x->end;
    for (; x->indent.n > 1; x->indent.n--)
        put_indent(x, TOK_DEDENT);
    lex_emit(x, 0);
}

/* false: there is no more. */
static bool run(Lexer *x)
{
    while (!x->full) {
        if (x->bol && !x->br.n) {
            if (x->cur >= x->end)
                return false;
            line_start(x);
        } else if (x->fs.n && vec_last(&x->fs).text) {
            lex_fstring_text(x);
        } else {
            scan(x);
        }
        if (x->cur >= x->end && !x->bol && x->br.n) {
            int k = lex_may_go_back(x) ? lex_resync_token(x) : -1;
            x->out->open = true;
            lex_never_closed(x, k);
        } else if (x->end_seen && x->cur >= x->end) {
            return false;
        }
        x->end_seen = false;
    }
    return true;
}

void lex_begin(Lexer *x, Unit *u, TokenList *out, bool partial, int portion)
{
    const Source *s = u->src;
    Indent outer = {0, 0, -1};
    size_t bad = utf8_check(s->text, s->len);

    *x = (Lexer){.unit = u, .out = out, .text = s->text, .end = s->text + s->len, .base = s->base, .bol = true, .forward = partial,
                 .portion = portion};
    vec_push(&x->indent, outer);
    x->cur = s->text + (s->len >= 3 && !memcmp(s->text, "\xEF\xBB\xBF", 3) ? 3 : 0);
    if (bad < s->len) {
        const char *shown = arena_printf(&u->arena, "0x%02X, which is not UTF-8 here", (unsigned char)s->text[bad]);
        LexError *e = lex_mistake(x, E0112, (Span){s->base + (uint32_t)bad, s->base + (uint32_t)bad + 1},
                                  s->text[bad] ? shown : "U+0000, which does not print", NULL);
        e->help = "source texts are UTF-8 without NUL characters: save the file in that encoding";
        x->bad = false;
        x->cur = x->end;
    } else {
        warn_of_bidi(x);
    }
}

enum { BYTES_A_TOKEN = 2 };

/* Most texts need no more room than that: a long list is slow to move. */
static void make_room(const Lexer *x)
{
    size_t left = (size_t)(x->end - x->cur) / BYTES_A_TOKEN, most = (size_t)x->portion + (size_t)x->portion / 4;

    if (x->out->tok.at)
        return;
    x->out->tok.cap = (int)(left < most ? left : most) + 16;
    x->out->tok.at = tsr_alloc((size_t)x->out->tok.cap * sizeof *x->out->tok.at);
}

bool lex_portion(Lexer *x, DiagSink *sink)
{
    bool more;

    make_room(x);
    x->first = 0;
    x->full = false;
    more = run(x);
    if (!more)
        finish(x);
    flush_errors(x, sink);
    return more;
}

void lex_done(Lexer *x)
{
    vec_free(&x->br);
    vec_free(&x->fs);
    vec_free(&x->indent);
    vec_free(&x->errors.all);
}

void lex_source(Unit *u, DiagSink *sink, TokenList *out, bool partial)
{
    Lexer x;

    lex_begin(&x, u, out, partial, INT_MAX);
    lex_portion(&x, sink);
    lex_done(&x);
}

void tokens_done(TokenList *t)
{
    vec_free(&t->tok);
    vec_free(&t->line);
}
