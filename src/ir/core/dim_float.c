/* Formulas of sizes: a stack machine with a row for each function. */
#include "ir/core/dim_float.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name; int arity; } row[DF_COUNT] = {
    [DF_ADD] = {"+", 2}, [DF_SUB] = {"-", 2}, [DF_MUL] = {"*", 2}, [DF_DIV] = {"/", 2}, [DF_POW] = {"**", 2}, [DF_NEG] = {"neg", 1},
    [DF_SQRT] = {"sqrt", 1}, [DF_LOG] = {"log", 1}, [DF_LOG2] = {"log2", 1}, [DF_LOG10] = {"log10", 1}, [DF_LOG1P] = {"log1p", 1},
    [DF_SIN] = {"sin", 1}, [DF_COS] = {"cos", 1}, [DF_TANH] = {"tanh", 1},
};

int dim_float_arity(DimFloatOp op) { return row[op].arity; }
void dim_float_word(DimFloatOp op, StrBuf *out) { sb_puts(out, row[op].name); }

bool dim_float_find(const char *name, DimFloatOp *out)
{
    for (int i = 0; i < DF_COUNT; i++)
        if (!strcmp(name, row[i].name)) {
            *out = (DimFloatOp)i;
            return true;
        }
    return false;
}

double dim_float_apply(DimFloatOp op, double a, double b)
{
    switch (op) {
    case DF_ADD: return a + b;
    case DF_SUB: return a - b;
    case DF_MUL: return a * b;
    case DF_DIV: return a / b;
    case DF_POW: return pow(a, b);
    case DF_NEG: return -a;
    case DF_SQRT: return sqrt(a);
    case DF_LOG: return log(a);
    case DF_LOG2: return log2(a);
    case DF_LOG10: return log10(a);
    case DF_LOG1P: return log1p(a);
    case DF_SIN: return sin(a);
    case DF_COS: return cos(a);
    default: return tanh(a);
    }
}

typedef struct Stack { double at[DIM_FLOAT_DEPTH]; int n; } Stack;

static bool push(Stack *s, double x)
{
    if (s->n == DIM_FLOAT_DEPTH)
        return false;
    s->at[s->n++] = x;
    return true;
}

static bool push_size(Stack *s, const char *word, const int64_t *size, int n)
{
    int k = 0;

    if (!*word)
        return false;
    for (; *word; word++) {
        if (!isdigit((unsigned char)*word) || (k = 10 * k + (*word - '0')) >= n)
            return false;
    }
    return push(s, size ? (double)size[k] : 1);
}

static bool take_word(Stack *s, const char *word, const int64_t *size, int n)
{
    DimFloatOp op;
    char *end;
    double x;

    if (*word == '$')
        return push_size(s, word + 1, size, n);
    if (dim_float_find(word, &op)) {
        if (s->n < row[op].arity)
            return false;
        s->n -= row[op].arity;
        return push(s, dim_float_apply(op, s->at[s->n], row[op].arity == 2 ? s->at[s->n + 1] : 0));
    }
    x = strtod(word, &end);
    return end != word && !*end && isfinite(x) && push(s, x);
}

bool dim_float_eval(const char *formula, const int64_t *size, int n, double *out)
{
    Stack s = {.n = 0};
    char word[40];

    while (*formula) {
        size_t length = strcspn(formula, " ");
        if (!length || length >= sizeof word)
            return false;
        memcpy(word, formula, length);
        word[length] = 0;
        if (!take_word(&s, word, size, n))
            return false;
        formula += length;
        formula += *formula == ' ';
    }
    *out = s.n == 1 ? s.at[0] : 0;
    return s.n == 1;
}
