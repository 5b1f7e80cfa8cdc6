/*
 * --gpu: code for GPUs in a bundle.
 *
 * Each graph is rehearsed as it would run on a GPU, once for each machine that code is made for: sm_80, whose PTX every later chip
 * takes, sm_90a, and this machine's own GPU where that is the driver of the tests.  A kernel is a fat binary: its PTX for each of these
 * machines, and a cubin for each chip that was asked for where ptxas or nvJitLink is here.
 */
#include "tools/bundle/build.h"

#include "bundle/bundle.h"
#include "ir/schedule/fused.h"
#include "ir/schedule/rehearse.h"
#include "runtime/fatbin.h"
#include "runtime/gpu_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool (*build_gpu_code)(const TileKernel *k, const char *machine, GpuFrame *frame, StrBuf *image, StrBuf *err);

enum { PLAIN, HOPPER, STAND_IN };

/* ---- which chips ---- */

static const char *own_chip(StrBuf *err)
{
    static char name[16];
    const GpuDevice *g = gpu_look(0);

    if (!g)
        return sb_printf(err, "--gpu=native: there is no GPU here: %s", cuda_reason()), NULL;
    snprintf(name, sizeof name, g->sm == 90 ? "sm_90a" : "sm_%d", g->sm);
    return name;
}

static int machine_of(int sm, bool own) { return own ? HOPPER : sm ? PLAIN : STAND_IN; }

static bool add_chip(Building *b, const char *name, size_t n, StrBuf *err)
{
    BuildChip c = {{0}, 0, false};
    bool known = fatbin_chip(name, n, &c.sm, &c.own) && n < sizeof c.name && (c.own ? c.sm == 90 : c.sm >= 80 || !c.sm);

    for (int i = 0; i < b->nchips; i++)
        if (b->chip[i].sm == c.sm && b->chip[i].own == c.own)
            return true;
    if (!known || b->nchips == BUILD_CHIPS) {
        sb_printf(err, "--gpu takes sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120 and native, at most %d, separated by commas, not '%.*s'", BUILD_CHIPS,
                  (int)n, name);
        return false;
    }
    memcpy(c.name, name, n);
    b->chip[b->nchips++] = c;
    b->machines |= 1u << machine_of(c.sm, c.own);
    return true;
}

bool chips_read(Building *b, const char *text, StrBuf *err)
{
    for (size_t n; *text; text += n + (text[n] == ',')) {
        const char *name = text;
        n = strcspn(text, ",");
        if (n == 6 && !strncmp(text, "native", n) && !(name = own_chip(err)))
            return false;
        if (!add_chip(b, name, name == text ? n : strlen(name), err))
            return false;
    }
    if (b->machines & 1u << HOPPER)
        b->machines |= 1u << PLAIN;             /* PTX that later chips take, too */
    return b->nchips || (sb_puts(err, "--gpu is empty: it takes names of chips, such as sm_80,sm_90a"), false);
}

/* ---- notes ---- */

static Building *taking;
static int machine;             /* whose notes are taken */

static BuildFar *find_row(Building *b, const char *key)
{
    for (int i = 0; i < b->far.n; i++)
        if (!strcmp(b->far.at[i].key, key))
            return &b->far.at[i];
    vec_push(&b->far, (BuildFar){0});
    memcpy(vec_last(&b->far).key, key, KEY_DIGITS + 1);
    return &vec_last(&b->far);
}

static void *take_note(const TileKernel *k, StrBuf *err)
{
    static char done;
    char key[KEY_DIGITS + 1];
    BuildFar *row;

    bundle_key_text(tile_key(k), key);
    row = find_row(taking, key);
    if (!row->asked[machine])
        row->made[machine] = build_gpu_code(k, gpu_machines[machine], &row->frame[machine], &row->image[machine], err);
    row->asked[machine] = true;
    return row->made[machine] ? &done : NULL;
}

/* One for each machine: what cannot be made for one is asked for in other ways. */
static KernelCompiler notes[GPU_MACHINES];

void chips_rehearse(Building *b, Trace *T, Graph *g)
{
    static const int chip[GPU_MACHINES] = {80, 90, 0};

    taking = b;
    for (machine = 0; machine < GPU_MACHINES; machine++)
        if (b->machines >> machine & 1) {
            notes[machine] = far_notes(take_note);
            graph_rehearse_far(T, g, &notes[machine], chip[machine]);
        }
}

/* ---- fat binaries ---- */

static bool put_cubin(Building *b, BuildFar *row, const BuildChip *c, StrBuf *out)
{
    StrBuf *image = &row->image[machine_of(c->sm, c->own)];
    GpuAssembly made;
    FaultKind kind;
    bool ok;

    if (!row->made[machine_of(c->sm, c->own)])
        return true;
    if (!c->sm) {
        fatbin_add(out, &(FatbinEntry){FATBIN_CUBIN, 0, false, image->s, image->n});
        return true;
    }
    ok = gpu_assemble_for(c->name, sb_str(image), image->n, &made);
    if (ok)
        fatbin_add(out, &(FatbinEntry){FATBIN_CUBIN, c->sm, c->own, made.cubin.s, made.cubin.n});
    else
        fault_take(&b->err, &kind);
    gpu_assembly_done(&made);
    return ok;
}

static bool put_fatbin(Building *b, BuildFar *row)
{
    StrBuf path = {0}, *out;
    bool ok = true;

    sb_printf(&path, "objects/gpu/%s.fatbin", row->key);
    fatbin_begin(out = build_file(b, sb_str(&path)));
    for (int i = 0; i < b->nchips && ok; i++)
        if (b->cubins || !b->chip[i].sm)
            ok = put_cubin(b, row, &b->chip[i], out);
    for (int m = PLAIN; m <= HOPPER; m++)
        if (row->made[m])
            fatbin_add(out, &(FatbinEntry){FATBIN_PTX, m == HOPPER ? 90 : 80, m == HOPPER, row->image[m].s, row->image[m].n});
    fatbin_end(out);
    sb_done(&path);
    return ok;
}

static int by_key(const void *a, const void *b) { return strcmp(((const BuildFar *)a)->key, ((const BuildFar *)b)->key); }

/* Rows of kernels that no machine covers go. */
static void drop_empty(Building *b)
{
    int n = 0;

    for (int i = 0; i < b->far.n; i++) {
        BuildFar *row = &b->far.at[i];
        if (row->made[PLAIN] || row->made[HOPPER] || row->made[STAND_IN])
            b->far.at[n++] = *row;
        else
            for (int m = 0; m < GPU_MACHINES; m++)
                sb_done(&row->image[m]);
    }
    b->far.n = n;
}

bool chips_finish(Building *b)
{
    bool ok = true;

    if (!b->nchips)
        return true;
    drop_empty(b);
    if (b->far.n)
        qsort(b->far.at, (size_t)b->far.n, sizeof *b->far.at, by_key);
    b->cubins = gpu_assembler() != NULL;
    if (!b->cubins && b->machines & ~(1u << STAND_IN))
        fprintf(stderr, "note: neither ptxas nor nvJitLink is here: the bundle has PTX, which the driver assembles at the first call\n");
    for (int i = 0; i < b->far.n && ok; i++)
        ok = put_fatbin(b, &b->far.at[i]);
    return ok;
}

/* ---- the manifest ---- */

void chips_describe(const Building *b, StrBuf *out)
{
    sb_puts(out, "  \"gpu_kernels\": [");
    for (int i = 0; i < b->far.n; i++) {
        const BuildFar *row = &b->far.at[i];
        bool any = false;
        sb_printf(out, "%s{\"key\": \"%s\", \"fatbin\": \"objects/gpu/%s.fatbin\", \"frames\": {", i ? ",\n    " : "\n    ", row->key, row->key);
        for (int m = 0; m < GPU_MACHINES; m++)
            if (row->made[m]) {
                sb_printf(out, "%s\"%s\": \"", any ? ", " : "", gpu_machines[m]);
                far_frame_print(&row->frame[m], out);
                sb_putc(out, '"');
                any = true;
            }
        sb_puts(out, "}}");
    }
    sb_puts(out, "],\n");
}

void chips_done(Building *b)
{
    for (int i = 0; i < b->far.n; i++)
        for (int m = 0; m < GPU_MACHINES; m++)
            sb_done(&b->far.at[i].image[m]);
    vec_free(&b->far);
}
