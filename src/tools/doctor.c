/*
 * Everything that decides where a program runs, and how fast, looked at once: the processor, memory, the cache of kernels, the driver,
 * the assembler of PTX, each GPU.
 *
 * Each part says a line for people and an object for programs (--json), from the same facts.  What is missing becomes advice; nothing is an
 * error, as a machine without a GPU is as good as any.
 */
#include "tools/doctor.h"

#include "base/vfs.h"
#include "runtime/cpu.h"
#include "runtime/gpu_launch.h"
#include "runtime/kernels.h"
#include "tools/cache.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADVICE_MAX = 8, FILE_MAX_BYTES = 1 << 20 };

typedef struct Doctor {
    StrBuf text, json;
    bool first;                     /* no member of the innermost object yet */
    char advice[ADVICE_MAX][240];
    int nadvice;
} Doctor;

/* ---- saying it ---- */

static void line(Doctor *d, const char *part, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void line(Doctor *d, const char *part, const char *fmt, ...)
{
    va_list ap;

    sb_printf(&d->text, "%-10s", part);
    va_start(ap, fmt);
    sb_vprintf(&d->text, fmt, ap);
    va_end(ap);
    sb_putc(&d->text, '\n');
}

static void advise(Doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void advise(Doctor *d, const char *fmt, ...)
{
    va_list ap;

    if (d->nadvice == ADVICE_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(d->advice[d->nadvice++], sizeof *d->advice, fmt, ap);
    va_end(ap);
}

static void key(Doctor *d, const char *name)
{
    if (!d->first)
        sb_puts(&d->json, ", ");
    d->first = false;
    if (name) {
        sb_put_json(&d->json, name, strlen(name));
        sb_puts(&d->json, ": ");
    }
}

static void open_with(Doctor *d, const char *name, char bracket)
{
    key(d, name);
    sb_putc(&d->json, bracket);
    d->first = true;
}

static void close_with(Doctor *d, char bracket)
{
    sb_putc(&d->json, bracket);
    d->first = false;
}

/* NULL: null. */
static void put_text(Doctor *d, const char *name, const char *s)
{
    key(d, name);
    if (s)
        sb_put_json(&d->json, s, strlen(s));
    else
        sb_puts(&d->json, "null");
}

static void put_number(Doctor *d, const char *name, int64_t v)
{
    key(d, name);
    sb_printf(&d->json, "%lld", (long long)v);
}

static double gb(size_t bytes) { return (double)bytes / (1 << 30); }

/* ---- the machine ---- */

/* What stands behind "KEY:" in a file of lines, without blanks around it; "" where it is not there. */
static void field_of(const char *path, const char *name, char *out, size_t room)
{
    char *data = NULL;
    size_t n = 0, len = strlen(name);

    *out = 0;
    if (vfs_read_file(path, FILE_MAX_BYTES, &data, &n))
        return;
    for (const char *p = data; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *v = p + len;
        if (strncmp(p, name, len) != 0)
            continue;
        v += strspn(v, " \t");
        if (*v != ':')
            continue;
        v += 1 + strspn(v + 1, " \t");
        snprintf(out, room, "%.*s", (int)strcspn(v, "\n"), v);
        break;
    }
    tsr_free(data);
}

static bool has_word(const char *words, const char *w)
{
    size_t n = strlen(w);

    for (const char *p = words; (p = strstr(p, w)); p += n)
        if ((p == words || p[-1] == ' ') && (!p[n] || p[n] == ' '))
            return true;
    return false;
}

static void put_sets(const char *flags, StrBuf *out)
{
    static const char *const shown[] = {"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16", "avx_vnni", "avx512_vnni",
                                        "amx_bf16", "amx_int8"};

    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (has_word(flags, shown[i]))
            sb_printf(out, "%s%s", out->n ? " " : "", shown[i]);
}

static void look_at_cpu(Doctor *d)
{
    char model[128], flags[8192];
    int here = (int)sysconf(_SC_NPROCESSORS_ONLN);
    StrBuf sets = {0};

    field_of("/proc/cpuinfo", "model name", model, sizeof model);
    field_of("/proc/cpuinfo", "flags", flags, sizeof flags);
    put_sets(flags, &sets);
    line(d, "cpu", "%s; %d of %d threads; loops %s; %s", *model ? model : "unknown", pool_threads(), here, cpu()->name, sb_str(&sets));
    open_with(d, "cpu", '{');
    put_text(d, "model", model);
    put_number(d, "processors", here);
    put_number(d, "threads", pool_threads());
    put_text(d, "loops", cpu()->name);
    put_text(d, "instructions", sb_str(&sets));
    close_with(d, '}');
    if (pool_threads() < here && getenv("TESSERA_THREADS"))
        advise(d, "TESSERA_THREADS is %s: programs use no more of the %d processors", getenv("TESSERA_THREADS"), here);
    if (getenv("TESSERA_CPU"))
        advise(d, "TESSERA_CPU is %s: loops for newer processors are not used", getenv("TESSERA_CPU"));
    sb_done(&sets);
}

static void look_at_memory(Doctor *d)
{
    char total[64], available[64];
    size_t all, left;

    field_of("/proc/meminfo", "MemTotal", total, sizeof total);
    field_of("/proc/meminfo", "MemAvailable", available, sizeof available);
    all = (size_t)atoll(total) << 10;
    left = (size_t)atoll(available) << 10;
    line(d, "memory", "%.1f GB, %.1f GB free", gb(all), gb(left));
    open_with(d, "memory", '{');
    put_number(d, "bytes", (int64_t)all);
    put_number(d, "free", (int64_t)left);
    close_with(d, '}');
}

/* `tessera cache`, on a line. */
static void look_at_cache(Doctor *d)
{
    Options none = {0};
    StrBuf out = {0}, err = {0}, one = {0};

    cache_verb(&none, &out, &err);
    for (size_t i = 0; i + 1 < out.n; i++)
        sb_puts(&one, out.s[i] == '\n' ? "; " : (char[]){out.s[i], 0});
    line(d, "cache", "%s", one.n ? sb_str(&one) : sb_str(&err));
    open_with(d, "cache", '{');
    put_text(d, "error", err.n ? sb_str(&err) : NULL);
    put_text(d, "says", one.n ? sb_str(&one) : NULL);
    close_with(d, '}');
    if (err.n)
        advise(d, "%s", sb_str(&err));
    else if (!strncmp(sb_str(&out), "off", 3))
        advise(d, "kernels are compiled anew by each process: no folder keeps them");
    sb_done(&one);
    sb_done(&out);
    sb_done(&err);
}

/* ---- GPUs ---- */

/* Is an NVIDIA card on the bus? */
static bool card_is_here(void)
{
    static const char bus[] = "/sys/bus/pci/devices";
    DIR *folder = opendir(bus);
    bool found = false;

    for (struct dirent *e; folder && !found && (e = readdir(folder));) {
        char path[512], *vendor = NULL;
        size_t n;
        snprintf(path, sizeof path, "%s/%s/vendor", bus, e->d_name);
        if (e->d_name[0] != '.' && !vfs_read_file(path, 64, &vendor, &n))
            found = !strncmp(vendor, "0x10de", 6);
        tsr_free(vendor);
    }
    if (folder)
        closedir(folder);
    return found;
}

static void advise_driver(Doctor *d)
{
    const char *why = cuda_reason();

    if (!*cuda_library())
        advise(d, "TESSERA_CUDA_LIBRARY is empty: GPUs are not looked for");
    else if (!strncmp(why, "E0740", 5) && (!access("/dev/nvidiactl", F_OK) || card_is_here()))
        advise(d, "an NVIDIA card is here, its driver's library is not: install the driver; a container is given both by --gpus all");
    else if (!strncmp(why, "E0740", 5))
        advise(d, "programs run on the CPU; for NVIDIA GPUs install their driver (525 or later)");
    else if (!strncmp(why, "E0741", 5))
        advise(d, "the driver finds no GPU: hand one to this process (CUDA_VISIBLE_DEVICES; of a container: --gpus all)");
    else if (!strncmp(why, "E0742", 5))
        advise(d, "install a newer NVIDIA driver (525 or later)");
    else
        advise(d, "the NVIDIA driver does not start: nvidia-smi and the system's log say more");
}

static bool look_at_driver(Doctor *d)
{
    bool loaded = cuda_load();
    int v = cuda_version();

    open_with(d, "driver", '{');
    put_text(d, "library", cuda_library());
    key(d, "cuda");
    sb_printf(&d->json, v ? "\"%d.%d\"" : "null", v / 1000, v % 1000 / 10);
    put_text(d, "error", loaded ? NULL : cuda_reason());
    close_with(d, '}');
    if (loaded) {
        line(d, "driver", "%s, CUDA %d.%d", cuda_library(), v / 1000, v % 1000 / 10);
    } else {
        line(d, "driver", "%s", cuda_reason());
        advise_driver(d);
    }
    return loaded;
}

static void look_at_assembler(Doctor *d, bool loaded)
{
    const char *own = getenv("TESSERA_PTXAS"), *path = gpu_assembler();

    line(d, "assembler", "%s", path ? path : loaded ? "the driver's" : "none");
    open_with(d, "assembler", '{');
    put_text(d, "path", path);
    close_with(d, '}');
    if (own && *own && (!path || strcmp(own, path) != 0))
        advise(d, "TESSERA_PTXAS names no program: %s", own);
    if (loaded && !path)
        advise(d, "kernels are assembled by the driver; with ptxas (of the CUDA toolkit) spilled registers are reported, too");
}

static void look_at_gpu(Doctor *d, int i)
{
    const GpuDevice *g = gpu_look(i);
    GpuDevice *started = gpu_device(i);
    char name[16];
    size_t left = 0;
    StrBuf why = {0};
    FaultKind kind;
    bool ok = started && gpu_available(started, &left) && gpu_sync(started);

    if (!ok)
        fault_take(&why, &kind);
    snprintf(name, sizeof name, "gpu:%d", i);
    line(d, name, "%s, sm_%d, %d multiprocessors, %.1f GB (%.1f GB free), %d KB shared for a group; %s%s", g->name, g->sm, g->processors,
         gb(g->memory), gb(left), g->shared_group >> 10, ok ? "schedules as for " : "does not start: ",
         !ok ? sb_str(&why) : g->model ? g->model->name : gpu_target()->name);
    open_with(d, NULL, '{');
    put_text(d, "device", name);
    put_text(d, "name", g->name);
    put_number(d, "sm", g->sm);
    put_number(d, "multiprocessors", g->processors);
    put_number(d, "bytes", (int64_t)g->memory);
    put_number(d, "free", (int64_t)left);
    put_number(d, "shared_group", g->shared_group);
    put_number(d, "shared_multiprocessor", g->shared_processor);
    put_number(d, "registers", g->registers);
    put_number(d, "cache", g->cache);
    put_text(d, "model", g->model ? g->model->name : NULL);
    put_text(d, "error", ok ? NULL : sb_str(&why));
    close_with(d, '}');
    if (!ok)
        advise(d, "gpu:%d does not start: %.160s", i, sb_str(&why));
    else if (g->sm && g->sm < 80)
        advise(d, "gpu:%d is older than sm_80, which kernels are made for: programs compute on the host", i);
    sb_done(&why);
}

/* ---- all of it ---- */

static void put_advice(Doctor *d)
{
    sb_puts(&d->text, d->nadvice ? "\n" : "\nnothing is missing\n");
    open_with(d, "advice", '[');
    for (int i = 0; i < d->nadvice; i++) {
        sb_printf(&d->text, "- %s\n", d->advice[i]);
        put_text(d, NULL, d->advice[i]);
    }
    close_with(d, ']');
}

void doctor(const Options *o, const char *version, StrBuf *out)
{
    Doctor d = {.first = true};
    bool loaded;

    open_with(&d, NULL, '{');
    line(&d, "tessera", "%s", version);
    put_text(&d, "tessera", version);
    look_at_cpu(&d);
    look_at_memory(&d);
    look_at_cache(&d);
    loaded = look_at_driver(&d);
    look_at_assembler(&d, loaded);
    open_with(&d, "gpus", '[');
    for (int i = 0; i < gpu_count(); i++)
        look_at_gpu(&d, i);
    close_with(&d, ']');
    put_advice(&d);
    close_with(&d, '}');
    sb_puts(&d.json, "\n");
    sb_puts(out, sb_str(option_on(o, OPT_json) ? &d.json : &d.text));
    sb_done(&d.text);
    sb_done(&d.json);
}
