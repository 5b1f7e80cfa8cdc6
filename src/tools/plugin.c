/*
 * Plugins are loaded when the command line names them and stay until the
 * process ends: graphs hold no pointers into them, but passes are code of
 * theirs.  A path without a slash is one in this folder, not the linker's.
 */
#include "tools/plugin.h"

#include "tools/tessera_plugin.h"
#include "base/sym.h"
#include "ir/graph/foreign.h"

#include <dlfcn.h>
#include <string.h>

static const TesseraHost host = {TESSERA_PLUGIN_VERSION, foreign_pass_add};

static bool load(const char *path, StrBuf *err)
{
    StrBuf full = {0};
    void *lib;
    int (*begin)(const TesseraHost *);
    int code;

    sb_printf(&full, "%s%s", strchr(path, '/') ? "" : "./", path);
    lib = dlopen(sb_str(&full), RTLD_NOW | RTLD_LOCAL);
    sb_done(&full);
    if (!lib) {
        sb_printf(err, "cannot load the plugin %s: %s", path, dlerror());
        return false;
    }
    *(void **)&begin = dlsym(lib, "tessera_plugin");
    if (!begin) {
        sb_printf(err, "%s is no plugin: it does not export tessera_plugin (src/tools/tessera_plugin.h)", path);
        return false;
    }
    if ((code = begin(&host)))
        sb_printf(err, "the plugin %s does not work with this Tessera: it said %d", path, code);
    return !code;
}

bool plugins_load(const char *paths, StrBuf *err)
{
    for (size_t n; *paths; paths += n + (paths[n] == ',')) {
        n = strcspn(paths, ",");
        if (n && !load(sym_n(paths, n)->text, err))
            return false;
    }
    return true;
}
