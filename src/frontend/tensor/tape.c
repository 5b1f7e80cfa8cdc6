/*
 * tape.c - model.backward(loss): gradients without naming the function.
 *
 * In a program that calls .backward, calling a Module outside every transformation
 * opens a tape that watches its parameters; what is computed from them is recorded, with all
 * values visible as under grad.  backward pulls the tape, puts each gradient into its
 * parameter's .grad and ends the recording.  Programs that never say .backward record nothing.
 */
#include "frontend/tensor/custom.h"

#include "frontend/eval/eval.h"
#include "frontend/tensor/bind.h"
#include "frontend/tensor/tree.h"

#include <string.h>

typedef struct Watched { TensorObj *object; Tensor *plain, *followed; } Watched;

static GradTape *tape;
static Vec(Watched) watched;

/* Does the program's own text say .backward? Library modules do not count. */
static bool program_uses_backward(Interp *I)
{
    for (; I->tape_seen < I->units.n && !I->tape_used; I->tape_seen++) {
        const Source *src = I->units.at[I->tape_seen]->src;
        I->tape_used = strncmp(src->path, "<stdlib>", 8) && strstr(src->text, ".backward(");
    }
    return I->tape_used;
}

static void forget(bool restore)
{
    for (int i = 0; i < watched.n; i++) {
        Watched *w = &watched.at[i];
        if (restore && w->object->t == w->followed) {
            w->object->t = tensor_ref(w->plain);
            tensor_unref(w->followed);
        }
        tensor_unref(w->plain);
        obj_unref(w->object);
    }
    watched.n = 0;
}

static void watch(Value leaf)
{
    TensorObj *o = (TensorObj *)leaf.o;
    if (!dtype_is_inexact((DType)o->t->dtype) || o->t->tracer)
        return;
    Watched w = {.object = o, .plain = o->t};
    o->obj.refs++;
    o->t = w.followed = tape_watch(tape, w.plain);
    vec_push(&watched, w);
}

/* Called for each call of a Module in training. */
static Value f_watch(Interp *I, Value *a)
{
    Trace *T = trace_of(I);
    ValueVec leaf = {0};
    if (!program_uses_backward(I) || (T->top && !(tape && tape_on_top(T, tape))))
        return VNONE;
    if (!tape)
        tape = tape_open(T);
    if (!tape || !tree_values(I, a[0], TREE_TRAINED, &leaf))
        return exc_pending(I) ? VERR : VNONE;
    for (int i = 0; i < leaf.n; i++)
        watch(leaf.at[i]);
    vec_free(&leaf);
    return VNONE;
}

static void set_grad(TensorObj *o, Tensor *g)
{
    Value old = o->grad;
    o->grad = tensor_value(g);
    value_unref(old);
}

static Value f_backward(Interp *I, Value *a)            /* model, loss */
{
    Trace *T = trace_of(I);
    Tensor *loss = a[1].tag == V_TENSOR ? as_tensor(a[1]) : NULL;
    if (!tape || !tape_on_top(T, tape))
        return raise(I, EXC_RuntimeError, "backward: nothing was recorded; call the model in training mode, "
                     "outside jit and grad, before backward(loss)");
    if (!loss || shape_product(loss->rank, loss->shape) != 1)
        return raise(I, EXC_ShapeError, "backward takes the loss, a tensor of one element");
    Tensor **grad = tsr_calloc(sizeof *grad * (size_t)(watched.n + 1));
    GradTape *pulled = tape;
    tensor_ref(loss);
    tape = NULL;
    bool ok = tape_pull(T, pulled, loss, grad);
    tensor_unref(loss);
    for (int i = 0; ok && i < watched.n; i++)
        set_grad(watched.at[i].object, grad[i]);
    forget(true);
    tsr_free(grad);
    return ok ? VNONE : raise_op_error(I);
}

void tape_end(Interp *I)
{
    if (tape && tape_on_top(trace_of(I), tape))
        tape_close(trace_of(I), tape);
    tape = NULL;
    forget(false);
    vec_free(&watched);
}

const NativeDef tensor_tape_natives[] = {
    {"_core", "tape_watch", f_watch, "(model) -> None", "Record what is computed from the model's parameters, if the program will ask."},
    {"_core", "tape_backward", f_backward, "(model, loss: Tensor) -> None", "Put the gradients of loss into the parameters' .grad."},
    {0},
};
