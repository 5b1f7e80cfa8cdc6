/*
 * read.h - the words of a graph's text (private to ir/graph).
 *
 * A Reader goes over a text that ends in a NUL.  The first thing that is wrong
 * is reported with its line and sets `bad`; what is read after that means nothing.
 */
#ifndef TSR_IR_READ_H
#define TSR_IR_READ_H

#include "ir/graph/graph.h"

typedef struct Reader {
    const char *at, *end, *start;
    StrBuf *err;
    bool bad;
    int depth;
    Map sizes;                  /* name -> variable */
    DimConds conds;             /* of the graphs around: typing may rest on them, reading must not, or texts would change */
} Reader;

bool read_fail(Reader *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));      /* always false */
void read_skip(Reader *p);                              /* white space and comments */
bool read_accept(Reader *p, const char *text);          /* is this next? Then it is behind us */
bool read_expect(Reader *p, const char *text);
Sym read_word(Reader *p);                               /* empty when there is none */
Sym read_quoted(Reader *p);                             /* "text" with escapes */
int64_t read_integer(Reader *p);
Dim read_size(Reader *p, const char *ends);             /* an expression up to one of these characters */
TType read_type(Reader *p);
const Policy *read_policy(Reader *p);                   /* what follows "policy(" */
bool read_attribute(Reader *p, Attr *a);                /* one key=value; false: there is no such key */

#endif
