/*
 * The format, as `fatbinary` of CUDA 13 writes it and cuobjdump reads it:
 *
 *     file     magic:4 version:2=1 header:2=16 size:8                         size: of all entries
 *     entry    kind:2 version:2=0x101 header:4 size:8 packed:4 options:4
 *              minor:2 major:2 sm:4 name:4 name_size:4 flags:8 0:8 0:8        flags: 0x11; 0x100000: for this chip alone
 *              ptx: offset of its options from there:4 size:4 0:8             header: 64 of a cubin, 80 of PTX
 */
#include "runtime/fatbin.h"

#include <string.h>

enum { MAGIC = (int)0xBA55ED50u, FILE_HEADER = 16, CUBIN_HEADER = 64, PTX_HEADER = 80, FLAGS = 0x11, OWN = 0x100000 };

typedef struct Head {
    uint16_t kind, version;
    uint32_t header;
    uint64_t size;
    uint32_t packed, options;
    uint16_t minor, major;
    uint32_t sm, name, name_size;
    uint64_t flags, zero[2];
} Head;
_Static_assert(sizeof(Head) == CUBIN_HEADER, "an entry's header");

bool fatbin_chip(const char *name, size_t n, int *sm, bool *own)
{
    size_t i = 3;

    *sm = 0;
    if (n < 4 || memcmp(name, "sm_", 3))
        return false;
    for (; i < n && i < 7 && name[i] >= '0' && name[i] <= '9'; i++)
        *sm = 10 * *sm + (name[i] - '0');
    *own = i < n && name[i] == 'a';
    return i > 3 && i + *own == n;
}

/* ---- writing ---- */

void fatbin_begin(StrBuf *out)
{
    const uint32_t magic = (uint32_t)MAGIC;
    const uint16_t rest[] = {1, FILE_HEADER};
    const uint64_t size = 0;

    sb_write(out, (const char *)&magic, sizeof magic);
    sb_write(out, (const char *)rest, sizeof rest);
    sb_write(out, (const char *)&size, sizeof size);
}

void fatbin_add(StrBuf *out, const FatbinEntry *e)
{
    bool ptx = e->kind == FATBIN_PTX;
    size_t size = (e->n + ptx + 7) / 8 * 8;
    Head h = {.kind = (uint16_t)e->kind, .version = 0x101, .header = ptx ? PTX_HEADER : CUBIN_HEADER, .size = size, .options = ptx ? CUBIN_HEADER : 0,
              .minor = ptx ? 4 : 8, .major = ptx ? 8 : 1, .sm = (uint32_t)e->sm, .flags = FLAGS | (e->own ? OWN : 0)};
    const uint32_t options[] = {CUBIN_HEADER + 8, 0, 0, 0};

    sb_write(out, (const char *)&h, sizeof h);
    if (ptx)
        sb_write(out, (const char *)options, sizeof options);
    sb_write(out, e->image, e->n);
    sb_pad(out, 0, size - e->n);
}

void fatbin_end(StrBuf *out)
{
    uint64_t size = out->n - FILE_HEADER;

    memcpy(out->s + 8, &size, sizeof size);
}

/* ---- reading ---- */

/* The entry's header at `at`; false: there is none, or it does not fit. */
static bool head_at(const char *s, size_t n, size_t at, Head *h)
{
    if (at > n || n - at < sizeof *h)
        return false;
    memcpy(h, s + at, sizeof *h);
    return h->header >= sizeof *h && h->header <= n - at && h->size <= n - at - h->header && h->size % 8 == 0;
}

bool fatbin_check(const char *s, size_t n)
{
    uint32_t magic;
    uint16_t rest[2];
    uint64_t size;
    size_t at = FILE_HEADER;
    Head h;

    if (n < FILE_HEADER)
        return false;
    memcpy(&magic, s, sizeof magic);
    memcpy(rest, s + 4, sizeof rest);
    memcpy(&size, s + 8, sizeof size);
    if (magic != (uint32_t)MAGIC || rest[0] != 1 || rest[1] != FILE_HEADER || size != n - FILE_HEADER)
        return false;
    for (; at < n; at += h.header + h.size)
        if (!head_at(s, n, at, &h))
            return false;
    return true;
}

static void take(const Head *h, const char *image, FatbinEntry *out)
{
    *out = (FatbinEntry){(FatbinKind)h->kind, (int)(h->sm & 0xffff), (h->flags & OWN) != 0, image, h->size};
    if (out->kind == FATBIN_PTX)
        out->n = strnlen(image, h->size);
}

bool fatbin_entry(const char *s, size_t n, int i, FatbinEntry *out)
{
    Head h;

    for (size_t at = FILE_HEADER; head_at(s, n, at, &h); at += h.header + h.size)
        if ((h.kind == FATBIN_PTX || h.kind == FATBIN_CUBIN) && !h.packed && !i--)
            return take(&h, s + at + h.header, out), true;
    return false;
}
