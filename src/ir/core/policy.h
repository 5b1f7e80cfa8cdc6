/* policy.h - numeric policies as programs write them: what goes together, and as text. */
#ifndef TSR_IR_POLICY_H
#define TSR_IR_POLICY_H

#include "base/strbuf.h"
#include "ir/core/dtype.h"

bool accum_fits(DType storage, DType accum);            /* may values of `storage` be summed in `accum`? */
const char *accum_choices(DType storage);               /* "f32, bf16, f16, tf32 or f64": in which they may */

/* "bf16 @accum(f32)", or "Policy(storage=bf16, compute=f32)" where suffixes cannot say it; p NULL: "bf16". */
void element_print(DType dt, const Policy *p, StrBuf *out);

#endif
