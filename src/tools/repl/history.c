/*
 * The file holds one entry a line, newlines and backslashes escaped; new
 * entries are appended, and a file grown past twice the limit is rewritten
 * when it is opened.  Without a writable folder the session simply forgets.
 */
#include "tools/repl/history.h"

#include "base/hash.h"
#include "base/map.h"
#include "base/source.h"
#include "base/strbuf.h"
#include "base/vfs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *copy(const char *s, size_t n)
{
    char *p = tsr_alloc(n + 1);

    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

/* Where the file belongs; NULL when there is no home, or the user wants none. */
static char *default_path(void)
{
    const char *own = getenv("TESSERA_HISTORY"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    StrBuf b = {0};

    if (own)
        return *own ? copy(own, strlen(own)) : NULL;
    if (state && *state == '/')
        sb_printf(&b, "%s/tessera/history", state);
    else if (home && *home)
        sb_printf(&b, "%s/.local/state/tessera/history", home);
    return b.s;
}

/* mkdir -p of the folder that holds path. */
static void make_folders(const char *path)
{
    char *p = copy(path, strlen(path));

    for (char *s = p + 1; *s; s++)
        if (*s == '/') {
            *s = 0;
            mkdir(p, 0700);
            *s = '/';
        }
    tsr_free(p);
}

static void escape(const char *text, StrBuf *out)
{
    for (; *text; text++) {
        if (*text == '\n')
            sb_puts(out, "\\n");
        else if (*text == '\\')
            sb_puts(out, "\\\\");
        else
            sb_putc(out, *text);
    }
    sb_putc(out, '\n');
}

static char *unescape(const char *s, size_t n)
{
    char *text = tsr_alloc(n + 1);
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        bool esc = s[i] == '\\' && i + 1 < n;
        i += esc;
        text[k++] = esc && s[i] == 'n' ? '\n' : s[i];
    }
    text[k] = 0;
    return text;
}

static void forget(History *h, int i)
{
    tsr_free(h->entry.at[i]);
    memmove(h->entry.at + i, h->entry.at + i + 1, (size_t)(h->entry.n - i - 1) * sizeof(char *));
    h->entry.n--;
}

/* Takes over text. */
static void remember(History *h, char *text)
{
    for (int i = h->entry.n; i-- > 0;)
        if (!strcmp(h->entry.at[i], text))
            forget(h, i);
    vec_push(&h->entry, text);
    if (h->entry.n > HISTORY_MAX)
        forget(h, 0);
}

static void rewrite(const History *h)
{
    StrBuf b = {0};

    for (int i = 0; i < h->entry.n; i++)
        escape(h->entry.at[i], &b);
    vfs_write_atomic(h->path, sb_str(&b), b.n);
    sb_done(&b);
}

/* The file's lines, newest first, into entry: each text once, at most HISTORY_MAX. */
static int collect(History *h, char *data, size_t n)
{
    Map seen = {0};
    int lines = 0;

    for (size_t end = n; end > 0; lines++) {
        size_t stop = end - (data[end - 1] == '\n'), at = stop;
        while (at > 0 && data[at - 1] != '\n')
            at--;
        uint64_t key = hash_bytes64(data + at, stop - at) | 1;
        if (stop > at && h->entry.n < HISTORY_MAX && !map_find(&seen, key, NULL) &&
            utf8_check(data + at, stop - at) == stop - at) {
            map_set(&seen, key, 1);
            vec_push(&h->entry, unescape(data + at, stop - at));
        }
        end = at;
    }
    map_done(&seen);
    return lines;
}

void history_open(History *h)
{
    char *data;
    size_t n;
    int lines;

    *h = (History){.path = default_path()};
    if (!h->path || vfs_read_file(h->path, 64 << 20, &data, &n))
        return;
    lines = collect(h, data, n);
    for (int i = 0, k = h->entry.n - 1; i < k; i++, k--) {
        char *t = h->entry.at[i];
        h->entry.at[i] = h->entry.at[k];
        h->entry.at[k] = t;
    }
    tsr_free(data);
    if (lines > 2 * HISTORY_MAX)
        rewrite(h);
}

void history_add(History *h, const char *text)
{
    StrBuf line = {0};
    size_t put;
    int fd;

    remember(h, copy(text, strlen(text)));
    if (!h->path)
        return;
    make_folders(h->path);
    escape(text, &line);
    if (!vfs_current()->open(h->path, O_WRONLY | O_CREAT | O_APPEND, 0600, &fd)) {
        vfs_current()->write(fd, line.s, line.n, &put);
        vfs_current()->close(fd);
    }
    sb_done(&line);
}

int history_search(const History *h, const char *needle, int from)
{
    for (int i = from < h->entry.n ? from : h->entry.n - 1; i >= 0; i--)
        if (strstr(h->entry.at[i], needle))
            return i;
    return -1;
}

void history_close(History *h)
{
    for (int i = 0; i < h->entry.n; i++)
        tsr_free(h->entry.at[i]);
    vec_free(&h->entry);
    tsr_free(h->path);
    h->path = NULL;
}
