/* object.c - any bytes, loaded as an object of machine code: refused with a reason, or in memory; what it holds is not run. */
#include "targets.h"

#include "runtime/code.h"

void fuzz_object(const uint8_t *data, size_t n)
{
    StrBuf err = {0};
    Code *c = code_load(data, n, &err);

    if (!c && !err.n)
        tsr_bug("refused without a reason");
    if (c)
        code_find(c, "f");
    code_free(c);
    sb_done(&err);
}
