/* print.h - between the printers of statements (print.c) and of expressions and patterns (print_expr.c). */
#ifndef TSR_FRONTEND_PRINT_H
#define TSR_FRONTEND_PRINT_H

#include "frontend/syntax/ast.h"

typedef struct Printer {
    StrBuf *out;
    int depth;
} Printer;

/* How tightly an expression binds, loosest first. */
typedef enum Prec {
    PREC_LIST,          /* tuples without brackets, yield, starred */
    PREC_NAMED, PREC_EXPR, PREC_OR, PREC_AND, PREC_NOT, PREC_COMPARE, PREC_BITOR, PREC_BITXOR, PREC_BITAND, PREC_SHIFT,
    PREC_SUM, PREC_TERM, PREC_UNARY, PREC_POWER, PREC_AWAIT, PREC_PRIMARY
} Prec;

/* In brackets when it binds less tightly than `least`, or had brackets of its own. */
void print_expr(Printer *pr, const Ast *n, Prec least);
void print_list(Printer *pr, const Ast *n);         /* a tuple may go without brackets */
void print_value(Printer *pr, const Ast *n);        /* and a yield too */
void print_params(Printer *pr, const AstSeq *params);
void print_args(Printer *pr, const AstSeq *args);
void print_pattern(Printer *pr, const Ast *n);

#endif
