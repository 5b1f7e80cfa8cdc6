/*
 * The C header of a bundle: tessera.h, then a typed function for each exported
 * one.  It needs nothing but the standard headers, in C and in C++.
 */
#include "tools/bundle/build.h"

#include <ctype.h>
#include <string.h>

/* A name as a C identifier. */
static void put_identifier(StrBuf *out, const char *s)
{
    for (; *s; s++)
        sb_putc(out, isalnum((unsigned char)*s) ? *s : '_');
}

static void put_upper(StrBuf *out, const char *s)
{
    for (; *s; s++)
        sb_putc(out, (char)toupper((unsigned char)*s));
}

/* Text within a comment. */
static void put_comment(StrBuf *out, const char *s)
{
    for (; *s; s++) {
        sb_putc(out, *s);
        if (*s == '\n')
            sb_puts(out, " * ");
        else if (*s == '*' && s[1] == '/')
            sb_putc(out, ' ');
    }
}

static void put_about(StrBuf *out, const ExportFunction *f)
{
    sb_puts(out, "\n/*\n * ");
    build_signature(f, out);
    for (int k = 0; k < f->form.n; k++)
        if (f->form.at[k].graph->conds.n) {
            sb_puts(out, k ? "\n *     or" : "\n *    ");
            graph_print_conds(f->form.at[k].graph, out);
        }
    if (f->doc && *f->doc) {
        sb_puts(out, "\n *\n * ");
        put_comment(out, f->doc);
    }
    sb_puts(out, "\n */\n");
}

/* Two names that become the same identifier get numbers. */
static void put_parameter(StrBuf *out, char *const *name, int i, const char *before)
{
    sb_puts(out, before);
    put_identifier(out, name[i]);
    for (int k = 0; k < i; k++) {
        StrBuf a = {0}, b = {0};
        put_identifier(&a, name[i]);
        put_identifier(&b, name[k]);
        bool same = !strcmp(sb_str(&a), sb_str(&b));
        sb_done(&a);
        sb_done(&b);
        if (same) {
            sb_printf(out, "_%d", i);
            return;
        }
    }
}

static void put_wrapper(StrBuf *out, const Building *b, const ExportFunction *f)
{
    int nin = f->input.n, nout = f->output.n;

    put_about(out, f);
    sb_printf(out, "static inline int %s_", b->name);
    put_identifier(out, f->name->text);
    sb_puts(out, "(tsr_bundle *bundle_");
    for (int i = 0; i < nin; i++)
        put_parameter(out, f->input.at, i, ", const tsr_array *in_");
    for (int i = 0; i < nout; i++)
        put_parameter(out, f->output.at, i, ", tsr_array *");
    sb_printf(out, ")\n{\n    tsr_function *function_ = tsr_find(bundle_, \"%s\");\n", f->name->text);
    sb_printf(out, "    tsr_array arrays_[%d];\n    int code_;\n\n    if (!function_)\n        return tsr_code();\n", nin + nout ? nin + nout : 1);
    for (int i = 0; i < nin; i++) {
        sb_printf(out, "    arrays_[%d] = *", i);
        put_parameter(out, f->input.at, i, "in_");
        sb_puts(out, ";\n");
    }
    for (int i = 0; i < nout; i++) {
        sb_printf(out, "    arrays_[%d] = *", nin + i);
        put_parameter(out, f->output.at, i, "");
        sb_puts(out, ";\n");
    }
    sb_printf(out, "    code_ = tsr_call(function_, arrays_, %d, arrays_ + %d, %d);\n", nin, nin, nout);
    for (int i = 0; i < nout; i++) {
        sb_puts(out, "    *");
        put_parameter(out, f->output.at, i, "");
        sb_printf(out, " = arrays_[%d];\n", nin + i);
    }
    sb_puts(out, "    return code_;\n}\n");
}

void build_header(Building *b)
{
    StrBuf path = {0}, guard = {0}, *out;

    sb_printf(&path, "%s.h", b->name);
    out = build_file(b, sb_str(&path));
    put_upper(&guard, b->name);
    sb_printf(out, "/*\n * %s.h - the functions of the bundle %s. Link with lib%s.so, which is beside this file.\n *\n"
              " * Each takes the bundle, its tensors, and places for its results (tsr_result() where the library makes them).\n"
              " * It returns TSR_OK or what is wrong: tsr_message() says it in words.\n */\n", b->name, b->name, b->name);
    sb_printf(out, "#ifndef TSR_BUNDLE_%s_H\n#define TSR_BUNDLE_%s_H\n\n", sb_str(&guard), sb_str(&guard));
    sb_write(out, bundle_interface, (size_t)(bundle_interface_end - bundle_interface));
    for (int i = 0; i < b->exports.function.n; i++)
        put_wrapper(out, b, &b->exports.function.at[i]);
    sb_puts(out, "\n#endif\n");
    sb_done(&path);
    sb_done(&guard);
}
