/*
 * vec.h - a growing array, typed by a macro: Vec(int) v = {0}; vec_push(&v, 3);
 * Elements are v.at[0 .. v.n).  Growing moves them: keep indices, not pointers.
 */
#ifndef TSR_BASE_VEC_H
#define TSR_BASE_VEC_H

#include "base/alloc.h"

#define Vec(T) struct { T *at; int n, cap; }

/* Ensure room for one more element of `size` bytes; the growth step is here once. */
static inline void *vec_grow(void *at, int n, int *cap, size_t size)
{
    if (n < *cap)
        return at;
    *cap = *cap ? *cap * 2 : 8;
    return tsr_realloc(at, (size_t)*cap * size);
}

#define vec_push(v, x) \
    ((v)->at = vec_grow((v)->at, (v)->n, &(v)->cap, sizeof *(v)->at), (v)->at[(v)->n++] = (x))
#define vec_pop(v) ((v)->at[--(v)->n])
#define vec_last(v) ((v)->at[(v)->n - 1])
#define vec_free(v) (tsr_free((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

#endif
