/* read.h - what a graph's text is made of, above the words of scan.h (private to ir/graph). */
#ifndef TSR_IR_READ_H
#define TSR_IR_READ_H

#include "ir/core/scan.h"
#include "ir/graph/graph.h"

typedef struct Reader {
    Scan s;
    int depth;
    Map sizes;                  /* name -> variable */
    DimConds conds;             /* of the graphs around: typing may rest on them, reading must not, or texts would change */
} Reader;

Dim read_size(Reader *p, const char *ends);             /* an expression up to one of these characters */
TType read_type(Reader *p);
const Policy *read_policy(Reader *p);                   /* what follows "policy(" */
bool read_attribute(Reader *p, Attr *a);                /* one key=value; false: there is no such key */

#endif
