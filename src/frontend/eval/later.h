/*
 * later.h - what the text says of variables behind a place.  The checker asks it, too: what it accepts is what staging accepts.
 */
#ifndef TSR_FRONTEND_LATER_H
#define TSR_FRONTEND_LATER_H

#include "frontend/syntax/ast.h"

uint32_t block_end(AstSeq body);                        /* the position after it */
bool read_later(const Ast *function, Sym name, uint32_t after);         /* is it read from this position on? */
/* Is it read behind the branch: after it, or in the next round of a loop around it? */
bool read_behind(const Ast *function, Sym name, const AstIf *branch);

#endif
