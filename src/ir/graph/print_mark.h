/* print_mark.h - the text of a print op (Attr.name) has this byte where an operand is to be put in. */
#ifndef TSR_IR_PRINT_MARK_H
#define TSR_IR_PRINT_MARK_H

enum { PRINT_MARK = 1 };

#endif
