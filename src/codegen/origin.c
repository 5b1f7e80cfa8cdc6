/*
 * The linker leaves a hash of all that it linked in the program, the build id;
 * version numbers could forget what changed between two builds of a developer.
 * Of the CPU the answers of cpuid count from which LLVM derives name and
 * features, without those fields that differ between cores.
 */
#include "codegen/origin.h"

#include "base/strbuf.h"
#include "runtime/cpu.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---- the program ---- */

enum { ALIGN = 3 };

static bool find_build_id(const char *p, size_t n, StrBuf *out)
{
    while (n >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) h;
        size_t name, all;
        memcpy(&h, p, sizeof h);
        name = sizeof h + ((h.n_namesz + ALIGN) & ~(size_t)ALIGN);
        all = name + ((h.n_descsz + ALIGN) & ~(size_t)ALIGN);
        if (all > n)
            return false;
        if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && !memcmp(p + sizeof h, "GNU", 4) && h.n_descsz) {
            sb_write(out, p + name, h.n_descsz);
            return true;
        }
        p += all;
        n -= all;
    }
    return false;
}

/* The first object is the program. */
static int of_program(struct dl_phdr_info *o, size_t size, void *out)
{
    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_NOTE &&
            find_build_id((const char *)(uintptr_t)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr), o->dlpi_phdr[i].p_memsz, out))
            return 1;
    return 2;
}

/* ---- the machine ---- */

#if defined(__x86_64__)

static const struct { unsigned leaf, part; bool a, b, c, d; } questions[] = {
    {0, 0, true, true, true, true},
    {1, 0, true, false, true, true},            /* b has the core's number */
    {7, 0, true, true, true, true},
    {7, 1, true, true, true, true},
    {0xd, 1, true, false, false, false},        /* the others are sizes of the state in use */
    {0x14, 0, true, true, true, true},
    {0x19, 0, false, true, false, false},
    {0x24, 0, true, true, false, false},
    {0x80000001, 0, false, false, true, true},
    {0x80000008, 0, false, true, false, false},
};

static void put_cpu(StrBuf *out)
{
    unsigned a, b, c, d;

    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (__get_cpuid_count(questions[i].leaf, questions[i].part, &a, &b, &c, &d))
            sb_printf(out, " %x:%x:%x:%x", questions[i].a ? a : 0, questions[i].b ? b : 0, questions[i].c ? c : 0, questions[i].d ? d : 0);
    if (__get_cpuid(1, &a, &b, &c, &d) && c & bit_OSXSAVE) {    /* the registers that the system saves */
        __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        sb_printf(out, " %x:%x", a, d);
    }
}

#else

static void put_cpu(StrBuf *out) {}

#endif

bool code_origin(Hash128 *out)
{
    const char *want = getenv("TESSERA_CPU");
    StrBuf text = {0};
    bool known = dl_iterate_phdr(of_program, &text) == 1;

    sb_printf(&text, " %s%s", cpu()->name, want && !strcmp(want, cpu()->name) ? " only" : "");
    put_cpu(&text);
    *out = hash_bytes128(text.s, text.n);
    sb_done(&text);
    return known;
}
