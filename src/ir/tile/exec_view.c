/*
 * Memory as the oracle sees it: every element of a block is asked for by its
 * place, which lies in the view or not, and elements of a group's buffers
 * remember whether they were written, or are being written by a copy under way.
 */
#include "ir/tile/exec_impl.h"

#include <inttypes.h>
#include <string.h>

bool view_part(View *v, const int64_t *start, const int64_t *extent, StrBuf *err)
{
    for (int i = 0; i < v->rank; i++) {
        if (start[i] < 0 || extent[i] < 0 || start[i] > v->extent[i] || extent[i] > v->extent[i] - start[i]) {
            sb_printf(err, "the part from %" PRId64 " of %" PRId64 " elements does not lie within the %" PRId64 " of axis %d", start[i],
                      extent[i], v->extent[i], i);
            return false;
        }
    }
    for (int i = 0; i < v->rank; i++) {
        v->base += start[i] * v->stride[i] * (int64_t)raw_size(v->dtype);
        if (v->state)
            v->state += start[i] * v->stride[i];
        v->extent[i] = extent[i];
    }
    return true;
}

/* ---- elements of a block, one after another ---- */

static void place_of(const View *v, const int64_t *start, Walk *w)
{
    w->place = 0;
    w->inside = true;
    for (int i = 0; i < v->rank; i++) {
        int64_t x;
        if (__builtin_add_overflow(start[i], w->at[i], &x) || x < 0 || x >= v->extent[i])
            w->inside = false;
        else
            w->place += x * v->stride[i];
    }
}

static bool advance(int rank, const int64_t *shape, Walk *w)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++w->at[i] < shape[i])
            return true;
        w->at[i] = 0;
    }
    return false;
}

static void *element(const View *v, const Walk *w) { return v->base + w->place * (int64_t)raw_size(v->dtype); }

/* A buffer with a name is one of the user's, who is told which kind of fault it is. */
static bool complain(const View *v, const int64_t *start, const Walk *w, const char *kind, const char *what, StrBuf *err)
{
    if (v->name)
        sb_printf(err, "%s on shared '%s': ", kind, v->name->text);
    sb_puts(err, "element [");
    for (int i = 0; i < v->rank; i++)
        sb_printf(err, "%s%" PRId64, i ? ", " : "", (start ? start[i] : 0) + w->at[i]);
    sb_printf(err, "] %s", what);
    return false;
}

const TileNode *view_copier(const View *v, const char *element)
{
    return v->buffer && v->buffer->copier ? v->buffer->copier[(element - v->buffer->data) / (int64_t)raw_size(v->dtype)] : NULL;
}

/* ... and where the copy was begun that it has to do with. */
static bool complain_of_copy(const View *v, const int64_t *start, const Walk *w, const char *what, StrBuf *err)
{
    const TileNode *by = view_copier(v, element(v, w));

    complain(v, start, w, "data race", what, err);
    if (by && by->span.hi) {
        sb_puts(err, ", begun");
        memory_put_line(err, by);
    }
    return false;
}

static bool readable(const View *v, const int64_t *start, const Walk *w, StrBuf *err)
{
    switch (v->state ? v->state[w->place] : WRITTEN) {
    case NEVER_WRITTEN: return complain(v, start, w, "uninitialised read", "of the buffer is read, but was never written", err);
    case COMING: return complain_of_copy(v, start, w, "of the buffer is read while a copy to it is under way", err);
    case LANDED: return complain_of_copy(v, start, w, "of the buffer is read after the copy to it, but before a barrier", err);
    default: return true;
    }
}

static bool writable(const View *v, const int64_t *start, const Walk *w, StrBuf *err)
{
    return !v->state || v->state[w->place] != COMING ||
           complain_of_copy(v, start, w, "of the buffer is written while a copy to it is under way", err);
}

static void wide(int rank, const int32_t *shape, int64_t *out)
{
    for (int i = 0; i < rank; i++)
        out[i] = shape[i];
}

bool view_load(const View *v, const int64_t *start, const int32_t *shape, const void *fill, char *out, StrBuf *err)
{
    size_t size = raw_size(v->dtype);
    int64_t extent[TILE_RANK_MAX];
    Walk w = {.at = {0}};

    wide(v->rank, shape, extent);
    do {
        place_of(v, start, &w);
        if (w.inside && !readable(v, start, &w, err))
            return false;
        memcpy(out, w.inside ? element(v, &w) : fill, size);
        out += size;
    } while (advance(v->rank, extent, &w));
    return true;
}

bool view_store(const View *v, const int64_t *start, const int32_t *shape, const char *in, StrBuf *err)
{
    size_t size = raw_size(v->dtype);
    int64_t extent[TILE_RANK_MAX];
    Walk w = {.at = {0}};

    wide(v->rank, shape, extent);
    do {
        place_of(v, start, &w);
        if (w.inside) {
            if (!writable(v, start, &w, err))
                return false;
            memcpy(element(v, &w), in, size);
            if (v->state)
                v->state[w.place] = WRITTEN;
        }
        in += size;
    } while (advance(v->rank, extent, &w));
    return true;
}

bool view_atomic(const View *v, const int64_t *start, const int32_t *shape, OpId step, const char *in, StrBuf *err)
{
    size_t size = raw_size(v->dtype);
    int64_t extent[TILE_RANK_MAX];
    Walk w = {.at = {0}};

    wide(v->rank, shape, extent);
    do {
        place_of(v, start, &w);
        if (w.inside) {
            if (!readable(v, start, &w, err))
                return false;
            tile_eval_step(step, v->dtype, 1, element(v, &w), element(v, &w), in);
        }
        in += size;
    } while (advance(v->rank, extent, &w));
    return true;
}

static bool empty(const View *v)
{
    for (int i = 0; i < v->rank; i++)
        if (v->extent[i] == 0)
            return true;
    return false;
}

bool view_copy(const View *to, const View *from, const void *fill, int state, StrBuf *err)
{
    static const int64_t origin[TILE_RANK_MAX];
    Walk w = {.at = {0}}, r;

    if (empty(to))
        return true;
    do {
        r = w;
        place_of(to, origin, &w);
        place_of(from, origin, &r);
        if ((r.inside && !readable(from, NULL, &r, err)) || (state == WRITTEN && !writable(to, NULL, &w, err)))
            return false;
        memcpy(element(to, &w), r.inside ? element(from, &r) : fill, raw_size(to->dtype));
        if (to->state)
            to->state[w.place] = (uint8_t)state;
    } while (advance(to->rank, to->extent, &w));
    return true;
}

bool view_mark(const View *to, int need, int state, const TileNode *by, StrBuf *err)
{
    static const int64_t origin[TILE_RANK_MAX];
    Walk w = {.at = {0}};

    if (!to->state || empty(to))
        return true;
    do {
        place_of(to, origin, &w);
        if (need < 0 ? !writable(to, NULL, &w, err)
                     : to->state[w.place] != need && !complain_of_copy(to, NULL, &w, "was written meanwhile", err))
            return false;
        to->state[w.place] = (uint8_t)state;
        if (by && to->buffer->copier)
            to->buffer->copier[((char *)element(to, &w) - to->buffer->data) / (int64_t)raw_size(to->dtype)] = by;
    } while (advance(to->rank, to->extent, &w));
    return true;
}
