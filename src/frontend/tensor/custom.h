/* custom.h - the trace's way into the rules of custom_vjp and custom_jvp; what ends with the interpreter. */
#ifndef TSR_FRONTEND_TENSOR_CUSTOM_H
#define TSR_FRONTEND_TENSOR_CUSTOM_H

#include "frontend/eval/value.h"
#include "ir/graph/trace.h"

/* Trace.host_rule: rule 0 jvp(primals, tangents) -> values, tangents; 1 fwd(primals) -> values, residuals;
 * 2 bwd(residuals, cotangents) -> cotangents of the operands. NULL operands are zeros. */
bool custom_host_rule(void *host, void *object, int rule, Tensor *const *in, int nin, Tensor **out, int *nout);
/* Releases every rule that graphs may have pointed to. */
void custom_done(void);
Value custom_function(Value v);                 /* of what custom_vjp or custom_jvp made: the function, borrowed; V_ERR: it is none of these */
/* tape.c: forget a recording that is still open. */
struct Interp;
void tape_end(struct Interp *I);

#endif
