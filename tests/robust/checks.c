/*
 * checks.c - many texts through the checker of one process.
 *
 *     checks order FILE...                 what is said of a text does not depend on the texts before it
 *     checks splice SEED COUNT OUT FILE... programs spliced from the tokens of the files, each within its budget
 *     checks show SEED NUMBER FILE...      one of those programs
 *
 * A spliced program is a piece of one file with runs of tokens of others put
 * in, taken out and moved; it follows from SEED, its number and the files
 * alone.  Children judge a batch each, so that one that dies names its
 * program.  A program that crashes the checker or takes longer than 50 ms and
 * 10 us a token is a finding, written to OUT-NUMBER.tsr.
 */
#include "judge.h"

#include "base/alloc.h"
#include "base/source.h"
#include "base/vec.h"
#include "base/vfs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct Text { char *s; size_t n; } Text;
typedef Vec(Text) Texts;

static Texts read_all(int n, char **paths)
{
    Texts all = {0};

    for (int i = 0; i < n; i++) {
        Text t;
        if (!vfs_read_file(paths[i], 1 << 20, &t.s, &t.n) && utf8_check(t.s, t.n) == t.n && t.n)
            vec_push(&all, t);
    }
    if (!all.n) {
        fputs("checks: no texts\n", stderr);
        exit(2);
    }
    return all;
}

/* ------------------------------------------------------------- order */

/* What is said of a text by a process that has judged nothing else. */
static char *said_alone(Text t)
{
    enum { ROOM = 4 << 20 };
    char *shared = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *copy;
    int status = -1;
    pid_t pid = fork();

    if (!pid) {
        Judged j = {0};
        judge(t.s, t.n, true, &j);
        snprintf(shared, ROOM, "%s", sb_str(&j.said));
        _exit(0);
    }
    waitpid(pid, &status, 0);
    copy = strdup(status ? "died" : shared);
    munmap(shared, ROOM);
    return copy;
}

static int compare(const char *path, const char *alone, Text t)
{
    Judged j = {0};
    int differs;

    judge(t.s, t.n, true, &j);
    differs = strcmp(alone, sb_str(&j.said)) != 0;
    if (differs)
        printf("%s: alone\n%s\nafter others\n%s\n", path, alone, sb_str(&j.said));
    sb_done(&j.said);
    return differs;
}

/* Each text alone; then all in a row, forwards and backwards. */
static int order(int n, char **paths)
{
    Texts all = read_all(n, paths);
    char **alone = calloc((size_t)all.n, sizeof *alone);
    int bad = 0, before = 0;

    for (int i = 0; i < all.n; i++)
        alone[i] = said_alone(all.at[i]);
    for (int i = 0; i < all.n; i++, before++)
        bad += compare(paths[i], alone[i], all.at[i]);
    for (int i = all.n; i-- > 0; before++)
        bad += compare(paths[i], alone[i], all.at[i]);
    printf("%d texts, each judged alone and after up to %d others, %d differ\n", all.n, before - 1, bad);
    return bad != 0;
}

/* ------------------------------------------------------------- splicing */

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state += 0x9E3779B97F4A7C15u;                       /* splitmix64 */
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return n ? (uint32_t)((z ^ z >> 31) >> 16) % n : 0;
}

static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80); }

/* The token, run of blanks or line end at the start of s. */
static size_t token_length(const char *s, size_t n)
{
    size_t i = 1;

    if (*s == ' ')
        while (i < n && s[i] == ' ') i++;
    else if (is_word(*s))
        while (i < n && is_word(s[i])) i++;
    else if (*s == '"' || *s == '\'') {
        while (i < n && s[i] != *s && s[i] != '\n') i += 1 + (s[i] == '\\' && i + 1 < n);
        i += i < n && s[i] == *s;
    } else if (n > 1 && strchr("*/<>=!-&|@", *s) && (s[1] == '=' || s[1] == *s || s[1] == '>'))
        i = 2;
    return i < n ? i : n;
}

/* Where the token that holds byte `at` of its line begins. */
static size_t token_at(Text t, size_t at)
{
    size_t lo = at;

    while (lo > 0 && t.s[lo - 1] != '\n')
        lo--;
    for (size_t next; lo < at && (next = lo + token_length(t.s + lo, t.n - lo)) <= at;)
        lo = next;
    return lo;
}

/* Up to `most` tokens from a random place, within a line. */
static Text run_of(const Texts *all, uint32_t most)
{
    Text t = all->at[below((uint32_t)all->n)];
    size_t from = token_at(t, below((uint32_t)t.n)), to = from;

    for (uint32_t k = 1 + below(most); k && to < t.n && t.s[to] != '\n'; k--)
        to += token_length(t.s + to, t.n - to);
    return (Text){t.s + from, to - from};
}

static size_t line_start(Text t, size_t at)
{
    while (at > 0 && !(t.s[at - 1] == '\n' && t.s[at] != ' ' && t.s[at] != '\n'))
        at--;
    return at;
}

/* A whole text, or some statements of it. */
static void put_piece(const Texts *all, StrBuf *out)
{
    enum { WHOLE = 3000 };
    Text t = all->at[below((uint32_t)all->n)];
    size_t from = 0, to = t.n;

    if (t.n > WHOLE || !below(3)) {
        from = line_start(t, below((uint32_t)t.n));
        to = from + 200 + below(WHOLE);
        to = to < t.n ? line_start(t, to) : t.n;
    }
    if (to > from)
        sb_write(out, t.s + from, to - from);
    if (out->n && out->s[out->n - 1] != '\n')
        sb_putc(out, '\n');
}

/* One change: tokens of another text in place of some here, or beside them, or some of its own gone, doubled or moved. */
static void change(const Texts *all, StrBuf *text, StrBuf *copy)
{
    Text own = {text->s, text->n};
    size_t at = token_at(own, below((uint32_t)own.n)), gone = token_length(own.s + at, own.n - at);
    Texts self = {&own, 1, 1};
    Text in = run_of(below(4) ? all : &self, below(4) ? 1 : 8);

    switch (below(6)) {
    case 0: in.n = 0; break;
    case 1: gone = 0; break;
    default: break;
    }
    sb_clear(copy);
    sb_write(copy, own.s, at);
    if (!gone)
        sb_putc(copy, ' ');
    sb_write(copy, in.s, in.n);
    sb_write(copy, own.s + at + gone, own.n - at - gone);
    sb_clear(text);
    sb_write(text, sb_str(copy), copy->n);
}

static void splice(const Texts *all, uint64_t seed, uint64_t number, StrBuf *out)
{
    StrBuf copy = {0};

    state = seed * 0xD1342543DE82EF95u ^ number * 0xA0761D6478BD642Fu;
    sb_clear(out);
    for (uint32_t k = 1 + (below(3) == 0) * below(3); k; k--)
        put_piece(all, out);
    for (uint32_t k = 1 + below(below(3) ? 4 : 16); k && out->n; k--)
        change(all, out, &copy);
    sb_done(&copy);
}

/* ------------------------------------------------------------- judging them */

typedef struct Progress { volatile uint64_t at, slowest, ns, tokens, checked, parsed, over; } Progress;

/* The least of three times: what else runs here is no finding. */
static bool within_budget(const char *text, size_t n, Judged *j)
{
    for (int i = 0; i < 3; i++) {
        Judged again = {0};
        if (!judge(text, n, false, &again))
            return true;
        sb_done(&again.said);
        if (!i || again.ns < j->ns)
            *j = again;
        if (j->ns <= judge_budget(j->tokens))
            return true;
    }
    return false;
}

static void keep(const char *out, uint64_t number, const StrBuf *text)
{
    StrBuf path = {0};
    FILE *f;

    sb_printf(&path, "%s-%llu.tsr", out, (unsigned long long)number);
    if ((f = fopen(sb_str(&path), "w"))) {
        fwrite(text->s, 1, text->n, f);
        fclose(f);
    }
    sb_done(&path);
}

static void batch(const Texts *all, uint64_t seed, uint64_t to, const char *out, Progress *p)
{
    StrBuf text = {0};

    for (; p->at < to; p->at++) {
        Judged j = {0};
        alarm(60);
        splice(all, seed, p->at, &text);
        if (utf8_check(sb_str(&text), text.n) < text.n)
            continue;
        if (!within_budget(sb_str(&text), text.n, &j)) {
            printf("program %llu: %d tokens took %.1f ms\n", (unsigned long long)p->at, j.tokens, (double)j.ns / 1e6);
            fflush(stdout);
            keep(out, p->at, &text);
            p->over++;
        }
        if (j.ns > p->ns) {
            p->ns = j.ns;
            p->slowest = p->at;
        }
        p->tokens += (uint64_t)j.tokens;
        p->checked++;
        p->parsed += j.parsed;
    }
    fflush(stdout);
    _exit(0);
}

static int judge_spliced(uint64_t seed, uint64_t count, const char *out, int n, char **paths)
{
    enum { BATCH = 2000 };
    struct rlimit no_core = {0, 0};
    Texts all = read_all(n, paths);
    Progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int died = 0;

    setrlimit(RLIMIT_CORE, &no_core);
    while (p->at < count && died + (int)p->over < 20) {
        int status = 0;
        uint64_t to = p->at + BATCH < count ? p->at + BATCH : count;
        pid_t pid = fork();
        if (!pid)
            batch(&all, seed, to, out, p);
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
            return 2;
        if (status) {
            StrBuf text = {0};
            printf("program %llu: killed by signal %d\n", (unsigned long long)p->at, WTERMSIG(status));
            splice(&all, seed, p->at, &text);
            keep(out, p->at++, &text);
            sb_done(&text);
            died++;
        }
    }
    printf("seed %llu: %llu programs, %llu of them parsed, %llu tokens, %d died, %llu over their budget; the slowest is %llu with %.1f ms\n",
           (unsigned long long)seed, (unsigned long long)p->checked, (unsigned long long)p->parsed,
           (unsigned long long)p->tokens, died, (unsigned long long)p->over,
           (unsigned long long)p->slowest, (double)p->ns / 1e6);
    return died || p->over;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "order"))
        return order(argc - 2, argv + 2);
    if (argc > 5 && !strcmp(argv[1], "splice"))
        return judge_spliced(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), argv[4], argc - 5, argv + 5);
    if (argc > 4 && !strcmp(argv[1], "show")) {
        Texts all = read_all(argc - 4, argv + 4);
        StrBuf text = {0};
        splice(&all, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), &text);
        fwrite(sb_str(&text), 1, text.n, stdout);
        return 0;
    }
    return 2;
}
