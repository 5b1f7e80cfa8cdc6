/* transpose.h - copying crosswise, in squares: transposed operands at the speed of others. */
#ifndef TSR_RUNTIME_TRANSPOSE_H
#define TSR_RUNTIME_TRANSPOSE_H

#include "runtime/reader.h"

/* Would reading these elements in row-major order jump from line to line of memory, for long enough to matter? */
bool is_crosswise(const Reader *r);
/* All of them, which are crosswise, as a row. */
void copy_crosswise(char *to, const Reader *src);

#endif
