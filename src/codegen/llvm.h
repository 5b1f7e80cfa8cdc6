/*
 * llvm.h - LLVM, started when first used.
 */
#ifndef TSR_CODEGEN_LLVM_H
#define TSR_CODEGEN_LLVM_H

#include "base/strbuf.h"

/* "LLVM 19.1.7 for znver4": its version and the CPU that code is made for. */
void llvm_describe(StrBuf *out);

#endif
