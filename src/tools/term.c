/* The rules of no-color.org and bixense.com/clicolors, in this order: option, NO_COLOR, FORCE_COLOR, terminal. */
#include "tools/term.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_dumb(void)
{
    const char *term = getenv("TERM");

    return !term || !*term || !strcmp(term, "dumb");
}

static bool env_on(const char *name)
{
    const char *v = getenv(name);

    return v && *v && strcmp(v, "0");
}

static bool wants_color(const Options *o, int fd)
{
    const char *choice = o->value[OPT_color];

    if (choice && strcmp(choice, "auto"))
        return !strcmp(choice, "always");
    if (getenv("NO_COLOR") && *getenv("NO_COLOR"))
        return false;
    if (env_on("FORCE_COLOR") || env_on("CLICOLOR_FORCE"))
        return true;
    return isatty(fd) && !is_dumb();
}

/* Lines and arrows beyond ASCII go only to terminals that can show them; files get what the locale says. */
static bool is_utf8(void)
{
    locale_t c = newlocale(LC_CTYPE_MASK, "", NULL);
    bool yes = c && !strcmp(nl_langinfo_l(CODESET, c), "UTF-8");

    if (c)
        freelocale(c);
    return yes;
}

DiagStyle term_style(const Options *o, int fd)
{
    return (DiagStyle){.color = wants_color(o, fd), .ascii = option_on(o, OPT_ascii) || !is_utf8()};
}

bool term_is_smart(int fd)
{
    return isatty(fd) && isatty(STDOUT_FILENO) && !is_dumb();
}
