/*
 * json.h - reading JSON that nobody vouches for.
 *
 * A text is split into tokens, which are addressed by number; token 0 is the
 * whole value.  Every question about a token that does not exist, or is of
 * another kind, has the answer "no", so that readers need no checks of their own.
 */
#ifndef TSR_BASE_JSON_H
#define TSR_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Json {
    const char *text;           /* the caller's, to be kept */
    struct JsonToken *tok;
    int n;
} Json;

typedef enum { JSON_NONE, JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_OTHER /* a number, true, false, null */ } JsonKind;

/* false: it is not well-formed. json_done is due in either case. */
bool json_read(const char *text, size_t n, Json *out);
void json_done(Json *j);

JsonKind json_kind(const Json *j, int i);
int json_count(const Json *j, int i);                   /* items of an array, members of an object; 0 of all else */
int json_next(const Json *j, int i);                    /* the token after token i and all that is inside it */
/* Members of an object go key, value, key, value from token i + 1; items of an array likewise, without keys. */
int json_get(const Json *j, int object, const char *key);       /* the member's value; -1: there is none */
bool json_is(const Json *j, int i, const char *text);   /* a string without escapes that says just this */
bool json_size(const Json *j, int i, uint64_t *out);    /* an integer from 0 to 2^63 - 1 */
bool json_true(const Json *j, int i);
char *json_string(const Json *j, int i);                /* with its escapes resolved, to be freed; of anything else its text */

#endif
