/* The spelling of every token kind, for messages, documents and editors. */
#include "frontend/syntax/token.h"

#include <string.h>

typedef enum { WORD, SOFT, SIGN, OTHER } TokenClass;

static const struct { uint8_t kind; TokenClass class; const char *text; } table[] = {
    {TOK_FALSE, WORD, "False"}, {TOK_NONE, WORD, "None"}, {TOK_TRUE, WORD, "True"}, {TOK_AND, WORD, "and"},
    {TOK_AS, WORD, "as"}, {TOK_ASSERT, WORD, "assert"}, {TOK_ASYNC, WORD, "async"}, {TOK_AWAIT, WORD, "await"},
    {TOK_BREAK, WORD, "break"}, {TOK_CLASS, WORD, "class"}, {TOK_CONTINUE, WORD, "continue"}, {TOK_DEF, WORD, "def"},
    {TOK_DEL, WORD, "del"}, {TOK_ELIF, WORD, "elif"}, {TOK_ELSE, WORD, "else"}, {TOK_EXCEPT, WORD, "except"},
    {TOK_FINALLY, WORD, "finally"}, {TOK_FOR, WORD, "for"}, {TOK_FROM, WORD, "from"}, {TOK_GLOBAL, WORD, "global"},
    {TOK_IF, WORD, "if"}, {TOK_IMPORT, WORD, "import"}, {TOK_IN, WORD, "in"}, {TOK_CMP, WORD, "is"},
    {TOK_LAMBDA, WORD, "lambda"}, {TOK_NONLOCAL, WORD, "nonlocal"}, {TOK_NOT, WORD, "not"}, {TOK_OR, WORD, "or"},
    {TOK_PASS, WORD, "pass"}, {TOK_RAISE, WORD, "raise"}, {TOK_RETURN, WORD, "return"}, {TOK_TRY, WORD, "try"},
    {TOK_WHILE, WORD, "while"}, {TOK_WITH, WORD, "with"}, {TOK_YIELD, WORD, "yield"},
    {TOK_CASE, SOFT, "case"}, {TOK_MATCH, SOFT, "match"}, {TOK_ON, SOFT, "on"}, {TOK_TYPE, SOFT, "type"},
    {TOK_WHERE, SOFT, "where"},
    {TOK_LPAR, SIGN, "("}, {TOK_RPAR, SIGN, ")"}, {TOK_LSQB, SIGN, "["}, {TOK_RSQB, SIGN, "]"},
    {TOK_LBRACE, SIGN, "{"}, {TOK_RBRACE, SIGN, "}"}, {TOK_COMMA, SIGN, ","}, {TOK_COLON, SIGN, ":"},
    {TOK_SEMI, SIGN, ";"}, {TOK_DOT, SIGN, "."}, {TOK_ELLIPSIS, SIGN, "..."}, {TOK_ARROW, SIGN, "->"},
    {TOK_EQ, SIGN, "="}, {TOK_WALRUS, SIGN, ":="}, {TOK_AT, SIGN, "@"}, {TOK_PLUS, SIGN, "+"}, {TOK_MINUS, SIGN, "-"},
    {TOK_STAR, SIGN, "*"}, {TOK_SLASH, SIGN, "/"}, {TOK_DSLASH, SIGN, "//"}, {TOK_PERCENT, SIGN, "%"},
    {TOK_DSTAR, SIGN, "**"}, {TOK_VBAR, SIGN, "|"}, {TOK_AMPER, SIGN, "&"}, {TOK_CIRCUMFLEX, SIGN, "^"},
    {TOK_TILDE, SIGN, "~"}, {TOK_SHIFT, SIGN, "<<"}, {TOK_SHIFT, SIGN, ">>"}, {TOK_CMP, SIGN, "=="},
    {TOK_CMP, SIGN, "!="}, {TOK_CMP, SIGN, "<"}, {TOK_CMP, SIGN, "<="}, {TOK_CMP, SIGN, ">"}, {TOK_CMP, SIGN, ">="},
    {TOK_AUG, SIGN, "+="}, {TOK_AUG, SIGN, "-="}, {TOK_AUG, SIGN, "*="}, {TOK_AUG, SIGN, "/="}, {TOK_AUG, SIGN, "//="},
    {TOK_AUG, SIGN, "%="}, {TOK_AUG, SIGN, "**="}, {TOK_AUG, SIGN, "@="}, {TOK_AUG, SIGN, "<<="},
    {TOK_AUG, SIGN, ">>="}, {TOK_AUG, SIGN, "&="}, {TOK_AUG, SIGN, "|="}, {TOK_AUG, SIGN, "^="},
    {TOK_NAME, OTHER, "name"}, {TOK_INT, OTHER, "number"}, {TOK_FLOAT, OTHER, "number"}, {TOK_IMAG, OTHER, "number"},
    {TOK_STRING, OTHER, "string"}, {TOK_BYTES, OTHER, "bytes literal"}, {TOK_FSTART, OTHER, "f-string"},
    {TOK_FTEXT, OTHER, "text"}, {TOK_FEND, OTHER, "end of the f-string"}, {TOK_FLBRACE, SIGN, "{"},
    {TOK_FRBRACE, SIGN, "}"}, {TOK_FEQUAL, SIGN, "="}, {TOK_FBANG, SIGN, "!"}, {TOK_FCOLON, SIGN, ":"},
    {TOK_DECORATOR, SIGN, "@"}, {TOK_WITH_LPAR, SIGN, "("}, {TOK_NEWLINE, OTHER, "end of line"},
    {TOK_INDENT, OTHER, "indent"}, {TOK_DEDENT, OTHER, "end of the block"}, {0, OTHER, "end of the file"},
};

enum { ROWS = sizeof table / sizeof *table };

const char *token_name(int kind)
{
    for (int i = 0; i < ROWS; i++)
        if (table[i].kind == kind)
            return table[i].text;
    return "token";
}

bool token_is_keyword(int kind)
{
    for (int i = 0; i < ROWS; i++)
        if (table[i].kind == kind)
            return table[i].class == WORD && kind != TOK_CMP;
    return false;
}

/* The i-th row of a class, NULL past the last. */
static const char *nth(int i, bool words)
{
    for (int k = 0; k < ROWS; k++)
        if (words ? table[k].class == WORD || table[k].class == SOFT : table[k].class == SIGN)
            if (i-- == 0)
                return table[k].text;
    return NULL;
}

const char *keyword_at(int i)
{
    return nth(i, true);
}

const char *operator_at(int i)
{
    return nth(i, false);
}
