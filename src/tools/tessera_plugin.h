/*
 * tessera_plugin.h - passes of other makers: a shared library that `tessera --plugin=./lib.so` loads.
 *
 * The library exports tessera_plugin, which is called once and adds its passes.  A pass gets each graph that is staged as
 * text (docs/ir.md: versioned, complete) and gives its own, or none to leave it as it is.  What it gives is read and
 * verified, and must take and give what the graph did.
 */
#ifndef TSR_TOOLS_TESSERA_PLUGIN_H
#define TSR_TOOLS_TESSERA_PLUGIN_H

#ifdef __cplusplus
extern "C" {
#endif

enum { TESSERA_PLUGIN_VERSION = 1 };

typedef void (*TesseraGive)(void *to, const char *graph);       /* the text is copied */
typedef void (*TesseraGraphPass)(const char *graph, TesseraGive give, void *to, void *state);

typedef struct TesseraHost {
    int version;                        /* TESSERA_PLUGIN_VERSION of the host */
    /* name and help are copied. The pass is called from one thread at a time. */
    void (*add_graph_pass)(const char *name, const char *help, TesseraGraphPass pass, void *state);
} TesseraHost;

/* Exported by the library: 0, or another number when it cannot work with this host. */
int tessera_plugin(const TesseraHost *host);

#ifdef __cplusplus
}
#endif

#endif
