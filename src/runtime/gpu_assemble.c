/*
 * PTX to a cubin.
 *
 * ptxas is the reference, and says most; nvJitLink is the same assembler as a library; the driver has one, too, which is as old
 * as the driver.  What comes out depends on the text, the chip and the assembler alone, so it is kept in the store under a hash of these,
 * together with what was said: a second process neither assembles nor asks for a version.
 */
#include "runtime/gpu_impl.h"
#include "runtime/gpu_launch.h"

#include "base/vfs.h"
#include "runtime/store.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { CUBIN_MAX = 256 << 20, FORMAT = 1 };

typedef enum { BY_UNKNOWN, BY_PTXAS, BY_LIBRARY, BY_DRIVER } Way;

/* nvJitLink's functions, whose results are 0 for success. */
typedef struct JitLink {
    int (*create)(void **, uint32_t, const char **);
    int (*destroy)(void **);
    int (*add)(void *, int, const void *, size_t, const char *);
    int (*complete)(void *);
    int (*cubin_size)(void *, size_t *), (*cubin)(void *, void *);
    int (*error_size)(void *, size_t *), (*error)(void *, char *);
    int (*info_size)(void *, size_t *), (*info)(void *, char *);
    int (*version)(unsigned *, unsigned *);
} JitLink;
enum { JITLINK_PTX = 2 };

static Way way;
static char found[4096];                /* the path of ptxas, or the library's name */
static char identity[64];               /* what tells one version of it from another */
static JitLink link_api;

/* ---- what is there ---- */

static bool is_program(const char *path)
{
    struct stat st;

    if (access(path, X_OK) || stat(path, &st) || !S_ISREG(st.st_mode))
        return false;
    snprintf(found, sizeof found, "%s", path);
    snprintf(identity, sizeof identity, "ptxas %lld %lld", (long long)st.st_size, (long long)st.st_mtime);
    return true;
}

static bool find_on_path(void)
{
    char path[4096];
    const char *p = getenv("PATH");

    while (p && *p) {
        size_t n = strcspn(p, ":");
        snprintf(path, sizeof path, "%.*s/ptxas", (int)n, p);
        if (n && is_program(path))
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

static bool find_ptxas(void)
{
    const char *own = getenv("TESSERA_PTXAS");

    return own ? *own && is_program(own) : find_on_path() || is_program("/usr/local/cuda/bin/ptxas");
}

static bool open_library(const char *name)
{
    static const struct { const char *symbol; size_t at; } rows[] = {
        {"nvJitLinkCreate", offsetof(JitLink, create)}, {"nvJitLinkDestroy", offsetof(JitLink, destroy)},
        {"nvJitLinkAddData", offsetof(JitLink, add)}, {"nvJitLinkComplete", offsetof(JitLink, complete)},
        {"nvJitLinkGetLinkedCubinSize", offsetof(JitLink, cubin_size)}, {"nvJitLinkGetLinkedCubin", offsetof(JitLink, cubin)},
        {"nvJitLinkGetErrorLogSize", offsetof(JitLink, error_size)}, {"nvJitLinkGetErrorLog", offsetof(JitLink, error)},
        {"nvJitLinkGetInfoLogSize", offsetof(JitLink, info_size)}, {"nvJitLinkGetInfoLog", offsetof(JitLink, info)},
        {"nvJitLinkVersion", offsetof(JitLink, version)},
    };
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    unsigned major = 0, minor = 0;

    for (size_t i = 0; library && i < sizeof rows / sizeof *rows; i++) {
        void *f = dlsym(library, rows[i].symbol);
        if (!f) {
            dlclose(library);
            return false;
        }
        memcpy((char *)&link_api + rows[i].at, &f, sizeof f);
    }
    if (!library || link_api.version(&major, &minor))
        return false;
    snprintf(found, sizeof found, "%s", name);
    snprintf(identity, sizeof identity, "nvJitLink %u.%u", major, minor);
    return true;
}

static bool find_library(void)
{
    static const char *const names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", "/usr/local/cuda/lib64/libnvJitLink.so.13",
                                        "/usr/local/cuda/lib64/libnvJitLink.so.12"};
    const char *own = getenv("TESSERA_NVJITLINK");

    if (own)
        return *own && open_library(own);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (open_library(names[i]))
            return true;
    return false;
}

static Way find_way(void)
{
    if (way == BY_UNKNOWN)
        way = find_ptxas() ? BY_PTXAS : find_library() ? BY_LIBRARY : BY_DRIVER;
    if (way == BY_DRIVER)
        snprintf(identity, sizeof identity, "driver %d", cuda_version());
    return way;
}

const char *gpu_assembler(void)
{
    const char *s;

    gpu_lock();
    s = find_way() == BY_DRIVER ? NULL : found;
    gpu_unlock();
    return s;
}

/* ---- what assemblers say ---- */

/* The number in front of `what` in the line; 0: it does not stand there. */
static int number_before(const char *line, size_t n, const char *what)
{
    const char *p = memmem(line, n, what, strlen(what));

    if (!p || p == line)
        return 0;
    for (p--; p > line && *p == ' '; p--) {}
    while (p > line && p[-1] >= '0' && p[-1] <= '9')
        p--;
    return atoi(p);
}

static bool has(const char *line, size_t n, const char *what) { return memmem(line, n, what, strlen(what)) != NULL; }

typedef struct Reading { GpuAssembly *out; const char *kernel; int nkernel; } Reading;

static void read_line(Reading *r, const char *line, size_t n)
{
    static const char of[] = "Function properties for ";
    const char *p = memmem(line, n, of, sizeof of - 1);
    int stores = number_before(line, n, "bytes spill stores"), loads = number_before(line, n, "bytes spill loads");
    int registers = number_before(line, n, "registers");

    if (p) {
        r->kernel = p + sizeof of - 1;
        r->nkernel = (int)(line + n - r->kernel);
    }
    if (stores + loads) {
        sb_printf(&r->out->log, "%.*s: registers do not suffice: %d bytes are stored to memory, %d loaded again\n", r->nkernel, r->kernel, stores,
                  loads);
        r->out->spills = stores + loads > r->out->spills ? stores + loads : r->out->spills;
    }
    r->out->registers = registers > r->out->registers ? registers : r->out->registers;
    if (has(line, n, "(C75") || has(line, n, "warning") || has(line, n, "error") || has(line, n, "fatal")) {
        r->out->serialised |= has(line, n, "(C751");
        sb_write(&r->out->log, line, n);
        sb_putc(&r->out->log, '\n');
    }
}

static void read_log(GpuAssembly *out, const char *log)
{
    Reading r = {.out = out, .kernel = "a kernel", .nkernel = 8};

    while (*log) {
        size_t n = strcspn(log, "\n");
        read_line(&r, log, n);
        log += n + (log[n] == '\n');
    }
}

/* ---- ptxas ---- */

static bool put_file(const char *path, const char *s, size_t n)
{
    const Vfs *v = vfs_current();
    size_t put = 0;
    int fd, err = v->open(path, O_WRONLY | O_CREAT | O_EXCL, 0600, &fd);

    if (err)
        return false;
    while (n && !err) {
        err = v->write(fd, s, n, &put);
        s += put;
        n -= put;
    }
    return !v->close(fd) && !err;
}

/* Run it, with all that it prints in *said. false: it could not be run, or did not succeed. */
static bool spawn(char *const *argv, StrBuf *said)
{
    posix_spawn_file_actions_t io;
    int way_out[2], status = 0, err;
    char buf[4096];
    ssize_t n;
    pid_t pid;

    if (pipe2(way_out, O_CLOEXEC))
        return false;
    posix_spawn_file_actions_init(&io);
    posix_spawn_file_actions_addopen(&io, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&io, way_out[1], 1);
    posix_spawn_file_actions_adddup2(&io, way_out[1], 2);
    err = posix_spawn(&pid, argv[0], &io, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&io);
    close(way_out[1]);
    while (!err && ((n = read(way_out[0], buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            sb_write(said, buf, (size_t)n);
    close(way_out[0]);
    if (err) {
        sb_puts(said, strerror(err));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) && !WEXITSTATUS(status);
}

static bool is_in_order(const char *ptx, size_t n) { return memmem(ptx, n, GPU_IN_ORDER, sizeof GPU_IN_ORDER - 1) != NULL; }

static bool by_ptxas(const char *ptx, size_t n, const char *arch, GpuAssembly *out, StrBuf *said)
{
    const char *tmp = getenv("TMPDIR");
    char folder[4096], from[4200], to[4200], target[40], *bytes = NULL;
    char level[] = "-O3", *argv[] = {found, "-v", level, target, from, "-o", to, NULL};
    size_t len = 0;
    bool ok;

    snprintf(folder, sizeof folder, "%s/tessera-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        sb_printf(said, "no temporary folder: %s", strerror(errno));
        return false;
    }
    level[2] = is_in_order(ptx, n) ? '1' : '3';
    snprintf(from, sizeof from, "%s/kernel.ptx", folder);
    snprintf(to, sizeof to, "%s/kernel.cubin", folder);
    snprintf(target, sizeof target, "-arch=%s", arch);
    ok = put_file(from, ptx, n) && spawn(argv, said) && !vfs_read_file(to, CUBIN_MAX, &bytes, &len);
    if (ok)
        sb_write(&out->cubin, bytes, len);
    tsr_free(bytes);
    vfs_current()->unlink(from);
    vfs_current()->unlink(to);
    rmdir(folder);
    return ok;
}

/* ---- nvJitLink ---- */

static void put_log(void *h, int (*size)(void *, size_t *), int (*get)(void *, char *), StrBuf *said)
{
    size_t n = 0;
    char *s;

    if (size(h, &n) || !n)
        return;
    s = tsr_calloc(n + 1);
    if (!get(h, s))
        sb_puts(said, s);
    sb_putc(said, '\n');
    tsr_free(s);
}

static bool by_library(const char *ptx, size_t n, const char *arch, GpuAssembly *out, StrBuf *said)
{
    char target[40];
    const char *option[] = {target, "-O3", "-verbose", "-Xptxas=-O1"};
    void *h = NULL;
    size_t len = 0;
    bool ok;

    snprintf(target, sizeof target, "-arch=%s", arch);
    if (!(is_in_order(ptx, n) && !link_api.create(&h, 4, option)) && link_api.create(&h, 3, option)) {
        sb_printf(said, "%s does not take %s", found, target);
        return false;
    }
    ok = !link_api.add(h, JITLINK_PTX, ptx, n, "kernel.ptx") && !link_api.complete(h) && !link_api.cubin_size(h, &len) && len;
    if (ok) {
        sb_pad(&out->cubin, 0, len);
        ok = !link_api.cubin(h, out->cubin.s);
    }
    put_log(h, link_api.error_size, link_api.error, said);
    put_log(h, link_api.info_size, link_api.info, said);
    link_api.destroy(&h);
    return ok;
}

/* ---- the driver ---- */

static bool by_driver(GpuDevice *g, const char *ptx, size_t n, GpuAssembly *out, StrBuf *said)
{
    enum { ROOM = 1 << 14 };
    char *log = tsr_calloc(2 * ROOM);
    int option[] = {CUDA_JIT_INFO_LOG, CUDA_JIT_INFO_LOG_BYTES, CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES, CUDA_JIT_LOG_VERBOSE,
                    CUDA_JIT_OPTIMIZATION_LEVEL};
    void *value[] = {log, (void *)(uintptr_t)(ROOM - 1), log + ROOM, (void *)(uintptr_t)(ROOM - 1), (void *)(uintptr_t)1,
                     (void *)(uintptr_t)(is_in_order(ptx, n) ? 1 : 4)};
    CUlinkState state = NULL;
    void *image = NULL;
    size_t len = 0;
    CUresult r = CUDA_SUCCESS;
    bool ok = g && (r = cu.CtxSetCurrent(g->state->context)) == CUDA_SUCCESS && (r = cu.LinkCreate(6, option, value, &state)) == CUDA_SUCCESS &&
              (r = cu.LinkAddData(state, CUDA_JIT_PTX, (void *)(uintptr_t)ptx, n + 1, "kernel.ptx", 0, NULL, NULL)) == CUDA_SUCCESS &&
              (r = cu.LinkComplete(state, &image, &len)) == CUDA_SUCCESS;

    if (ok)
        sb_write(&out->cubin, image, len);
    else if (!g)
        sb_puts(said, "neither ptxas nor nvJitLink is here, and no driver");
    sb_printf(said, "%s\n%s\n", log, log + ROOM);
    if (r != CUDA_SUCCESS)
        cuda_say(said, r);
    if (state)
        cu.LinkDestroy(state);
    tsr_free(log);
    return ok;
}

/* ---- the store ---- */

static Hash128 key_of(const char *ptx, size_t n, const char *arch)
{
    StrBuf b = {0};
    Hash128 h;

    sb_printf(&b, "cubin %d\n%s\n%s\n", FORMAT, identity, arch);
    sb_write(&b, ptx, n);
    h = hash_bytes128(b.s, b.n);
    sb_done(&b);
    return h;
}

typedef struct Kept { int32_t spills, registers, serialised, log; } Kept;

static bool recall(Hash128 key, GpuAssembly *out)
{
    StrBuf b = {0};
    Kept k;
    bool ok = store_get(key, &b) && b.n > sizeof k;

    if (ok) {
        memcpy(&k, b.s, sizeof k);
        ok = k.log >= 0 && (size_t)k.log < b.n - sizeof k;
    }
    if (ok) {
        out->spills = k.spills;
        out->registers = k.registers;
        out->serialised = k.serialised;
        out->found = true;
        sb_write(&out->log, b.s + sizeof k, (size_t)k.log);
        sb_write(&out->cubin, b.s + sizeof k + k.log, b.n - sizeof k - (size_t)k.log);
    }
    sb_done(&b);
    return ok;
}

static void keep(Hash128 key, GpuAssembly *a)
{
    Kept k = {a->spills, a->registers, a->serialised, (int32_t)a->log.n};
    StrBuf b = {0};

    sb_write(&b, (const char *)&k, sizeof k);
    sb_write(&b, sb_str(&a->log), a->log.n);
    sb_write(&b, a->cubin.s, a->cubin.n);
    store_put(key, b.s, b.n);
    sb_done(&b);
}

/* ---- all of it ---- */

/* "sm_90a" of the text's ".target sm_90a"; false: it names none. */
static bool target_of(const char *ptx, size_t n, char *arch, size_t room)
{
    static const char word[] = ".target";
    const char *p = memmem(ptx, n, word, sizeof word - 1), *end = ptx + n;
    size_t len = 0;

    for (p = p ? p + sizeof word - 1 : end; p < end && (*p == ' ' || *p == '\t'); p++) {}
    while (p + len < end && len + 1 < room && (p[len] == '_' || (p[len] >= '0' && p[len] <= '9') || (p[len] >= 'a' && p[len] <= 'z')))
        len++;
    snprintf(arch, room, "%.*s", (int)len, p);
    return len > 3 && !strncmp(arch, "sm_", 3);
}

/* A text for any chip from its target on is assembled for the one that is here: machine code of an older one would not run on it. */
static bool arch_for(const GpuDevice *g, const char *ptx, size_t n, char *arch, size_t room)
{
    if (!target_of(ptx, n, arch, room))
        return false;
    if (g && g->sm && arch[strlen(arch) - 1] != 'a')
        snprintf(arch, room, "sm_%d", g->sm);
    return true;
}

typedef struct Job { GpuDevice *g; const char *ptx; size_t n; const char *arch; GpuAssembly *out; StrBuf said; bool ok; } Job;

static void assemble_aside(void *arg)
{
    Job *j = arg;

    j->ok = way == BY_PTXAS ? by_ptxas(j->ptx, j->n, j->arch, j->out, &j->said) :
            way == BY_LIBRARY ? by_library(j->ptx, j->n, j->arch, j->out, &j->said) : by_driver(j->g, j->ptx, j->n, j->out, &j->said);
}

static bool assemble(GpuDevice *g, const char *ptx, size_t n, const char *arch, GpuAssembly *out)
{
    Hash128 key = key_of(ptx, n, arch);
    Job j = {.g = g, .ptx = ptx, .n = n, .arch = arch, .out = out};

    if (store_in_use() && recall(key, out))
        return true;
    if (way == BY_DRIVER && g && !gpu_enter(g))
        return false;
    cuda_aside(assemble_aside, &j);
    if (j.ok) {
        read_log(out, sb_str(&j.said));
        keep(key, out);
    } else {
        fault(FAULT_RUN, "E0746: PTX for %s cannot be assembled (%s): %.*s", arch, way == BY_DRIVER ? "by the driver" : found, 1200, sb_str(&j.said));
    }
    sb_done(&j.said);
    return j.ok;
}

bool gpu_assemble(GpuDevice *g, const char *ptx, size_t n, GpuAssembly *out)
{
    char arch[16];
    bool ok;

    *out = (GpuAssembly){0};
    gpu_lock();
    find_way();
    ok = arch_for(g, ptx, n, arch, sizeof arch) ? assemble(g, ptx, n, arch, out) : fault(FAULT_RUN, "E0746: PTX without a .target");
    gpu_unlock();
    return ok;
}

bool gpu_assemble_for(const char *arch, const char *ptx, size_t n, GpuAssembly *out)
{
    bool ok;

    *out = (GpuAssembly){0};
    gpu_lock();
    find_way();
    ok = assemble(NULL, ptx, n, arch, out);
    gpu_unlock();
    return ok;
}

/* ---- one of several, which other threads assemble meanwhile ---- */

typedef struct Text { char arch[16]; Hash128 key; GpuAssembly made; bool known; } Text;

/* false: nothing here assembles it, or it is for nobody. */
static bool text_begin(const GpuDevice *g, StrBuf *ptx, Text *t)
{
    bool ok;

    gpu_lock();
    ok = find_way() != BY_DRIVER && arch_for(g, sb_str(ptx), ptx->n, t->arch, sizeof t->arch);
    if (ok) {
        t->key = key_of(sb_str(ptx), ptx->n, t->arch);
        t->known = store_in_use() && recall(t->key, &t->made);
    }
    gpu_unlock();
    return ok;
}

static bool text_make(StrBuf *ptx, Text *t)
{
    Job j = {.ptx = sb_str(ptx), .n = ptx->n, .arch = t->arch, .out = &t->made};

    cuda_aside(assemble_aside, &j);
    if (j.ok) {
        gpu_lock();
        read_log(&t->made, sb_str(&j.said));
        keep(t->key, &t->made);
        gpu_unlock();
    }
    sb_done(&j.said);
    return j.ok;
}

void gpu_assemble_text(const GpuDevice *g, StrBuf *ptx, StrBuf *cubin)
{
    Text t = {.known = false};

    if (text_begin(g, ptx, &t) && (t.known || text_make(ptx, &t))) {
        *cubin = t.made.cubin;
        t.made.cubin = (StrBuf){0};
    }
    gpu_assembly_done(&t.made);
}

/* ---- meanwhile ---- */

struct GpuMaking { Text t; Job j; StrBuf ptx; pthread_t thread; bool runs; };

static _Atomic int makings;

int gpu_makings(void) { return makings; }

static void *make_meanwhile(void *arg)
{
    GpuMaking *m = arg;

    cuda_aside(assemble_aside, &m->j);
    makings--;
    return NULL;
}

GpuMaking *gpu_making_begin(const GpuDevice *g, const char *ptx, size_t n)
{
    GpuMaking *m = tsr_calloc(sizeof *m);

    sb_write(&m->ptx, ptx, n);
    if (text_begin(g, &m->ptx, &m->t)) {
        m->j = (Job){.ptx = sb_str(&m->ptx), .n = n, .arch = m->t.arch, .out = &m->t.made};
        makings += !m->t.known;
        m->runs = !m->t.known && !pthread_create(&m->thread, NULL, make_meanwhile, m);
        makings -= !m->t.known && !m->runs;
        if (m->runs || m->t.known)
            return m;
    }
    gpu_making_end(m, NULL);
    return NULL;
}

bool gpu_making_end(GpuMaking *m, StrBuf *cubin)
{
    bool ok = m->t.known;

    if (m->runs) {
        pthread_join(m->thread, NULL);
        ok = m->j.ok;
        if (ok) {
            read_log(&m->t.made, sb_str(&m->j.said));
            keep(m->t.key, &m->t.made);
        }
        sb_done(&m->j.said);
    }
    if (cubin && ok) {
        *cubin = m->t.made.cubin;
        m->t.made.cubin = (StrBuf){0};
    }
    gpu_assembly_done(&m->t.made);
    sb_done(&m->ptx);
    tsr_free(m);
    return ok;
}

void gpu_assembly_done(GpuAssembly *a)
{
    sb_done(&a->cubin);
    sb_done(&a->log);
}
