/* texts.h - E0920 for texts that are read: format specifications, templates, patterns, numbers. */
#ifndef TSR_FRONTEND_TEXTS_H
#define TSR_FRONTEND_TEXTS_H

#include "frontend/check/checker.h"

void hole_judged(Check *C, AstHole *h, const Type *t);                          /* f"{x:spec}", of which x has type t */
void percent_judged(Check *C, const Type *a, const Type *b, Ast *node);         /* "..." % b */
/* A native's arguments, of which one says how: "...".format(x), re.compile("..."), int("..."). */
void texts_judged(Check *C, const struct NativeDef *d, const Type *self, const CallArgs *a, Ast *node);
/* What the method makes of a text that is known: the parts of "a b".split(). NULL: it is another one. */
const Type *text_made(const struct NativeDef *d, const Type *self, const CallArgs *a);

#endif
