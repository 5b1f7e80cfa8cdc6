/*
 * Completion looks back from the cursor: after a dot the names are the value's
 * attributes; inside a call whose keywords begin like the word they are those
 * and the session's own names; otherwise globals, prelude and keywords.
 */
#include "frontend/prelude.h"
#include "frontend/syntax/token.h"
#include "tools/repl/session.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

/* Start of the word, or of the dotted path of words, that ends at `end`. */
static size_t word_start(const char *text, size_t end, bool dotted)
{
    while (end > 0 && (is_word(text[end - 1]) || (dotted && text[end - 1] == '.')))
        end--;
    return end;
}

static void add(Completions *out, const char *word, const char *prefix, size_t n)
{
    StrBuf b = {0};

    if (strncmp(word, prefix, n) || (word[0] == '_' && !n))
        return;
    sb_puts(&b, word);
    vec_push(&out->word, b.s);
}

static void add_own_names(Session *s, Completions *out, const char *prefix, size_t n)
{
    for (int i = 0; i < s->globals->locals.n; i++)
        add(out, s->globals->locals.at[i].name->text, prefix, n);
}

static void add_common_names(Completions *out, const char *prefix, size_t n)
{
    for (int i = 0; i < prelude_count(); i++)
        add(out, prelude_row(i)->name->text, prefix, n);
    for (int i = 0; keyword_at(i); i++)
        add(out, keyword_at(i), prefix, n);
}

/* What dir() lists of the value before the dot. */
static void add_attributes(Session *s, Completions *out, const char *path, size_t path_n, const char *prefix, size_t n)
{
    Value v = session_lookup(s, path, path_n), dir = prelude_get(s->I, "dir"), names = VERR;

    if (!is_err(v) && !is_err(dir))
        names = value_call(s->I, dir, &v, 1);
    if (names.tag == V_LIST)
        for (int64_t i = 0; i < as_list(names)->n; i++)
            if (as_list(names)->at[i].tag == V_STR)
                add(out, as_str(as_list(names)->at[i])->s, prefix, n);
    value_unref(names);
    value_unref(v);
    if (exc_pending(s->I))
        exc_clear(s->I);
}

/* Offset of the innermost ( that is open at `at`; false: none. Strings are not looked into. */
static bool open_call(const char *text, size_t at, size_t *paren)
{
    int depth = 0;

    while (at > 0) {
        char c = text[--at];
        if (c == ')' || c == ']' || c == '}')
            depth++;
        else if ((c == '(' || c == '[' || c == '{') && depth-- == 0) {
            *paren = at;
            return c == '(';
        }
    }
    return false;
}

static void add_keywords_of_call(Session *s, Completions *out, const char *text, size_t from, const char *prefix, size_t n)
{
    Completions found = {0};
    size_t paren, start;
    Value f;

    if (!open_call(text, from, &paren) || (start = word_start(text, paren, true)) == paren)
        return;
    f = session_lookup(s, text + start, paren - start);
    if (is_err(f))
        return;
    describe_keywords(s, f, &found);
    for (int i = 0; i < found.word.n; i++) {
        add(out, found.word.at[i], prefix, n);
        tsr_free(found.word.at[i]);
    }
    vec_free(&found.word);
    value_unref(f);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_unique(Completions *c)
{
    int k = 0;

    if (c->word.n)
        qsort(c->word.at, (size_t)c->word.n, sizeof(char *), by_text);
    for (int i = 0; i < c->word.n; i++) {
        if (k && !strcmp(c->word.at[k - 1], c->word.at[i]))
            tsr_free(c->word.at[i]);
        else
            c->word.at[k++] = c->word.at[i];
    }
    c->word.n = k;
}

void session_complete(void *state, const char *text, size_t cursor, Completions *out)
{
    Session *s = state;
    size_t from = word_start(text, cursor, false), n = cursor - from;
    size_t path = from > 0 && text[from - 1] == '.' ? word_start(text, from - 1, true) : from;
    bool common;

    out->from = from;
    if (path < from) {
        add_attributes(s, out, text + path, from - 1 - path, text + from, n);
    } else {
        add_keywords_of_call(s, out, text, from, text + from, n);
        common = !n || !out->word.n;
        add_own_names(s, out, text + from, n);
        if (common)
            add_common_names(out, text + from, n);
    }
    sort_unique(out);
}
