/* $TESSERA_CACHE, else $XDG_CACHE_HOME/tessera, else ~/.cache/tessera; an empty TESSERA_CACHE means none. */
#include "tools/cache.h"

#include "frontend/tensor/memory.h"
#include "runtime/store.h"
#include "tools/program.h"

#include <stdlib.h>
#include <string.h>

static const int64_t LIMIT = (int64_t)256 << 20;

/* Nothing in *out: there is no place. */
static void put_folder(StrBuf *out)
{
    const char *own = getenv("TESSERA_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (own)
        sb_puts(out, own);
    else if (xdg && *xdg == '/')
        sb_printf(out, "%s/tessera", xdg);
    else if (home && *home == '/')
        sb_printf(out, "%s/.cache/tessera", home);
}

static int64_t limit(void)
{
    const char *text = getenv("TESSERA_CACHE_SIZE");
    int64_t n;

    return text && quantity_of_bytes(text, &n) ? n : LIMIT;
}

/* A program runs with a size that nobody can read as if none were given; the verb says so. */
static bool size_is_read(StrBuf *err)
{
    const char *text = getenv("TESSERA_CACHE_SIZE");
    int64_t n;

    if (!text || quantity_of_bytes(text, &n))
        return true;
    sb_printf(err, "TESSERA_CACHE_SIZE is a size such as 64MB, not '%s'", text);
    return false;
}

void cache_begin(void)
{
    StrBuf folder = {0};

    put_folder(&folder);
    store_begin(sb_str(&folder), limit());
    sb_done(&folder);
}

static void show(const char *folder, const StoreSurvey *s, bool there, StrBuf *out)
{
    sb_printf(out, "folder: %s%s\n", folder, there ? "" : " (made when there is something to keep)");
    sb_printf(out, "kernels: %lld\n", (long long)s->entries);
    sb_printf(out, "size: %.1f MB of at most %.1f MB\n", (double)s->bytes / (1 << 20), (double)limit() / (1 << 20));
}

static int answer(const char *folder, bool clear, StrBuf *out, StrBuf *err)
{
    StoreSurvey s;
    StrBuf why = {0};
    bool there = store_survey(&s, &why);

    if (why.n)
        sb_printf(err, "no kernels are kept in '%s': %s; mend that (chmod go-w, chown), or name another folder in TESSERA_CACHE", folder,
                  sb_str(&why));
    else if (!*folder)
        sb_puts(out, getenv("TESSERA_CACHE") ? "off: TESSERA_CACHE is empty\n" : "off: there is no HOME; TESSERA_CACHE names a folder\n");
    else if (clear)
        sb_printf(out, "removed: %lld\n", (long long)store_clear());
    else
        show(folder, &s, there, out);
    sb_done(&why);
    return err->n ? EXIT_MISTAKE : EXIT_OK;
}

int cache_verb(const Options *o, StrBuf *out, StrBuf *err)
{
    const char *what = o->noperands ? o->operand[0] : NULL;
    StrBuf folder = {0};
    int code = EXIT_USAGE;

    put_folder(&folder);
    if (what && strcmp(what, "clear") != 0)
        sb_printf(err, "'tessera cache' takes nothing, or clear, not '%s'", what);
    else if (!size_is_read(err))
        code = EXIT_MISTAKE;
    else
        code = answer(sb_str(&folder), what, out, err);
    sb_done(&folder);
    return code;
}
