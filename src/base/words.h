/*
 * words.h - fixed lists of words, found by hash.
 *
 * A list is filled once and looked up often: names of dtypes, of ops, of the
 * functions that a rule is about.  It keeps the texts that it is given, which
 * outlive it; the table is the owner's, a static array whose length is a power
 * of two, at least twice that of the list:
 *
 *     static Word slot[64];
 *     static Words names = {slot, 64};
 */
#ifndef TSR_BASE_WORDS_H
#define TSR_BASE_WORDS_H

#include "base/sym.h"

typedef struct { const char *text; uint32_t len, hash; int value; } Word;
typedef struct { Word *at; uint32_t cap, n; } Words;

/* Of several words of one text the first counts. */
void words_add(Words *w, const char *text, size_t len, int value);
/* "a b c": each word for itself. */
void words_add_all(Words *w, const char *texts, int value);
int words_find(const Words *w, const char *text);           /* its value; -1: not in the list */

/* Is s one of these texts? Fills the list when it is first asked. */
bool words_has(Words *w, const char *const *texts, size_t n, Sym s);

#endif
