/*
 * origin.h - what code is made by and for, besides the kernel itself.
 */
#ifndef TSR_CODEGEN_ORIGIN_H
#define TSR_CODEGEN_ORIGIN_H

#include "base/hash.h"

#include <stdbool.h>

/*
 * A hash of this program's every byte (our code, LLVM, formulas) and of the CPU's features as machine_host() sees
 * them, found without starting LLVM. false: this program does not know what it is, and its code is not to be kept.
 */
bool code_origin(Hash128 *out);

#endif
