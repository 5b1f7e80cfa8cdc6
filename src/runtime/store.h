/*
 * store.h - objects of machine code kept on disk from one process to the next.
 *
 * An entry's key is a hash of all that its object was made from, so entries are
 * never out of date and any number of processes may read and write at once.
 * Each is a file with a checksum of all that it holds: damaged ones are
 * misses.  A folder that is absent, full, or not to be written gives misses
 * too, and no error: the store makes programs faster and nothing else.
 * One thread at a time.
 */
#ifndef TSR_RUNTIME_STORE_H
#define TSR_RUNTIME_STORE_H

#include "base/hash.h"
#include "base/strbuf.h"

#include <stdbool.h>

/* Use this folder, below about `limit` bytes; the text is copied. NULL or "": no store. Nothing is touched before the first question. */
void store_begin(const char *folder, int64_t limit);
void store_done(void);                  /* writes what waits, and forgets the folder */

bool store_in_use(void);                /* is there a folder to ask? */
bool store_get(Hash128 key, StrBuf *object);            /* true: the object follows what *object held */
void store_put(Hash128 key, const void *object, size_t n);      /* in memory, until many wait or store_done */

/* What the folder holds. false: it is no store; *why says what is wrong with it, and stays empty where there is none yet. */
typedef struct StoreSurvey { int64_t entries, bytes; } StoreSurvey;
bool store_survey(StoreSurvey *out, StrBuf *why);
void store_note_found(void);            /* who was given what it can run says so */
int store_found(void);                  /* how often in this process */
int64_t store_clear(void);              /* removes all entries, and no other files; how many there were */

/* An entry as its file has it, and back: NULL is what no store wrote for this key. */
void store_pack(Hash128 key, const void *object, size_t n, StrBuf *file);
const char *store_unpack(Hash128 key, const char *file, size_t n, size_t *size);

#endif
