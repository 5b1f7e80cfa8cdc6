/* Linear probing; a text's hash is that of sym.h, so that a symbol brings its own. */
#include "base/words.h"

#include "base/hash.h"

#include <assert.h>
#include <string.h>

static Word *find(const Words *w, const char *text, size_t len, uint32_t hash)
{
    uint32_t i = hash & (w->cap - 1);

    while (w->at[i].text && (w->at[i].hash != hash || w->at[i].len != len || memcmp(w->at[i].text, text, len)))
        i = (i + 1) & (w->cap - 1);
    return &w->at[i];
}

void words_add(Words *w, const char *text, size_t len, int value)
{
    uint32_t hash = hash_bytes(text, len);
    Word *at = find(w, text, len, hash);

    if (at->text)
        return;
    *at = (Word){text, (uint32_t)len, hash, value};
    w->n++;
    assert(w->n * 2 <= w->cap);
}

void words_add_all(Words *w, const char *texts, int value)
{
    while (*texts) {
        size_t n = strcspn(texts, " ");
        if (n)
            words_add(w, texts, n, value);
        texts += n + (texts[n] == ' ');
    }
}

int words_find(const Words *w, const char *text)
{
    size_t n = strlen(text);
    const Word *at = find(w, text, n, hash_bytes(text, n));

    return at->text ? at->value : -1;
}

/* words_find of a symbol, whose hash and length are known. */
static int words_find_sym(const Words *w, Sym s)
{
    const Word *at = find(w, s->text, s->len, s->hash);

    return at->text ? at->value : -1;
}

bool words_has(Words *w, const char *const *texts, size_t n, Sym s)
{
    bool empty = !w->n;

    for (size_t i = 0; empty && i < n; i++)
        words_add(w, texts[i], strlen(texts[i]), (int)i);
    return words_find_sym(w, s) >= 0;
}
