/*
 * Texts that say how: format specifications, % and format(), regular expressions, numbers to be read.
 *
 * Where such a text is known it is read as the run will read it, and held against the types of what it is applied to: E0920.
 * Nothing is said of fields that the text leaves to the run ({0.name}, a width from a variable).
 */
#include "frontend/check/texts.h"

#include "frontend/eval/native.h"
#include "frontend/lib/re.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Diag *wrong(Check *C, Span span, StrBuf *text)
{
    Diag *d = REPORT(C, E0920, span, sb_str(text));

    sb_done(text);
    return d;
}

/* ------------------------------------------------------------- f"{x:spec}" */

/* The last letter of a specification says for which values it is; 0: none. -1: it is not well formed, or not read here. */
static int spec_letter(const char *s, size_t n)
{
    size_t i = 0;

    if (n >= 2 && strchr("<>=^", s[1]))
        i = 2;
    else if (n && strchr("<>=^", s[0]))
        i = 1;
    i += i < n && strchr("+- ", s[i]);
    i += i < n && s[i] == 'z';
    i += i < n && s[i] == '#';
    while (i < n && isdigit((unsigned char)s[i]))
        i++;
    i += i < n && strchr(",_", s[i]);
    if (i < n && s[i] == '.') {
        i++;
        while (i < n && isdigit((unsigned char)s[i]))
            i++;
    }
    return i == n ? 0 : i == n - 1 && isalpha((unsigned char)s[i]) ? s[i] : i == n - 1 && s[i] == '%' ? '%' : -1;
}

/* The letters that a kind of value takes; NULL: any text, or it is not known; "": it takes no specification. */
static const char *letters_of(const Check *C, const Type *t)
{
    switch (t->kind) {
    case TY_INT: case TY_BOOL:
        return "bcdoxXneEfFgG%";
    case TY_FLOAT:
        return "neEfFgG%";
    case TY_STR:
        return "s";
    case TY_NONE: case TY_LIST: case TY_TUPLE: case TY_DICT: case TY_SET: case TY_RANGE: case TY_BYTES: case TY_FUNC:
        return "";
    case TY_INSTANCE:                               /* a model or an object of the program takes one where it has __format__ */
        return (((const Cls *)t->ref)->is_module && !cls_find(t->ref, sym("__format__"))) || object_lacks(C, t, "__format__") ? "" : NULL;
    default:
        return NULL;
    }
}

static bool has_axes(const Type *t) { return t->kind == TY_TENSOR && t->tensor->rank != RANK_UNKNOWN && t->tensor->rank > 0; }

/* The specification s, n bytes of it, for a value of type t; what: the expression. */
static void spec_judged(Check *C, const Type *t, const char *s, size_t n, Span span, Ast *value)
{
    const char *letters = type_is_any(t) ? NULL : has_axes(t) ? "" : letters_of(C, t);
    int letter = spec_letter(s, n);
    StrBuf text = {0};
    Diag *d;

    if (n && value)
        optional_used(C, value, "'%.*s' does not format None", (int)n, s);
    if (!letters || !n || letter < 0 || (*letters && (!letter || strchr(letters, letter))))
        return;
    sb_printf(&text, "'%.*s' does not format a value of type %s", (int)n, s, type_text(t));
    d = wrong(C, span, &text);
    if (has_axes(t))
        diag_help(d, "a tensor of one element is formatted so: x.item(), x.mean(), x[i]");
    else if (t->kind == TY_STR)
        diag_help(d, "make a number of the text first: float(...), or leave '%c' out", letter);
    else if (t->kind == TY_FLOAT)
        diag_help(d, "make a whole number of it first: int(...) or round(...), or format with '.0f'");
    else if (t->kind == TY_INT || t->kind == TY_BOOL)
        diag_help(d, "a number is formatted by 'd', 'f', 'e', 'g', 'x' and the like");
    else
        diag_help(d, "only numbers and texts are formatted: make a text of it first, as {x!s:...} or str(x)");
    if (value)
        origin_of(C, d, value, DIM_BAD);
}

/* A specification that is all text; false: it has holes. */
static bool spec_text(const Ast *spec, const char **s, size_t *n)
{
    const AstFString *f = AST_AS(spec, FString);

    if (!AST_IS(spec, FString) || f->parts.n != 1 || !AST_IS(f->parts.at[0], Str))
        return false;
    *s = AST_AS(f->parts.at[0], Str)->value.s;
    *n = AST_AS(f->parts.at[0], Str)->value.n;
    return true;
}

void hole_judged(Check *C, AstHole *h, const Type *t)
{
    const char *s;
    size_t n;

    if (h->spec && spec_text(h->spec, &s, &n))
        spec_judged(C, h->conversion ? type_str(NULL) : t, s, n, h->value->span, h->value);
}

/* ------------------------------------------------------------- "{} {name}".format(...) */

typedef struct { const CallArgs *a; int next; } Fields;

static const CallArg *argument(Fields *f, const char *name, size_t n)
{
    int64_t at = 0;

    if (!n)
        at = f->next++;
    else if (isdigit((unsigned char)*name))
        at = strtol(name, NULL, 10);
    else {
        for (int i = 0; i < f->a->n; i++)
            if (f->a->at[i].name && strlen(f->a->at[i].name->text) == n && !memcmp(f->a->at[i].name->text, name, n))
                return &f->a->at[i];
        return NULL;
    }
    for (int i = 0; i < f->a->n; i++)
        if (!f->a->at[i].name && !at--)
            return &f->a->at[i];
    return NULL;
}

/* One field of n bytes: name, !conversion, :spec. false: no argument is there for it, and that is said. */
static bool field_judged(Check *C, Fields *f, const char *s, size_t n, Ast *node)
{
    size_t name = strcspn(s, "!:}.[");
    const CallArg *x;
    StrBuf text = {0};

    name = name < n ? name : n;
    x = argument(f, s, name);
    if (!x) {
        if (!name)
            sb_printf(&text, "format() has fields for %d values, and gets %d", f->next, f->a->n);
        else
            sb_printf(&text, "format() gets no value for the field {%.*s}", (int)name, s);
        diag_help(wrong(C, node->span, &text), !name || isdigit((unsigned char)*s) ? "pass a value for each {}" : "pass %.*s=...", (int)name, s);
        return false;
    }
    if (name < n && s[name] == ':')
        spec_judged(C, x->type, s + name + 1, n - name - 1, node->span, NULL);
    return true;
}

static void format_judged(Check *C, Sym template, const CallArgs *a, Ast *node)
{
    Fields f = {a, 0};
    const char *s = template->text;

    for (int i = 0; i < a->n; i++)
        if (a->at[i].stars)
            return;
    while (*s) {
        size_t n = 0;
        int depth = 1;
        if ((*s == '{' && s[1] == '{') || (*s == '}' && s[1] == '}')) {
            s += 2;
            continue;
        }
        if (*s++ != '{')
            continue;
        for (; s[n] && depth; n++)
            depth += s[n] == '{' ? 1 : s[n] == '}' ? -1 : 0;
        if (depth || memchr(s, '{', n) || !field_judged(C, &f, s, n - 1, node))
            return;                                 /* {:{}}: counts its own */
        s += n;
    }
}

/* ------------------------------------------------------------- "%d %s" % values */

/* The next conversion at or behind s; NULL: none. What it takes of the values beside its own is added to *stars. */
static const char *conversion(const char *s, char *letter, int *stars, const char **key, size_t *nkey)
{
    for (; *s; s++) {
        if (*s != '%')
            continue;
        s++;
        if (*s == '%')
            continue;
        *key = NULL;
        if (*s == '(') {
            *key = s + 1;
            *nkey = strcspn(s + 1, ")");
            s += *nkey + 2;
        }
        while (*s && strchr("#0- +.123456789*hlL", *s))
            *stars += *s++ == '*';
        *letter = *s;
        return *s ? s + 1 : NULL;
    }
    return NULL;
}

/* Does %letter take such a value? */
static bool converts(char letter, const Type *t)
{
    bool number = t->kind == TY_INT || t->kind == TY_BOOL || t->kind == TY_FLOAT;

    if (type_is_any(t) || strchr("sra", letter) || t->kind >= TY_FUNC || t->kind == TY_COMPLEX)
        return true;
    if (letter == 'c')
        return t->kind == TY_INT || t->kind == TY_STR || t->kind == TY_BOOL;
    if (strchr("oxX", letter))
        return number && t->kind != TY_FLOAT;
    return !strchr("diufFeEgG", letter) || number;
}

static void converts_judged(Check *C, char letter, const Type *t, Ast *node)
{
    StrBuf text = {0};

    if (converts(letter, t))
        return;
    sb_printf(&text, "'%%%c' does not format a value of type %s", letter, type_text(t));
    diag_help(wrong(C, node->span, &text), "'%%s' formats anything; a number of a text is int(...) or float(...)");
}

void percent_judged(Check *C, const Type *a, const Type *b, Ast *node)
{
    const char *s, *key = NULL;
    size_t nkey = 0;
    char letter = 0;
    int stars = 0, n = 0, have = b->kind == TY_TUPLE ? b->n : 1;
    bool keyed = false;
    StrBuf text = {0};

    if (!a->text || type_is_any(b) || have < 0 || b->kind == TY_UNION || b->kind >= TY_FUNC)
        return;
    for (s = a->text->text; (s = conversion(s, &letter, &stars, &key, &nkey)); n++) {
        keyed |= key != NULL;
        if (key && b->kind == TY_DICT && b->exact && !type_dict_get(b, sym_n(key, nkey))) {
            sb_printf(&text, "the dict has no key '%.*s' for %%(%.*s)%c", (int)nkey, key, (int)nkey, key, letter);
            wrong(C, node->span, &text);
            return;
        }
    }
    if (keyed || stars)
        return;
    if (n != have && !(b->kind == TY_DICT && !n)) {
        sb_printf(&text, "'%%' has places for %d value%s, and gets %d", n, n == 1 ? "" : "s", have);
        diag_help(wrong(C, node->span, &text), n > 1 && have == 1 ? "several values are a tuple: \"...\" %% (a, b)"
                                                                  : "write a place such as %%s for each value");
        return;
    }
    n = 0;
    for (s = a->text->text; (s = conversion(s, &letter, &stars, &key, &nkey)); n++)
        converts_judged(C, letter, b->kind == TY_TUPLE ? b->item[n] : b, node);
}

/* ------------------------------------------------------------- what is made of a known text */

/* The parts between a separator, or between blanks. NULL: there are too many. */
static const Type *parts_of(const char *s, const char *by)
{
    static const char blanks[] = " \t\n\r\f\v";
    const Type *m[ITEMS_MAX];
    const char *end;
    int n = 0;

    for (; s; s = end && by ? end + strlen(by) : end) {
        s += by ? 0 : strspn(s, blanks);
        if (!by && !*s)
            break;
        if (n == ITEMS_MAX)
            return NULL;
        end = by ? strstr(s, by) : s + strcspn(s, blanks);
        m[n++] = type_str(sym_n(s, end ? (size_t)(end - s) : strlen(s)));
    }
    return type_list_of(m, n);
}

const Type *text_made(const NativeDef *d, const Type *self, const CallArgs *a)
{
    const Type *by = a->n ? a->at[0].type : NULL;

    if (strcmp(d->owner, "str") || strcmp(d->name, "split") || self->kind != TY_STR || !self->text || a->n > 1 || a->open)
        return NULL;
    if (by && (by->kind != TY_STR || !by->text || !*by->text->text || a->at[0].name))
        return NULL;
    return parts_of(self->text->text, by ? by->text->text : NULL);
}

/* ------------------------------------------------------------- natives whose text is read */

static bool reads_pattern(const NativeDef *d) { return !strcmp(d->owner, "re") && strcmp(d->name, "escape"); }

static void pattern_judged(Check *C, const NativeDef *d, const CallArgs *a, Ast *node)
{
    const Type *t = a->n && !a->at[0].name && !a->at[0].stars ? a->at[0].type : T_ANY;
    StrBuf why = {0}, text = {0};

    for (int i = 1; i < a->n; i++)                  /* flags may change what it means: re.VERBOSE */
        if (a->at[i].name && !strcmp(a->at[i].name->text, "flags"))
            return;
    if (t->kind == TY_STR && t->text && !(!strcmp(d->name, "compile") && a->n > 1) &&
        re_wrong(t->text->text, strlen(t->text->text), &why)) {
        sb_printf(&text, "this is no regular expression: %s", sb_str(&why));
        diag_help(wrong(C, at_call(node, a->at[0].node), &text),
            "a bracket that stands for itself is written \\( or \\[; re.escape(text) does it for all");
    }
    sb_done(&why);
}

/* int("3.5"), float("abc") */
static void number_judged(Check *C, const char *name, const CallArgs *a, Ast *node)
{
    const Type *t = a->n == 1 && !a->at[0].name && !a->at[0].stars ? a->at[0].type : T_ANY;
    StrBuf text = {0};
    const char *s;
    char *end;
    bool whole = !strcmp(name, "int");

    if (t->kind != TY_STR || !t->text || C->frame->fn)       /* a function may mean the ValueError, for who calls it */
        return;
    for (s = t->text->text; isspace((unsigned char)*s); s++)
        ;
    (void)(whole ? (double)strtoll(s, &end, 10) : strtod(s, &end));
    while (isspace((unsigned char)*end))
        end++;
    if ((end != s && !*end) || strchr(s, '_') || (unsigned char)*s >= 0x80)
        return;
    sb_printf(&text, "%s() reads no %s in '%s'", name, whole ? "whole number" : "number", t->text->text);
    s = t->text->text;
    strtod(s, &end);
    diag_help(wrong(C, at_call(node, a->at[0].node), &text), whole && end != s && !*end ? "int(float(text)) cuts off what is behind the point"
                                                                                    : "the text has to be a number");
}

void texts_judged(Check *C, const NativeDef *d, const Type *self, const CallArgs *a, Ast *node)
{
    const Type *spec = a->n == 2 ? a->at[1].type : T_ANY;

    if (self && self->kind == TY_STR && self->text && !strcmp(d->name, "format") && !strcmp(d->owner, "str"))
        format_judged(C, self->text, a, node);
    else if (!self && reads_pattern(d))
        pattern_judged(C, d, a, node);
    else if (!self && !*d->owner && (!strcmp(d->name, "int") || !strcmp(d->name, "float")))
        number_judged(C, d->name, a, node);
    else if (!self && !*d->owner && !strcmp(d->name, "format") && spec->kind == TY_STR && spec->text)
        spec_judged(C, a->at[0].type, spec->text->text, strlen(spec->text->text), node->span, NULL);
}
