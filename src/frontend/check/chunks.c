/* Splitting is by where the trees begin; an edit replaces a run of chunks by those of its own text. */
#include "frontend/check/chunks.h"

#include "base/vec.h"

#include <string.h>

/* ------------------------------------------------------------- words */

static bool is_start(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

static bool is_inside(unsigned char c)
{
    return is_start(c) || (c >= '0' && c <= '9');
}

/* Strings and comments too: a name in an annotation's text counts, and one too many does no harm. */
static void read_words(Chunks *c, Chunk *k, const char *s, const char *end)
{
    Vec(Sym) words = {0};
    Map seen = {0};

    while (s < end) {
        const char *from = s;
        if (!is_inside((unsigned char)*s)) {
            s++;
            continue;
        }
        while (s < end && is_inside((unsigned char)*s))
            c->odd |= (unsigned char)*s++ >= 0x80;
        Sym word = is_start((unsigned char)*from) ? sym_n(from, (size_t)(s - from)) : NULL;
        if (!word || map_find(&seen, (uintptr_t)word, NULL))
            continue;
        map_set(&seen, (uintptr_t)word, 1);
        vec_push(&words, word);
    }
    map_done(&seen);
    k->word = words.at;
    k->nword = words.n;
}

/* ------------------------------------------------------------- making and ending */

static void part_drop(Part *p)
{
    if (--p->live)
        return;
    unit_free(p->u);
    tsr_free(p);
}

static void chunk_done(Chunk *k)
{
    part_drop(k->part);
    tsr_free(k->word);
    diag_sink_done(&k->found);
}

static void forget_all(Chunks *c)
{
    for (int i = 0; i < c->all.n; i++)
        chunk_done(&c->all.at[i]);
    vec_free(&c->all);
    diag_sink_done(&c->syntax);
    c->syntax = (DiagSink){0};
}

void chunks_done(Chunks *c)
{
    forget_all(c);
    map_done(&c->gone);
    source_drop(c->src);
    *c = (Chunks){0};
}

/* ------------------------------------------------------------- splitting */

static AstSeq decorators_of(const Ast *s)
{
    return s->kind == AST_FunctionDef ? AST_AS(s, FunctionDef)->decorators :
           s->kind == AST_ClassDef ? AST_AS(s, ClassDef)->decorators : (AstSeq){0};
}

/* Where the line of a statement begins, in the whole text. */
static uint32_t line_start(const Source *src, const Ast *s)
{
    AstSeq d = decorators_of(s);
    uint32_t at = (d.n ? d.at[0]->span.lo : s->span.lo) - src->base;

    while (at && src->text[at - 1] != '\n')
        at--;
    return at;
}

static bool only_imports(const Chunk *k)
{
    for (int i = 0; i < k->n; i++)
        if (k->stmt[i]->kind != AST_Import && !(k->stmt[i]->kind == AST_ImportFrom && !AST_AS(k->stmt[i], ImportFrom)->star))
            return false;
    return true;
}

/* The chunks of a unit whose text is [from, to) of the source. */
static void split(Chunks *c, Unit *u, uint32_t from, uint32_t to, ChunkVec *out)
{
    AstSeq body = u->module->body;
    Part *p;

    if (!body.n) {
        unit_free(u);
        return;
    }
    p = tsr_calloc(sizeof *p);
    p->u = u;
    for (int i = 0; i < body.n; i++) {
        uint32_t at = out->n ? line_start(c->src, body.at[i]) : from;
        if (out->n && (at <= vec_last(out).at || line_start(c->src, body.at[i - 1]) == at)) {
            vec_last(out).n++;
            continue;
        }
        vec_push(out, ((Chunk){.at = at, .part = p, .stmt = &body.at[i], .n = 1, .fresh = true}));
        p->live++;
    }
    for (int i = 0; i < out->n; i++) {
        Chunk *k = &out->at[i];
        k->imports = only_imports(k);
        read_words(c, k, c->src->text + k->at, c->src->text + (i + 1 < out->n ? out->at[i + 1].at : to));
    }
}

static void read_all(Chunks *c)
{
    ChunkVec made = {0};

    forget_all(c);
    c->whole = true;
    c->odd = false;
    split(c, unit_parse(c->src, &c->syntax), 0, c->src->len, &made);
    c->all = made;
}

bool chunks_read(Chunks *c, const char *path, const char *text, size_t len)
{
    *c = (Chunks){.src = utf8_check(text, len) == len ? source_add(path, text, len) : NULL};
    if (!c->src)
        return false;
    read_all(c);
    return true;
}

int chunk_at(const Chunks *c, uint32_t pos)
{
    int lo = 0, hi = c->all.n - 1;

    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (c->all.at[mid].at <= pos - c->src->base)
            lo = mid;
        else
            hi = mid - 1;
    }
    return hi;
}

/* ------------------------------------------------------------- places move */

/* From the old source to the new: what lay behind the edit lies `by` further on. */
typedef struct { const Source *old; uint32_t base, behind; int64_t by; } Move;

static uint32_t moved(const Move *m, uint32_t pos)
{
    uint32_t at = pos - m->old->base;

    if (pos < m->old->base || at > m->old->len)
        return pos;
    return (uint32_t)(m->base + at + (at >= m->behind ? m->by : 0));
}

static void move_span(const Move *m, Span *s)
{
    if (s->hi)
        *s = (Span){moved(m, s->lo), moved(m, s->hi)};
}

static bool move_tree(Ast *n, void *state)
{
    if (!n)
        return true;
    move_span(state, &n->span);
    return ast_walk(n, move_tree, state);
}

static void move_found(const Move *m, DiagSink *found)
{
    for (int i = 0; i < found->all.n; i++) {
        Diag *d = found->all.at[i];
        move_span(m, &d->span);
        move_span(m, &d->fix_span);
        for (int k = 0; k < d->labels.n; k++)
            move_span(m, &d->labels.at[k].span);
    }
}

/* ------------------------------------------------------------- edits */

/* The text [from, to) of the new source as a unit of its own; NULL: it is not in order by itself. */
static Unit *parse_alone(const Chunks *c, uint32_t from, uint32_t to)
{
    const char *text = c->src->text;
    uint32_t end = to;
    DiagSink sink = {0};
    Unit *u;

    while (end > from && strchr(" \t\r\n", text[end - 1]))
        end--;
    if (end > from && text[end - 1] == '\\')
        return NULL;                                /* its last line would go on in the next chunk */
    u = unit_parse_range(c->src, from, to, &sink);
    if (sink.all.n || u->broken) {
        unit_free(u);
        u = NULL;
    }
    diag_sink_done(&sink);
    return u;
}

static void note_gone(Chunks *c, const Chunk *k)
{
    for (int i = 0; i < k->nword; i++)
        map_set(&c->gone, (uintptr_t)k->word[i], 1);
}

/* Chunks [a, b] become those of u. */
static void replace_run(Chunks *c, int a, int b, Unit *u, uint32_t from, uint32_t to, const Move *m)
{
    ChunkVec made = {0}, all = {0};

    split(c, u, from, to, &made);
    for (int i = 0; i < a; i++)
        vec_push(&all, c->all.at[i]);
    for (int i = 0; i < made.n; i++)
        vec_push(&all, made.at[i]);
    for (int i = a; i <= b; i++) {
        note_gone(c, &c->all.at[i]);
        chunk_done(&c->all.at[i]);
    }
    for (int i = b + 1; i < c->all.n; i++) {
        vec_push(&all, c->all.at[i]);
        vec_last(&all).at = (uint32_t)(vec_last(&all).at + m->by);
    }
    for (int i = 0; i < all.n; i++) {
        Chunk *k = &all.at[i];
        if (i >= a && i < a + made.n)
            continue;
        for (int j = 0; j < k->n; j++)
            move_tree(k->stmt[j], (void *)m);
        move_found(m, &k->found);
    }
    vec_free(&made);
    vec_free(&c->all);
    c->all = all;
    if (c->all.n)
        c->all.at[0].at = 0;
}

/* Parse again what the edit touched; false: the whole text must be. */
static bool edit_run(Chunks *c, const Move *m, uint32_t lo, uint32_t hi)
{
    int a, b;
    uint32_t from, to;
    Unit *u;

    if (c->syntax.all.n || !c->all.n)
        return false;
    a = chunk_at(c, lo + c->src->base);
    b = chunk_at(c, hi + c->src->base);
    if (a && c->all.at[a].at == lo)
        a--;                                        /* what begins here may now belong to the chunk before */
    from = c->all.at[a].at;
    to = b + 1 < c->all.n ? (uint32_t)(c->all.at[b + 1].at + m->by) : c->src->len;
    if (to > from && b + 1 < c->all.n && c->src->text[to - 1] != '\n')
        return false;
    u = parse_alone(c, from, to);
    if (!u)
        return false;
    if (!u->module->body.n && a == 0 && b + 1 == c->all.n) {
        unit_free(u);
        return false;
    }
    replace_run(c, a, b, u, from, to, m);
    return true;
}

bool chunks_edit(Chunks *c, uint32_t lo, uint32_t hi, const char *text, size_t len)
{
    const Source *old = c->src, *now;
    StrBuf all = {0};
    Move m;

    if (lo > hi || hi > old->len)
        return false;
    sb_write(&all, old->text, lo);
    sb_write(&all, text, len);
    sb_write(&all, old->text + hi, old->len - hi);
    now = utf8_check(sb_str(&all), all.n) == all.n ? source_add(old->path, sb_str(&all), all.n) : NULL;
    sb_done(&all);
    if (!now)
        return false;
    c->src = now;
    m = (Move){old, now->base, hi, (int64_t)now->len - old->len};
    if (!edit_run(c, &m, lo, hi))
        read_all(c);
    source_drop(old);
    return true;
}
