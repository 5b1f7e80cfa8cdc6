/*
 * The module zlib, and what gzip and hashlib, which are written in Tessera, need of C: checksums, streams of deflate, SHA-256.
 *
 * What is unpacked grows by doubling and ends at UNPACKED_MAX: a small text cannot ask for all memory.
 */
#include "frontend/lib/lib.h"

#include "base/sha256.h"

#include <string.h>
#include <zlib.h>

enum { ROOM = 1 << 16, UNPACKED_MAX = 1 << 30 };

static Value failed(Interp *I, const z_stream *z, const char *what, int code)
{
    const char *why = z->msg ? z->msg : code == Z_BUF_ERROR ? "incomplete or truncated stream" : "bad data";

    return raise(I, EXC_ValueError, "zlib: error %d while %s: %s", code, what, why);
}

/* Run step over the data to its end, into a buffer that grows; then the stream's own end. */
static Value run(Interp *I, z_stream *z, const BytesObj *data, int (*step)(z_stream *, int), int (*end)(z_stream *), const char *what)
{
    char *out = tsr_alloc(ROOM);
    size_t room = ROOM, n = 0;
    Value v;
    int r;

    z->next_in = (Bytef *)data->s;
    z->avail_in = data->len;
    do {
        if (n == room) {
            if (room >= UNPACKED_MAX) {
                tsr_free(out);
                end(z);
                return raise(I, EXC_MemoryError, "zlib: more than %d bytes would come out", UNPACKED_MAX);
            }
            out = tsr_realloc(out, room *= 2);
        }
        z->next_out = (Bytef *)out + n;
        z->avail_out = (uInt)(room - n);
        r = step(z, Z_FINISH);
        n = room - z->avail_out;
    } while ((r == Z_OK || r == Z_BUF_ERROR) && n == room);
    v = r == Z_STREAM_END ? bytes_new(out, n) : failed(I, z, what, r == Z_OK ? Z_BUF_ERROR : r);
    tsr_free(out);
    end(z);
    return v;
}

/* a = data, level, wbits: 15 zlib's header, 31 gzip's, -15 none */
static Value z_compress(Interp *I, Value *a)
{
    BytesObj *data = need_bytes(I, a[0]);
    int64_t level, wbits;
    z_stream z = {0};

    if (!data || !value_as_int(I, a[1], &level) || !value_as_int(I, a[2], &wbits))
        return VERR;
    if (deflateInit2(&z, (int)level, Z_DEFLATED, (int)wbits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return raise(I, EXC_ValueError, "zlib: level -1 to 9 and wbits 9 to 15, -15 or 31 are meant");
    return run(I, &z, data, deflate, deflateEnd, "compressing data");
}

static Value z_decompress(Interp *I, Value *a)
{
    BytesObj *data = need_bytes(I, a[0]);
    int64_t wbits;
    z_stream z = {0};

    if (!data || !value_as_int(I, a[1], &wbits))
        return VERR;
    if (inflateInit2(&z, (int)wbits) != Z_OK)
        return raise(I, EXC_ValueError, "zlib: wbits 9 to 15, -15, 31 or 47 are meant");
    return run(I, &z, data, inflate, inflateEnd, "decompressing data");
}

static Value z_crc32(Interp *I, Value *a)
{
    BytesObj *data = need_bytes(I, a[0]);
    int64_t begin;

    return data && value_as_int(I, a[1], &begin) ? vint((int64_t)crc32((uLong)begin, (const Bytef *)data->s, data->len)) : VERR;
}

static Value z_adler32(Interp *I, Value *a)
{
    BytesObj *data = need_bytes(I, a[0]);
    int64_t begin;

    return data && value_as_int(I, a[1], &begin) ? vint((int64_t)adler32((uLong)begin, (const Bytef *)data->s, data->len)) : VERR;
}

static Value h_sha256(Interp *I, Value *a)
{
    BytesObj *data = need_bytes(I, a[0]);
    char text[SHA256_TEXT];

    if (!data)
        return VERR;
    sha256_text(data->s, data->len, text);
    return str_c(text);
}

const NativeDef natives_compress[] = {
    {"zlib", "compress", z_compress, "(data: bytes, /, level: int = -1, wbits: int = 15) -> bytes", "The data packed by deflate."},
    {"zlib", "decompress", z_decompress, "(data: bytes, /, wbits: int = 15) -> bytes", "What was packed; ValueError where it is damaged."},
    {"zlib", "crc32", z_crc32, "(data: bytes, value: int = 0, /) -> int", "The checksum CRC-32."},
    {"zlib", "adler32", z_adler32, "(data: bytes, value: int = 1, /) -> int", "The checksum Adler-32."},
    {"_hash", "sha256", h_sha256, "(data: bytes, /) -> str", "SHA-256 in hexadecimal digits."},
    {0},
};
