/*
 * eval.c - any text, checked and run.
 *
 * What runs long is interrupted (fuel.h); files cannot be opened for writing.
 */
#include "fuel.h"

#include "base/interrupt.h"
#include "base/vfs.h"
#include "frontend/check/scope.h"
#include "frontend/eval/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int open_read_only(const char *path, int flags, int mode, int *fd)
{
    return (flags & O_ACCMODE) == O_RDONLY ? vfs_posix.open(path, flags, mode, fd) : EROFS;
}

static void limit(void)
{
    static Vfs vfs;

    vfs = vfs_posix;
    vfs.open = open_read_only;
    vfs_set(&vfs);
    fuel_start();
}

static void run(Unit *u)
{
    static char name[] = "fuzz", *argv[] = {name, NULL};
    static Interp *I;           /* one for all inputs, as in a session */
    InterpOptions o = {.argc = 1, .argv = argv};

    I = I ? I : interp_new(&o);

    if (!interp_run_unit(I, u, sym("__main__"))) {
        StrBuf out = {0};
        Value exc = exc_take(I);
        tsr_interrupted = 0;
        exc_render(I, exc, &out);
        value_unref(exc);
        sb_done(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    DiagSink sink = {0};
    const Source *src;
    Scope *globals;
    Unit *u;

    if (utf8_check(text, n) < n || memmem(text, n, "input", 5) || memmem(text, n, "sleep", 5))
        return 0;
    limit();
    src = source_add("fuzz.tsr", text, n);
    u = unit_parse(src, &sink);
    globals = scope_new_module(sym("__main__"));
    if (!sink.errors)
        scope_resolve(u, globals, (ScopeOptions){0}, &sink);
    if (!sink.errors)
        run(u);
    diag_sink_done(&sink);
    return 0;               /* units stay: functions that a cycle keeps alive point into them */
}
