/* row: TYP-24 TYP-26
 * The size engine: the table of facts that programs rely on, text, and random expressions
 * whose normal form and decisions are compared with direct evaluation. */
#include "unit.h"

#include "ir/core/dim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Dim vars[64];
static Sym names[64];
static int nvars;

static Dim var(const char *name)
{
    for (int i = 0; i < nvars; i++)
        if (names[i] == sym(name))
            return vars[i];
    names[nvars] = sym(name);
    vars[nvars] = dim_var(sym(name), 1, INT64_MAX);
    return vars[nvars++];
}

static Dim lookup(void *st, Sym name)
{
    return var(name->text);
}

static Dim parse(const char *s)
{
    Dim d = DIM_BAD;

    if (!dim_parse(s, lookup, NULL, &d))
        fail_msg("does not parse: %s", s);
    return d;
}

static void forget(void)
{
    dim_done();
    nvars = 0;
}

/* ------------------------------------------------------------- facts */

typedef struct { const char *facts, *left, *op, *right; DimAnswer want; } Fact;

static const Fact table[] = {
    {"D%H", "H*(D//H)", "==", "D", DIM_PROVED},
    {"", "H*(D//H)", "==", "D", DIM_DIFFERS},
    {"D%H", "B*S*D", "==", "B*S*H*(D//H)", DIM_PROVED},
    {"D%H", "(B*S*D)//(B*S*H)", "==", "D//H", DIM_PROVED},
    {"", "(H+2-3)//1+1", "==", "H", DIM_PROVED},
    {"", "(H+4-4-1)//1+1", "==", "H", DIM_PROVED},
    {"", "S//2+(S-S//2)", "==", "S", DIM_PROVED},
    {"", "cdiv(S,2)+S//2", "==", "S", DIM_PROVED},
    {"", "(S+2)//3+(S+1)//3+S//3", "==", "S", DIM_PROVED},
    {"", "max(a,b)+min(a,b)", "==", "a+b", DIM_PROVED},
    {"", "(N//4)//8", "==", "N//32", DIM_PROVED},
    {"", "(H//2)//2", "==", "H//4", DIM_PROVED},
    {"Hq%Hkv", "Hkv*(Hq//Hkv)", "==", "Hq", DIM_PROVED},
    {"H%P W%P", "(H//P)*(W//P)*P*P*C", "==", "H*W*C", DIM_PROVED},
    {"", "2*(D//2)", "==", "D", DIM_DIFFERS},
    {"D%2", "2*(D//2)", "==", "D", DIM_PROVED},
    {"", "S", "==", "K", DIM_DIFFERS},
    {"", "S", "==", "S+1", DIM_REFUTED},
    {"", "B*S", "==", "B*S+B", DIM_REFUTED},
    {"", "a*b*c", "==", "c*b*a", DIM_PROVED},
    {"", "(a+b)*(a+b)", "==", "a*a+2*a*b+b*b", DIM_PROVED},
    {"", "(a*b+a*c)//(b+c)", "==", "a", DIM_PROVED},
    {"", "b", ">=", "b%3", DIM_PROVED},
    {"a>=b+8", "a", ">=", "9", DIM_PROVED},
    {"", "cdiv(N,128)*128", ">=", "N", DIM_PROVED},
    {"", "N+127", ">=", "cdiv(N,128)*128", DIM_PROVED},
    {"", "cdiv(N,T)*T", ">=", "N", DIM_PROVED},
    {"D%8 D%12", "D%24", "==", "0", DIM_PROVED},
    {"D=H*Dh", "B*D", "==", "B*H*Dh", DIM_PROVED},
    {"D=H*Dh", "D//H", "==", "Dh", DIM_PROVED},
    {"a*b=c+d", "a*b*b", "==", "b*c+b*d", DIM_PROVED},
    {"H%2", "((H+2-3-1)//2)*2-2+3+1", "==", "H", DIM_PROVED},
    {"S%w", "(S//w)*w", "==", "S", DIM_PROVED},
    {"H%(2*w)", "(H//w)%2", "==", "0", DIM_PROVED},
    {"2*S=2*K", "S", "==", "K", DIM_PROVED},
    {"", "2*S", "==", "2*K+1", DIM_REFUTED},
    {"", "min(S,8)", ">=", "9", DIM_REFUTED},
    {"", "S+K", ">=", "S", DIM_PROVED},
    {"", "S", ">=", "K", DIM_DIFFERS},
    {"D%8", "D", ">=", "8", DIM_PROVED},
};

static bool assume(const char *fact)
{
    char text[64], *mid;
    size_t n;

    snprintf(text, sizeof text, "%s", fact);
    if ((mid = strstr(text, ">="))) {
        *mid = 0;
        return dim_assume_ge(parse(text), parse(mid + 2));
    }
    mid = text + (n = strcspn(text, "%="));
    bool divides = *mid == '%';
    *mid = 0;
    return divides ? dim_assume_divides(parse(mid + 1), parse(text)) : dim_assume_eq(parse(text), parse(mid + 1));
}

static void assume_all(const char *facts)
{
    char text[128];

    snprintf(text, sizeof text, "%s", facts);
    for (char *f = strtok(text, " "); f; f = strtok(NULL, " "))
        assert_true(assume(f));
}

static void facts_are_decided(void **state)
{
    static const char *const word[] = {"PROVED", "REFUTED", "DIFFERS", "UNKNOWN"};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const Fact *f = &table[i];
        DimWitness w[8];
        int nw;
        dim_push();
        assume_all(f->facts);
        Dim a = parse(f->left), b = parse(f->right);
        DimAnswer got = *f->op == '=' ? dim_eq(a, b, w, &nw) : dim_ge(a, b, w, &nw);
        dim_pop();
        if (got != f->want)
            fail_msg("[%s] %s %s %s: wanted %s, got %s", f->facts, f->left, f->op, f->right, word[f->want], word[got]);
        if (got == DIM_DIFFERS)
            assert_true(nw > 0);
    }
    forget();
}

/* Stride-2 convolutions down and x2 up give the sizes of the skips back, when the size divides. */
static DimAnswer unet(int modulus)
{
    Dim level[4], h = var("Hh");
    DimAnswer worst = DIM_PROVED;

    dim_push();
    assert_true(dim_assume_divides(modulus, h));
    for (int i = 0; i < 4; i++) {
        level[i] = h;
        h = dim_add(dim_floordiv(dim_sub(h, 1), 2), 1);
    }
    for (int i = 3; i >= 0; i--) {
        h = dim_mul(h, 2);
        DimAnswer r = dim_eq(h, level[i], NULL, NULL);
        worst = r != DIM_PROVED ? r : worst;
    }
    dim_pop();
    return worst;
}

static void unet_skips_fit(void **state)
{
    assert_int_equal(unet(16), DIM_PROVED);
    assert_int_equal(unet(8), DIM_DIFFERS);
    forget();
}

static void facts_end_with_their_scope(void **state)
{
    Dim d = var("D"), h = var("H");

    dim_push();
    assert_true(dim_assume_divides(h, d));
    assert_int_equal(dim_divides(h, d), DIM_PROVED);
    dim_pop();
    assert_int_equal(dim_divides(h, d), DIM_UNKNOWN);
    dim_push();
    assert_true(dim_assume_eq(d, 12));
    assert_false(dim_assume_eq(d, 13));
    assert_int_equal(dim_eq(dim_mul(d, 2), 24, NULL, NULL), DIM_PROVED);
    dim_pop();
    assert_false(dim_assume_eq(dim_add(dim_mul(d, 2), 1), 8));
    assert_false(dim_assume_ge(0, d));
    forget();
}

static void check_text(const char *in, const char *want)
{
    StrBuf b = {0};

    dim_print(parse(in), &b);
    assert_string_equal(sb_str(&b), want);
    assert_true(parse(sb_str(&b)) == parse(in));
    sb_done(&b);
}

static void text_is_canonical(void **state)
{
    check_text("T + S", "S+T");
    check_text("D*4 + 1", "4*D+1");
    check_text("1 + D + S*B", "B*S+D+1");
    check_text("D // 8", "D//8");
    check_text("(S+1)//2", "(S+1)//2");
    check_text("2*(S//2)", "2*(S//2)");
    check_text("S - B", "S-B");
    check_text("min(S, 8)*B", "B*min(S, 8)");
    check_text("1M", "1048576");
    check_text("H*(D//H)", "H*(D//H)");
    check_text("N - 1", "N-1");
    check_text("(B*S)//H", "B*S//H");
    check_text("(B*S*H + B*D)//(4*B)", "(H*S+D)//4");
    check_text("(B*B*S + B*D)//(B*B*H)", "(B*S+D)//(B*H)");
    forget();
}

static void solved_parts_print_as_written(void **state)
{
    StrBuf b = {0};

    dim_push();
    assert_true(dim_assume_divides(8, var("D")));
    dim_print(dim_floordiv(var("D"), 8), &b);
    assert_string_equal(sb_str(&b), "D//8");
    dim_pop();
    sb_done(&b);
    forget();
}

static void overflow_is_impossible_not_wrapped(void **state)
{
    assert_true(dim_mul(INT64_MAX / 2, 3) == DIM_BAD);
    assert_true(dim_add(DIM_BAD, 1) == DIM_BAD);
    assert_true(dim_floordiv(var("D"), 0) == DIM_BAD);
    forget();
}

/* ------------------------------------------------------------- random expressions */

typedef struct Expr { char op; int value; struct Expr *a, *b; } Expr;

static Expr nodes[256];
static int nnodes;
static uint64_t seed = 7;

static int rnd(int n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)((seed >> 11) % (uint64_t)n);
}

static Expr *node(char op, int value, Expr *a, Expr *b)
{
    nodes[nnodes] = (Expr){op, value, a, b};
    return &nodes[nnodes++];
}

static Expr *leaf(void)
{
    return rnd(10) < 7 ? node('v', rnd(3), NULL, NULL) : node('c', 1 + rnd(6), NULL, NULL);
}

static Expr *generate(int depth)
{
    static const char ops[] = {'+', '+', '*', '-', '/', '%', 'm', 'M', 'V', 'u'};
    static const int divisors[] = {2, 3, 4, 6, 8};
    char op = ops[rnd(10)];
    Expr *a;

    if (!depth || rnd(5) == 0)
        return leaf();
    a = generate(depth - 1);
    if (op == '/' || op == '%' || op == 'u')
        return node(op, 0, a, node('c', divisors[rnd(5)], NULL, NULL));
    if (op == 'V')
        return node('/', 0, a, node('v', rnd(3), NULL, NULL));
    return node(op, 0, a, generate(depth - 1));
}

static int64_t floordiv(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t value_of(const Expr *e, const int64_t *v)
{
    int64_t a, b;

    if (e->op == 'v')
        return v[e->value];
    if (e->op == 'c')
        return e->value;
    a = value_of(e->a, v);
    b = value_of(e->b, v);
    switch (e->op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return floordiv(a, b);
    case '%': return a - b * floordiv(a, b);
    case 'u': return -floordiv(-a, b);
    case 'm': return a < b ? a : b;
    default: return a > b ? a : b;
    }
}

static Dim dim_of(const Expr *e)
{
    Dim a, b;

    if (e->op == 'v')
        return vars[e->value];
    if (e->op == 'c')
        return e->value;
    a = dim_of(e->a);
    b = dim_of(e->b);
    switch (e->op) {
    case '+': return dim_add(a, b);
    case '-': return dim_sub(a, b);
    case '*': return dim_mul(a, b);
    case '/': return dim_floordiv(a, b);
    case '%': return dim_mod(a, b);
    case 'u': return dim_cdiv(a, b);
    case 'm': return dim_min(a, b);
    default: return dim_max(a, b);
    }
}

#ifdef __SANITIZE_ADDRESS__
enum { PROGRAMS = 10000 };      /* the sanitized build is slow; the plain one runs them all */
#else
enum { PROGRAMS = 100000 };
#endif

enum { FREE, DIVIDES, DIVIDES_VAR, AT_LEAST, MODES };

static void assume_mode(int mode, int k)
{
    if (mode == DIVIDES)
        dim_assume_divides(k, vars[0]);
    if (mode == DIVIDES_VAR)
        dim_assume_divides(vars[1], vars[0]);
    if (mode == AT_LEAST)
        dim_assume_ge(vars[0], dim_add(vars[1], k));
}

static void sample(int mode, int k, int64_t *v)
{
    for (int i = 0; i < 3; i++)
        v[i] = 1 + rnd(30);
    if (mode == DIVIDES)
        v[0] *= k;
    if (mode == DIVIDES_VAR)
        v[0] *= v[1];
    if (mode == AT_LEAST)
        v[0] = v[1] + k + rnd(10);
}

static void unsound(const char *what, Dim p, Dim q, const int64_t *v, int mode, int k)
{
    StrBuf b = {0};

    dim_print(p, &b);
    sb_puts(&b, "  with  ");
    dim_print(q, &b);
    fail_msg("%s: %s at a=%" PRId64 " b=%" PRId64 " c=%" PRId64 " mode %d k %d", what, sb_str(&b), v[0], v[1], v[2], mode, k);
}

static void check_point(const Expr *t, const Expr *u, Dim p, Dim q, DimAnswer eq, DimAnswer ge, int mode, int k)
{
    int64_t v[3], x, y, z;

    sample(mode, k, v);
    x = value_of(t, v);
    y = value_of(u, v);
    if (dim_eval(p, vars, v, 3, &z) && z != x)
        unsound("normal form", p, q, v, mode, k);
    if ((eq == DIM_PROVED && x != y) || (eq == DIM_REFUTED && x == y))
        unsound(eq == DIM_PROVED ? "proved ==" : "refuted ==", p, q, v, mode, k);
    if ((ge == DIM_PROVED && x < y) || (ge == DIM_REFUTED && x >= y))
        unsound(ge == DIM_PROVED ? "proved >=" : "refuted >=", p, q, v, mode, k);
}

/* A witness is a true counterexample. */
static void check_witness(const Expr *t, const Expr *u, const DimWitness *w, int nw, Dim p, Dim q, int mode, int k)
{
    int64_t v[3] = {1, 1, 1};

    for (int i = 0; i < nw; i++)
        for (int n = 0; n < 3; n++)
            if (names[n] == w[i].name)
                v[n] = w[i].value;
    if (nw == 3 && value_of(t, v) == value_of(u, v))
        unsound("witness", p, q, v, mode, k);
}

static DimAnswer one_program(void)
{
    static const int ks[] = {2, 3, 4, 8};
    int mode = rnd(MODES), k = ks[rnd(4)], nw;
    DimWitness w[8];
    Expr *t, *u;
    Dim p, q;
    DimAnswer eq, ge;

    nnodes = 0;
    dim_push();
    assume_mode(mode, k);
    t = generate(3);
    u = rnd(2) ? generate(3) : rnd(10) < 3 ? node('+', 0, t, node('-', 0, generate(2), generate(2))) : t;
    p = dim_of(t);
    q = dim_of(u);
    if (p == DIM_BAD || q == DIM_BAD) {
        dim_pop();
        return DIM_PROVED;
    }
    eq = dim_eq(p, q, w, &nw);
    if (eq == DIM_DIFFERS)
        check_witness(t, u, w, nw, p, q, mode, k);
    ge = dim_ge(p, q, NULL, NULL);
    for (int i = 0; i < 20; i++)
        check_point(t, u, p, q, eq, ge, mode, k);
    dim_pop();
    return eq;
}

static void random_programs_are_sound(void **state)
{
    const char *wanted = getenv("DIM_FUZZ");
    int n = wanted ? atoi(wanted) : PROGRAMS, answers[4] = {0};

    for (int i = 0; i < n; i++) {
        if (i % 2000 == 0) {
            forget();
            var("a");
            var("b");
            var("c");
        }
        answers[one_program()]++;
    }
    forget();
    print_message("%d programs: %d proved, %d refuted, %d differ, %d unknown\n", n, answers[0], answers[1], answers[2],
                  answers[3]);
    assert_true(answers[DIM_UNKNOWN] * 25 <= n);
}

/* The variables of that name among others, which were made in another order. */
static Dim other_variable(void *st, Sym name)
{
    Dim *other = st;

    for (int i = 0; i < 3; i++)
        if (names[i] == name)
            return other[i];
    return DIM_BAD;
}

/* What was printed reads back, over other variables of these names, as something that prints the same. */
static void text_reads_back(void **state)
{
    for (int i = 0; i < PROGRAMS / 10; i++) {
        StrBuf a = {0}, b = {0};
        Dim other[3], d, back;
        if (i % 500 == 0) {
            forget();
            var("a");
            var("b");
            var("c");
        }
        for (int k = 3; k-- > 0;)
            other[k] = dim_var(names[k], 1, INT64_MAX);
        nnodes = 0;
        d = dim_of(generate(4));
        if (d == DIM_BAD)
            continue;
        dim_print(d, &a);
        assert_true(dim_parse(sb_str(&a), other_variable, other, &back));
        dim_print(back, &b);
        assert_string_equal(sb_str(&a), sb_str(&b));
        sb_done(&a);
        sb_done(&b);
    }
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_decided),
        cmocka_unit_test(unet_skips_fit),
        cmocka_unit_test(facts_end_with_their_scope),
        cmocka_unit_test(text_is_canonical),
        cmocka_unit_test(solved_parts_print_as_written),
        cmocka_unit_test(overflow_is_impossible_not_wrapped),
        cmocka_unit_test(random_programs_are_sound),
        cmocka_unit_test(text_reads_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
