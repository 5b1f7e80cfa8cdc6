/*
 * lanes.h - elements in memory as lanes, and from one dtype to another.
 *
 * Raw values hold elements as memory does, packed ones as bytes; lane values
 * are what formulas compute with (formula.h).  Everything here means what
 * runtime/convert.h means by the same words.
 */
#ifndef TSR_CODEGEN_LANES_H
#define TSR_CODEGEN_LANES_H

#include "codegen/formula.h"
#include "runtime/convert.h"

/*
 * Raw elements index .. index + width - 1 of dtype t at base.  Stores of packed dtypes read the byte first, so that no
 * two threads may store to one byte.
 */
LLVMValueRef lanes_load(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, int width);
void lanes_store(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, LLVMValueRef raw, int width);
/* Elements index, index + stride, ... */
LLVMValueRef lanes_load_strided(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, LLVMValueRef stride, int width);
void lanes_store_strided(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, LLVMValueRef stride, LLVMValueRef raw, int width);

/* One raw vector of n raw elements, each a value of its own. */
LLVMValueRef lanes_side_by_side(Llvm *u, DType t, const LLVMValueRef *raw, int n);

LLVMValueRef lanes_of_raw(Llvm *u, DType t, LLVMValueRef raw, int width);
LLVMValueRef lanes_to_raw(Llvm *u, DType t, LLVMValueRef lanes, int width);        /* nearest even; overflow as the format does */
LLVMValueRef lanes_flush(Llvm *u, DType t, LLVMValueRef lanes, int width);         /* subnormals of floats and complex numbers to zero */
/*
 * raw_convert in lanes.  o NULL: nearest even, no saturation.  `first` is the linear index of the first lane as an i64,
 * for stochastic rounding, else NULL; `seed` an i64, or NULL for o's.
 */
LLVMValueRef lanes_convert(Llvm *u, DType to, DType from, const ConvOpts *o, LLVMValueRef raw, LLVMValueRef first, LLVMValueRef seed,
                           int width);

#endif
