/* plugin.h - libraries of passes (src/tools/tessera_plugin.h). */
#ifndef TSR_TOOLS_PLUGIN_H
#define TSR_TOOLS_PLUGIN_H

#include "base/strbuf.h"

#include <stdbool.h>

/* Load libraries, separated by commas, and let them add their passes. false: *err says which cannot be, and why. */
bool plugins_load(const char *paths, StrBuf *err);

#endif
