/*
 * Formulas of several elements of a thread abreast.
 *
 * A thread that has few others beside it on its processor waits for each instruction of a formula. So those of several elements, which are emitted
 * one element after the other, are put into one order: the first instruction of each, the second of each, and so on; who needs another's
 * waits for it.  The assembler keeps about that order of short formulas, and of long ones where it is told to.
 */
#include "codegen/formula.h"
#include "codegen/gpu_impl.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { ELEMENTS_MOST = 16 };

typedef struct Abreast {
    LLVMBasicBlockRef block;
    LLVMValueRef *ins;          /* all of them, as they were emitted */
    struct { LLVMValueRef ins; bool placed; } *by_address;
    int n, first[ELEMENTS_MOST + 1];        /* of each element's in ins */
} Abreast;

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)*(const LLVMValueRef *)a, y = (uintptr_t)*(const LLVMValueRef *)b;

    return x < y ? -1 : x > y;
}

/* Does it follow from its operands alone, and from memory that nothing here writes? */
static bool is_pure(LLVMValueRef ins)
{
    unsigned memory = LLVMGetEnumAttributeKindForName("memory", 6);
    LLVMAttributeRef at;
    LLVMValueRef called;

    if (LLVMIsAStoreInst(ins) || LLVMIsAFenceInst(ins) || LLVMIsAAtomicRMWInst(ins) || LLVMIsAPHINode(ins) || LLVMIsATerminatorInst(ins))
        return false;
    if (!LLVMIsACallInst(ins))
        return true;
    called = LLVMGetCalledValue(ins);
    at = LLVMGetCallSiteEnumAttribute(ins, LLVMAttributeFunctionIndex, memory);
    if (!at && LLVMIsAFunction(called))
        at = LLVMGetEnumAttributeAtIndex(called, LLVMAttributeFunctionIndex, memory);
    return at && LLVMGetEnumAttributeValue(at) == 0;
}

static int collect(Abreast *a, Arena *arena, const LLVMValueRef *last, int elements)
{
    LLVMValueRef end = last[elements], at = last[0] ? LLVMGetNextInstruction(last[0]) : LLVMGetFirstInstruction(a->block);

    for (LLVMValueRef i = at; i; i = LLVMGetNextInstruction(i))
        a->n++;
    a->ins = arena_array(arena, LLVMValueRef, a->n + 1);
    a->n = 0;
    for (int k = 0; k < elements; k++) {
        a->first[k] = a->n;
        for (; at && (a->n == 0 || a->ins[a->n - 1] != last[k + 1]) && last[k] != last[k + 1]; at = LLVMGetNextInstruction(at)) {
            if (!is_pure(at))
                return false;
            a->ins[a->n++] = at;
        }
    }
    a->first[elements] = a->n;
    return !a->n || a->ins[a->n - 1] == end;
}

static bool *placed(const Abreast *a, LLVMValueRef ins)
{
    size_t size = sizeof *a->by_address;
    char *at = bsearch(&ins, a->by_address, (size_t)a->n, size, by_address);

    return at ? &a->by_address[(size_t)(at - (char *)a->by_address) / size].placed : NULL;
}

/* Has all that it needs been placed? */
static bool is_ready(const Abreast *a, LLVMValueRef ins)
{
    for (int i = LLVMGetNumOperands(ins) - 1; i >= 0; i--) {
        bool *is = placed(a, LLVMGetOperand(ins, (unsigned)i));
        if (is && !*is)
            return false;
    }
    return true;
}

static void place(CpuCode *e, const Abreast *a, LLVMValueRef ins)
{
    LLVMInstructionRemoveFromParent(ins);
    LLVMPositionBuilderAtEnd(e->u->builder, a->block);
    LLVMInsertIntoBuilder(e->u->builder, ins);
    *placed(a, ins) = true;
}

int gpu_formula_length(CpuCode *e, TileRef v)
{
    const TileNode *n = v.node;
    int length = 0;

    if (n->op != TOP_map || cpu_val(e, v)->fragment || cpu_val(e, v)->x)
        return 0;
    for (int i = 0; i < n->nin && length < LONG_FORMULA; i++)
        length += gpu_formula_length(e, n->in[i]);
    return length + (n->attr->fast ? 1 : formula_cost((OpId)n->attr->op, (DType)n->type[0].dtype));
}

void gpu_abreast(CpuCode *e, const LLVMValueRef *last, int elements)
{
    Abreast a = {.block = LLVMGetInsertBlock(e->u->builder)};
    int next[ELEMENTS_MOST], left;

    for (int k = 0; k <= elements; k++)
        if (elements > ELEMENTS_MOST || (last[k] && LLVMGetInstructionParent(last[k]) != a.block))
            return;
    if (!collect(&a, &e->gpu->arena, last, elements))
        return;
    a.by_address = arena_alloc(&e->gpu->arena, sizeof *a.by_address * (size_t)(a.n + 1));
    for (int i = 0; i < a.n; i++) {
        a.by_address[i].ins = a.ins[i];
        a.by_address[i].placed = false;
    }
    qsort(a.by_address, (size_t)a.n, sizeof *a.by_address, by_address);
    for (int k = 0; k < elements; k++)
        next[k] = a.first[k];
    for (left = a.n; left; )
        for (int k = 0; k < elements; k++)
            if (next[k] < a.first[k + 1] && is_ready(&a, a.ins[next[k]])) {
                place(e, &a, a.ins[next[k]++]);
                left--;
            }
}
