/*
 * bundle.c - any files, opened as a bundle, whose code is loaded and not run.
 *
 * An input is files one after another, each behind a line "@@ path".  They are opened as they are, and once more
 * with a manifest that lists them with true sizes and hashes and is sealed, as chance never does; what is opened is asked for its code for
 * GPUs.  What is refused has a number and a reason.
 */
#include "targets.h"

#include "base/sha256.h"
#include "bundle/bundle.h"

#include <errno.h>

enum { FILES_MAX = 32, PATH_ROOM = 64 };

typedef struct File { char path[PATH_ROOM]; const char *text; size_t n; } File;
typedef struct Folder { File file[FILES_MAX]; int n; const StrBuf *manifest; } Folder;

/* Where the next line "@@ " begins, or the end. */
static const char *next_mark(const char *at, const char *end)
{
    for (const char *p = at; p + 3 <= end; p++)
        if (!memcmp(p, "@@ ", 3) && (p == at || p[-1] == '\n'))
            return p;
    return end;
}

static void split(const char *text, size_t n, Folder *out)
{
    const char *end = text + n, *at = next_mark(text, end);

    while (at < end && out->n < FILES_MAX) {
        File *f = &out->file[out->n++];
        const char *path = at + 3, *line = memchr(path, '\n', (size_t)(end - path));
        size_t size = line ? (size_t)(line - path) : 0;
        line = line ? line + 1 : end;
        size = size < PATH_ROOM ? size : PATH_ROOM - 1;
        memcpy(f->path, path, size);
        f->path[size] = 0;
        at = next_mark(line, end);
        f->text = line;
        f->n = (size_t)(at - line);
    }
}

static int read_section(void *st, const char *path, size_t max, StrBuf *out)
{
    const Folder *d = st;

    if (d->manifest && !strcmp(path, BUNDLE_MANIFEST)) {
        sb_write(out, d->manifest->s, d->manifest->n);
        return 0;
    }
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->file[i].path, path) && d->file[i].n <= max) {
            sb_write(out, d->file[i].text, d->file[i].n);
            return 0;
        }
    return ENOENT;
}

static void open_folder(Folder *d)
{
    BundleFiles files = {read_section, d};
    StrBuf err = {0};
    struct tsr_bundle *b;
    int bad = bundle_read(&files, &b, &err);

    if (bad ? b || !err.n : !b)
        tsr_bug("refused without a reason, or opened with one: %d", bad);
    for (int i = 0; b && i < 3; i++) {
        sb_clear(&err);
        if (bundle_read_far(b, &files, (const int[]){0, 80, 90}[i], &err) && !err.n)
            tsr_bug("kernels for GPUs are refused without a reason");
        bundle_leave_device(b);
    }
    bundle_free(b);
    sb_done(&err);
}

/* The input's manifest without its last brace, a list of the other files, and the seal. */
static void seal(const Folder *d, StrBuf *out)
{
    char hash[SHA256_TEXT];

    for (int i = 0; i < d->n && !out->n; i++)
        if (!strcmp(d->file[i].path, BUNDLE_MANIFEST))
            sb_write(out, d->file[i].text, d->file[i].n);
    while (out->n && strchr("} \n", out->s[out->n - 1]) && out->s[--out->n] != '}')
        ;
    sb_puts(out, out->n ? ", \"files\": [" : "{\"files\": [");
    for (int i = 0; i < d->n; i++) {
        sha256_text(d->file[i].text, d->file[i].n, hash);
        sb_puts(out, i ? ", {\"path\": " : "{\"path\": ");
        sb_put_json(out, d->file[i].path, strlen(d->file[i].path));
        sb_printf(out, ", \"bytes\": %zu, \"sha256\": \"%s\"}", d->file[i].n, hash);
    }
    sb_puts(out, "], ");
    bundle_seal(out);
}

void fuzz_bundle(const uint8_t *data, size_t n)
{
    Folder d = {.n = 0};
    StrBuf manifest = {0};

    split((const char *)data, n, &d);
    open_folder(&d);
    seal(&d, &manifest);
    d.manifest = &manifest;
    open_folder(&d);
    sb_done(&manifest);
}
