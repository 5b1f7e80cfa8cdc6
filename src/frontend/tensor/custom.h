/* custom.h - the trace's way into the rules of custom_vjp and custom_jvp; what ends with the interpreter. */
#ifndef TSR_FRONTEND_TENSOR_CUSTOM_H
#define TSR_FRONTEND_TENSOR_CUSTOM_H

#include "ir/graph/trace.h"

/* Trace.host_rule: rule 0 jvp(primals, tangents) -> values, tangents; 1 fwd(primals) -> values, residuals;
 * 2 bwd(residuals, cotangents) -> cotangents of the operands. NULL operands are zeros. */
bool custom_host_rule(void *host, void *object, int rule, Tensor *const *in, int nin, Tensor **out, int *nout);
/* Releases every rule that graphs may have pointed to. */
void custom_done(void);
/* tape.c: forget a recording that is still open. */
struct Interp;
void tape_end(struct Interp *I);

#endif
