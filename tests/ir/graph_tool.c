/*
 * graph_tool PASSES FILE: read a graph, run passes in order (comma-separated; fuse and recompute are two here),
 * print it.  The text ends at a line `# ----`.  What is wrong with the text goes to standard error, exit code 1.
 * suites/graphs.py runs it on the .tgir files beside it.
 */
#include "ir/graph/trace.h"
#include "ir/schedule/schedule.h"
#include "runtime/kernels.h"

#include <stdio.h>
#include <string.h>

static bool read_file(const char *path, StrBuf *out)
{
    FILE *f = fopen(path, "rb");
    char buf[4096];
    size_t n;

    if (!f)
        return false;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0)
        sb_write(out, buf, n);
    fclose(f);
    return true;
}

/* The pass of that name, or one that makes a new graph, if it finds something to do. */
static bool run_pass(Graph **g, const char *name, StrBuf *err)
{
    const PassInfo *pass = graph_pass_find(name);
    bool fuse = !strcmp(name, "fuse");

    if (fuse || !strcmp(name, "recompute")) {
        Graph *made = fuse ? schedule_fuse(*g) : schedule_recompute(*g);
        if (made) {
            graph_unref(*g);
            *g = made;
        }
        return true;
    }
    if (!pass) {
        sb_printf(err, "no pass '%s'", name);
        return false;
    }
    pass->run(*g);
    return true;
}

static bool run_passes(Graph **g, char *names, StrBuf *err)
{
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        if (!run_pass(g, name, err) || !graph_verify(*g, err))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    StrBuf text = {0}, out = {0}, err = {0};
    const char *wanted;
    Graph *g;
    bool ok;

    if (argc != 3 || !read_file(argv[2], &text)) {
        fputs("usage: graph_tool PASSES FILE\n", stderr);
        return 2;
    }
    if ((wanted = strstr(sb_str(&text), "# ----")))
        text.n = (size_t)(wanted - text.s);
    g = graph_parse(sb_str(&text), text.n, &err);
    ok = g && run_passes(&g, argv[1], &err);
    if (ok)
        graph_print(g, &out);
    fputs(sb_str(ok ? &out : &err), ok ? stdout : stderr);
    graph_unref(g);
    sb_done(&text);
    sb_done(&out);
    sb_done(&err);
    return !ok;
}
