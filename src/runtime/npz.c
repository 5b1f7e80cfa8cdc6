/*
 * Zip archives of npy files.
 *
 * The central directory at the end says where members are; what the members'
 * own headers repeat is only used to find their data.  All offsets and lengths
 * are checked against the file before they are followed.
 */
#include "runtime/npz.h"

#include "base/alloc.h"
#include "base/vec.h"

#include <string.h>
#include <zlib.h>

enum { LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50, END64 = 0x06064b50, LOCATOR64 = 0x07064b50 };
enum { LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22, END64_SIZE = 56, LOCATOR_SIZE = 20 };

typedef struct Zip {
    const uint8_t *p;
    size_t n;
    StrBuf *err;
    size_t unpacked;            /* so far, against bombs */
} Zip;

typedef struct Member {
    const char *name;
    size_t name_len;
    unsigned method, flags;
    uint32_t crc;
    uint64_t packed, size, offset;
} Member;

static bool fail(StrBuf *err, const char *why)
{
    sb_puts(err, why);
    return false;
}

static uint32_t u16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return u16(p) | u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

/* The last end record; a comment of up to 64 KiB may follow it. */
static bool find_end(const Zip *z, size_t *at)
{
    if (z->n < END_SIZE)
        return false;
    for (size_t i = z->n - END_SIZE;; i--) {
        if (u32(z->p + i) == END && i + END_SIZE + u16(z->p + i + 20) == z->n) {
            *at = i;
            return true;
        }
        if (i == 0 || z->n - i > END_SIZE + 65535)
            return false;
    }
}

/* Where the central directory is and how many members it has. */
static bool find_directory(const Zip *z, uint64_t *offset, uint64_t *count)
{
    size_t at;

    if (!find_end(z, &at))
        return fail(z->err, "npz: this is not a zip archive, or it is cut short");
    *count = u16(z->p + at + 10);
    *offset = u32(z->p + at + 16);
    if ((*count == 0xffff || *offset == 0xffffffff) && at >= LOCATOR_SIZE && u32(z->p + at - LOCATOR_SIZE) == LOCATOR64) {
        uint64_t e = u64(z->p + at - LOCATOR_SIZE + 8);
        if (z->n < END64_SIZE || e > z->n - END64_SIZE || u32(z->p + e) != END64)
            return fail(z->err, "npz: the zip64 end record is damaged");
        *count = u64(z->p + e + 32);
        *offset = u64(z->p + e + 48);
    }
    if (*count > NPZ_COUNT_MAX)
        return fail(z->err, "npz: more members than 65536");
    return true;
}

/* Sizes of 32 bits that are all ones stand in the zip64 extra field, in this order. */
static bool read_extra(Member *m, const uint8_t *p, size_t n)
{
    uint64_t *wide[] = {&m->size, &m->packed, &m->offset};

    while (n >= 4) {
        size_t len = u16(p + 2);
        if (len > n - 4)
            return false;
        for (size_t k = 0, at = 0; u16(p) == 1 && k < 3; k++)
            if (*wide[k] == 0xffffffff) {
                if (len - at < 8)
                    return false;
                *wide[k] = u64(p + 4 + at);
                at += 8;
            }
        p += 4 + len;
        n -= 4 + len;
    }
    return true;
}

/* The directory entry at *at, which moves past it. */
static bool read_entry(const Zip *z, uint64_t *at, Member *m)
{
    const uint8_t *p;
    size_t name, extra, comment;

    if (*at > z->n || z->n - *at < CENTRAL_SIZE || u32(z->p + *at) != CENTRAL)
        return false;
    p = z->p + *at;
    name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
    if (z->n - *at - CENTRAL_SIZE < name + extra + comment)
        return false;
    *m = (Member){(const char *)p + CENTRAL_SIZE, name, u16(p + 10), u16(p + 8), u32(p + 16), u32(p + 20), u32(p + 24), u32(p + 42)};
    *at += CENTRAL_SIZE + name + extra + comment;
    return read_extra(m, p + CENTRAL_SIZE + name, extra);
}

/* The packed bytes of a member. */
static const uint8_t *packed_bytes(const Zip *z, const Member *m)
{
    size_t skip;

    if (z->n < LOCAL_SIZE || m->offset > z->n - LOCAL_SIZE || u32(z->p + m->offset) != LOCAL)
        return NULL;
    skip = LOCAL_SIZE + u16(z->p + m->offset + 26) + u16(z->p + m->offset + 28);
    if (skip > z->n - m->offset || m->packed > z->n - m->offset - skip)
        return NULL;
    return z->p + m->offset + skip;
}

/* Inflate into exactly `size` bytes. */
static bool inflate_member(const uint8_t *src, size_t packed, uint8_t *dst, size_t size)
{
    z_stream s = {0};
    int r = Z_OK;
    size_t in = 0, out = 0;

    if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
        return false;
    while (r == Z_OK) {
        uInt have = packed - in < UINT32_MAX / 2 ? (uInt)(packed - in) : UINT32_MAX / 2;
        uInt room = size - out < UINT32_MAX / 2 ? (uInt)(size - out) : UINT32_MAX / 2;
        s.next_in = (Bytef *)(uintptr_t)(src + in);
        s.avail_in = have;
        s.next_out = dst + out;
        s.avail_out = room;
        r = inflate(&s, Z_NO_FLUSH);
        in += have - s.avail_in;
        out += room - s.avail_out;
        if (have == s.avail_in && room == s.avail_out)
            break;
    }
    inflateEnd(&s);
    return r == Z_STREAM_END && out == size;
}

static uint32_t crc_of(const uint8_t *p, size_t n)
{
    return (uint32_t)crc32_z(0, p, n);
}

static bool read_tensor(Zip *z, const Member *m, Tensor **out)
{
    const uint8_t *src = packed_bytes(z, m), *bytes = src;
    uint8_t *unpacked = NULL;
    bool ok;

    if (!src)
        return fail(z->err, "npz: a member points outside the archive");
    if (m->flags & 1)
        return fail(z->err, "npz: a member is encrypted");
    if (m->method != 0 && m->method != 8)
        return fail(z->err, "npz: a member is packed in a way other than deflate");
    if (m->method == 0 && m->packed != m->size)
        return fail(z->err, "npz: a stored member has two different sizes");
    if (m->size / NPZ_RATIO > z->n || (z->unpacked += m->size) / NPZ_RATIO > z->n)
        return fail(z->err, "npz: the archive unpacks to more than 1000 times its size");
    if (m->method == 8) {
        if (!(unpacked = tsr_try_alloc(m->size, 16)))
            return fail(z->err, "npz: no memory to unpack a member");
        bytes = unpacked;
        if (!inflate_member(src, m->packed, unpacked, m->size)) {
            tsr_free_aligned(unpacked);
            return fail(z->err, "npz: a member does not unpack");
        }
    }
    if (crc_of(bytes, m->size) != m->crc)
        ok = fail(z->err, "npz: the checksum of a member is wrong");
    else
        ok = npy_read(bytes, m->size, out, z->err);
    tsr_free_aligned(unpacked);
    return ok;
}

static bool name_ok(const Npz *out, const char *name, size_t n)
{
    if (!n || memchr(name, 0, n))
        return false;
    for (int i = 0; i < out->n; i++)
        if (strlen(out->at[i].name) == n && !memcmp(out->at[i].name, name, n))
            return false;
    return true;
}

static bool add_member(Zip *z, const Member *m, Npz *out)
{
    size_t n = m->name_len;
    NpzEntry e;

    if (n > 4 && !memcmp(m->name + n - 4, ".npy", 4))
        n -= 4;
    if (!name_ok(out, m->name, n))
        return fail(z->err, "npz: a member's name is empty, contains NUL or comes twice");
    if (!read_tensor(z, m, &e.t))
        return false;
    e.name = tsr_alloc(n + 1);
    memcpy(e.name, m->name, n);
    e.name[n] = 0;
    vec_push(out, e);
    return true;
}

bool npz_read(const void *data, size_t n, Npz *out, StrBuf *err)
{
    Zip z = {.p = data, .n = n, .err = err};
    uint64_t at, count;
    bool ok;

    memset(out, 0, sizeof *out);
    ok = find_directory(&z, &at, &count);
    for (uint64_t i = 0; ok && i < count; i++) {
        Member m;
        if (!read_entry(&z, &at, &m))
            ok = fail(err, "npz: the directory of the archive is damaged");
        else if (m.name_len && m.name[m.name_len - 1] != '/')
            ok = add_member(&z, &m, out);
    }
    if (!ok)
        npz_free(out);
    return ok;
}

void npz_free(Npz *z)
{
    for (int i = 0; i < z->n; i++) {
        tsr_free(z->at[i].name);
        tensor_unref(z->at[i].t);
    }
    vec_free(z);
}

/* ---- writing: every member stored, with zip64 sizes so that any length is said the same way ---- */

static void put(StrBuf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++, v >>= 8)
        sb_putc(b, (char)(v & 255));
}

enum { VERSION = 45, DOS_1980 = 0x21 };             /* 4.5: zip64; dates are 1 January 1980, so equal tensors give equal files */

static void put_local(StrBuf *out, const char *name, const StrBuf *npy, uint32_t crc)
{
    put(out, LOCAL, 4);
    put(out, VERSION, 2);
    put(out, 0x800, 2);                             /* names are UTF-8 */
    put(out, 0, 4);                                 /* stored; time */
    put(out, DOS_1980, 2);
    put(out, crc, 4);
    put(out, 0xffffffff, 4);
    put(out, 0xffffffff, 4);
    put(out, strlen(name) + 4, 2);
    put(out, 20, 2);
    sb_printf(out, "%s.npy", name);
    put(out, 1, 2);
    put(out, 16, 2);
    put(out, npy->n, 8);
    put(out, npy->n, 8);
    sb_write(out, npy->s, npy->n);
}

static void put_central(StrBuf *dir, const char *name, const StrBuf *npy, uint32_t crc, uint64_t offset)
{
    put(dir, CENTRAL, 4);
    put(dir, VERSION, 2);
    put(dir, VERSION, 2);
    put(dir, 0x800, 2);
    put(dir, 0, 4);
    put(dir, DOS_1980, 2);
    put(dir, crc, 4);
    put(dir, 0xffffffff, 4);
    put(dir, 0xffffffff, 4);
    put(dir, strlen(name) + 4, 2);
    put(dir, 28, 2);
    put(dir, 0, 10);                                /* no comment, disk 0, attributes */
    put(dir, 0xffffffff, 4);
    sb_printf(dir, "%s.npy", name);
    put(dir, 1, 2);
    put(dir, 24, 2);
    put(dir, npy->n, 8);
    put(dir, npy->n, 8);
    put(dir, offset, 8);
}

static void put_end(StrBuf *out, uint64_t count, uint64_t start, uint64_t size)
{
    uint64_t end64 = start + size;

    put(out, END64, 4);
    put(out, END64_SIZE - 12, 8);
    put(out, VERSION, 2);
    put(out, VERSION, 2);
    put(out, 0, 8);
    put(out, count, 8);
    put(out, count, 8);
    put(out, size, 8);
    put(out, start, 8);
    put(out, LOCATOR64, 4);
    put(out, 0, 4);
    put(out, end64, 8);
    put(out, 1, 4);
    put(out, END, 4);
    put(out, 0, 4);
    put(out, 0xffff, 2);
    put(out, 0xffff, 2);
    put(out, 0xffffffff, 4);
    put(out, 0xffffffff, 4);
    put(out, 0, 2);
}

bool npz_write(const NpzEntry *e, int n, StrBuf *out, StrBuf *err)
{
    StrBuf dir = {0}, npy = {0};
    size_t base = out->n;
    bool ok = true;

    for (int i = 0; ok && i < n; i++) {
        size_t len = strlen(e[i].name);
        sb_clear(&npy);
        if (len == 0 || len > 60000)
            ok = fail(err, "npz: a name is empty or too long");
        else
            ok = npy_write(e[i].t, &npy, err);
        if (!ok)
            break;
        uint32_t crc = crc_of((const uint8_t *)npy.s, npy.n);
        put_central(&dir, e[i].name, &npy, crc, out->n - base);
        put_local(out, e[i].name, &npy, crc);
    }
    if (ok) {
        uint64_t start = out->n - base;
        sb_write(out, sb_str(&dir), dir.n);
        put_end(out, (uint64_t)n, start, dir.n);
    } else {
        out->n = base;
    }
    sb_done(&dir);
    sb_done(&npy);
    return ok;
}
