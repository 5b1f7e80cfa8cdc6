/*
 * replay.c - inputs that a fuzzer once found, read again.
 *
 *     replay FOLDER          each file FOLDER/TARGET/NAME goes through fuzz_TARGET (fuzz/targets.def)
 *
 * What a target finds wrong ends the process; suites/robust.py runs this plain and under the sanitizers.
 */
#include "targets.h"

#include "base/strbuf.h"
#include "base/vfs.h"

#include <dirent.h>
#include <stdio.h>

static const struct { const char *name; void (*run)(const uint8_t *, size_t); } targets[] = {
#define TARGET(name, change, what) {#name, fuzz_##name},
#include "targets.def"
};

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max)
{
    return n < max ? n : max;
}

/* Each file of the folder through the target; how many, -1: a file cannot be read. */
static int replay(const char *folder, void (*run)(const uint8_t *, size_t))
{
    DIR *d = opendir(folder);
    struct dirent *e;
    int count = 0;

    while (d && count >= 0 && (e = readdir(d))) {
        StrBuf path = {0};
        char *data;
        size_t n;
        if (e->d_name[0] == '.')
            continue;
        sb_printf(&path, "%s/%s", folder, e->d_name);
        fprintf(stderr, "%s\n", path.s);
        vfs_set(NULL);
        if (vfs_read_file(path.s, 1 << 20, &data, &n)) {
            count = -1;
        } else {
            run((const uint8_t *)data, n);
            tsr_free(data);
            count++;
        }
        sb_done(&path);
    }
    if (d)
        closedir(d);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (size_t i = 0; argc == 2 && i < sizeof targets / sizeof *targets; i++) {
        StrBuf folder = {0};
        int n;
        sb_printf(&folder, "%s/%s", argv[1], targets[i].name);
        n = replay(folder.s, targets[i].run);
        sb_done(&folder);
        if (n < 0)
            return 1;
        total += n;
    }
    printf("%d inputs\n", total);
    return total ? 0 : 1;
}
