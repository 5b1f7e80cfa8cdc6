/* docs/explain/CODE.md, made into a table by embed.py at build time. A page's first line is "# CODE: title". */
#include "tools/explain.h"

#include "base/diag.h"
#include "base/sym.h"
#include "tools/embed.h"

#include <ctype.h>
#include <string.h>

static const Embedded *find(const char *code)
{
    for (int i = 0; i < explain_pages_count; i++)
        if (!strcmp(explain_pages[i].name, code))
            return &explain_pages[i];
    return NULL;
}

static const char *next_code(void *state)
{
    int *i = state;

    return *i < DIAG_COUNT ? diag_code_name((DiagCode)(*i)++) : NULL;
}

bool explain_code(const char *code, StrBuf *out, StrBuf *err)
{
    char name[16];
    size_t n = strlen(code);
    const Embedded *page;
    const char *near;
    int i = 0;

    n = n < sizeof name ? n : sizeof name - 1;
    for (size_t k = 0; k < n; k++)
        name[k] = (char)toupper((unsigned char)code[k]);
    name[n] = 0;
    page = find(name);
    if (page) {
        sb_write(out, page->text, page->len);
        return true;
    }
    near = closest_name(name, next_code, &i);
    sb_printf(err, "there is no error code '%s'; ", code);
    if (near)
        sb_printf(err, "did you mean %s?", near);
    else
        sb_puts(err, "'tessera explain' lists them");
    return false;
}

/* What follows "# CODE: " on the first line. */
static void put_title(StrBuf *out, const Embedded *page)
{
    const char *colon = memchr(page->text, ':', page->len);
    const char *s = colon ? colon + 1 : page->text;

    s += *s == ' ';
    sb_write(out, s, strcspn(s, "\n"));
}

void explain_list(StrBuf *out)
{
    for (int i = 0; i < DIAG_COUNT; i++) {
        const Embedded *page = find(diag_code_name((DiagCode)i));
        sb_printf(out, "%s", diag_code_name((DiagCode)i));
        if (page) {
            sb_puts(out, "  ");
            put_title(out, page);
        }
        sb_putc(out, '\n');
    }
}
