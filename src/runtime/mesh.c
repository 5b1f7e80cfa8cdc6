/* Devices and meshes: tables of small numbers. */
#include "runtime/mesh.h"

#include "base/vec.h"
#include "runtime/far_moves.h"
#include "runtime/storage.h"

#include <stdlib.h>
#include <string.h>

static Vec(Mesh *) meshes;              /* by id - 1 */
static int gpus;
int device_now;
bool devices_used;
const FarMoves *far_moves;
Span far_moves_where;

/* ------------------------------------------------------------- meshes */

static bool same(const Mesh *m, int naxes, const Sym *name, const int *extent, const int *device)
{
    if (m->naxes != naxes)
        return false;
    for (int a = 0; a < naxes; a++)
        if (m->name[a] != name[a] || m->extent[a] != extent[a])
            return false;
    return !memcmp(m->device, device, sizeof *device * (size_t)m->size);
}

const Mesh *mesh_new(int naxes, const Sym *name, const int *extent, const int *device)
{
    Mesh *m;

    for (int i = 0; i < meshes.n; i++)
        if (same(meshes.at[i], naxes, name, extent, device))
            return meshes.at[i];
    m = tsr_calloc(sizeof *m);
    m->id = meshes.n + 1;
    m->naxes = naxes;
    m->size = 1;
    for (int a = 0; a < naxes; a++) {
        m->name[a] = name[a];
        m->extent[a] = extent[a];
        m->size *= extent[a];
    }
    m->device = tsr_alloc(sizeof *device * (size_t)m->size);
    memcpy(m->device, device, sizeof *device * (size_t)m->size);
    vec_push(&meshes, m);
    return m;
}

const Mesh *mesh_by_id(int64_t id)
{
    return id >= 1 && id <= meshes.n ? meshes.at[id - 1] : NULL;
}

/* The axis of that name; -1: there is none. */
static int mesh_axis(const Mesh *m, Sym name)
{
    for (int a = 0; a < m->naxes; a++)
        if (m->name[a] == name)
            return a;
    return -1;
}

int mesh_coordinate(const Mesh *m, int rank, int axis)
{
    for (int a = m->naxes - 1; a > axis; a--)
        rank /= m->extent[a];
    return rank % m->extent[axis];
}

int mesh_extent(const Mesh *m, uint16_t axes)
{
    int n = 1;

    for (int a = 0; a < m->naxes; a++)
        if (axes >> a & 1)
            n *= m->extent[a];
    return n;
}

int mesh_index(const Mesh *m, int rank, uint16_t axes)
{
    int index = 0;

    for (int a = 0; a < m->naxes; a++)
        if (axes >> a & 1)
            index = index * m->extent[a] + mesh_coordinate(m, rank, a);
    return index;
}

int mesh_member(const Mesh *m, int rank, uint16_t axes, int index)
{
    int place[MESH_AXES_MAX], out = 0;

    for (int a = m->naxes - 1; a >= 0; a--) {
        place[a] = mesh_coordinate(m, rank, a);
        if (axes >> a & 1) {
            place[a] = index % m->extent[a];
            index /= m->extent[a];
        }
    }
    for (int a = 0; a < m->naxes; a++)
        out = out * m->extent[a] + place[a];
    return out;
}

uint16_t mesh_parse_axes(const Mesh *m, Sym names)
{
    const char *s = names->text;
    uint16_t mask = 0;

    while (*s) {
        size_t n = strcspn(s, ",");
        int a = mesh_axis(m, sym_n(s, n));
        if (a >= 0)
            mask |= (uint16_t)(1u << a);
        s += n + (s[n] == ',');
    }
    return mask;
}

Sym mesh_axes_name(const Mesh *m, uint16_t axes)
{
    StrBuf b = {0};
    Sym s;

    for (int a = 0; a < m->naxes; a++)
        if (axes >> a & 1)
            sb_printf(&b, "%s%s", b.n ? "," : "", m->name[a]->text);
    s = sym(sb_str(&b));
    sb_done(&b);
    return s;
}

/* ------------------------------------------------------------- devices */

void devices_simulate(int n) { gpus = n; }
int devices_gpus(void) { return gpus || !storage_far ? gpus : storage_far->count(); }
bool device_is_far(int device) { return device > 0 && !gpus && storage_far; }

int device_number(const char *s)
{
    size_t n = strcspn(s, ":"), digits = s[n] ? strspn(s + n + 1, "0123456789") : 0;
    bool host = (n == 3 && !memcmp(s, "cpu", 3)) || (n == 4 && !memcmp(s, "host", 4));

    if (!host && !(n == 3 && !memcmp(s, "gpu", 3)) && !(n == 4 && !memcmp(s, "cuda", 4)))
        return -1;
    if (s[n] && (!digits || digits > 4 || s[n + 1 + digits]))
        return -1;
    return host ? 0 : 1 + (s[n] ? atoi(s + n + 1) : 0);
}

bool device_named(const char *s, int *number)
{
    int i = device_number(s);

    *number = i < 0 ? 0 : i;
    return i >= 0 && i <= devices_gpus();
}

int device_enter(int device)
{
    int was = device_now;

    device_now = device;
    devices_used |= device != 0;
    return was;
}

static int device_at(const Tensor *t) { return t->store ? (int)t->store->device : 0; }

int device_of_operands(Tensor *const *in, int nin)
{
    for (int i = 0; i < nin; i++)
        if (device_at(in[i]))
            return device_at(in[i]);
    return 0;
}

bool devices_differ(Tensor *const *in, int nin, int *a, int *b)
{
    *a = device_of_operands(in, nin);
    for (int i = 0; i < nin; i++) {
        *b = device_at(in[i]);
        if (*b && *b != *a)
            return true;
    }
    return false;
}
