/*
 * A loader of ELF objects for x86-64.
 *
 * An object's sections are laid out in one mapping, in three parts with
 * permissions of their own:
 *
 *     code, and a stub for each symbol from outside   read, execute
 *     constants, and an address for each symbol       read
 *     data                                            read, write
 *
 * Calls reach 2 GiB, and what is offered may be further away; hence stubs.  The
 * bytes may come from a damaged file: every place and size is checked before it
 * is used, so that the worst a bad object does is to be refused.
 */
#include "runtime/code.h"

#include "base/alloc.h"

#include <elf.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STUB = 16, TABLES = 16 };
typedef enum { PART_CODE, PART_CONST, PART_DATA, PARTS } Part;

typedef struct Named { char *name; CodeFn *address; } Named;

struct Code {
    char *image;
    size_t size;
    Named *named;
    size_t nnamed;
};

/* ---- what code may call ---- */

#define OWN(f) {#f, (CodeFn *)(f)}
static const CodeSymbol always[] = {        /* what LLVM makes of operations that a machine lacks */
    OWN(memcpy), OWN(memmove), OWN(memset), OWN(fma), OWN(fmaf), OWN(floor), OWN(floorf), OWN(ceil), OWN(ceilf), OWN(rint),
    OWN(rintf), OWN(trunc), OWN(truncf),
};
static struct { const CodeSymbol *at; int n; } offered[TABLES] = {{always, sizeof always / sizeof *always}};
static int noffered = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void code_offer(const CodeSymbol *table, int n)
{
    pthread_mutex_lock(&lock);
    if (noffered == TABLES)
        tsr_bug("more than %d tables of symbols", TABLES);
    offered[noffered].at = table;
    offered[noffered++].n = n;
    pthread_mutex_unlock(&lock);
}

static CodeFn *find_offered(const char *name)
{
    CodeFn *found = NULL;

    pthread_mutex_lock(&lock);
    for (int t = 0; t < noffered && !found; t++)
        for (int i = 0; i < offered[t].n && !found; i++)
            if (!strcmp(offered[t].at[i].name, name))
                found = offered[t].at[i].address;
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- reading an object ---- */

typedef struct Loader {
    const char *bytes;
    size_t n;
    Elf64_Ehdr head;
    Elf64_Shdr *section;        /* head.e_shnum of them */
    size_t *place;              /* of each section in the image; SIZE_MAX: not loaded */
    size_t first[PARTS + 1];    /* where each part begins */
    const char *names;          /* the string table of symbols */
    size_t names_size;
    Elf64_Sym *symbol;
    size_t nsymbols, stubs, addresses;      /* places of the tables in the image */
    CodeFn **outside;           /* of each symbol that the object does not define */
    char *image;
    StrBuf *err;
} Loader;

static bool refuse(Loader *l, const char *why)
{
    sb_printf(l->err, "not a loadable object: %s", why);
    return false;
}

static bool inside(const Loader *l, uint64_t at, uint64_t size) { return at <= l->n && size <= l->n - at; }

static const char *symbol_name(const Loader *l, const Elf64_Sym *s) { return s->st_name < l->names_size ? l->names + s->st_name : ""; }

static bool read_head(Loader *l)
{
    static const unsigned char magic[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    size_t size;

    if (l->n < sizeof l->head)
        return refuse(l, "too short");
    memcpy(&l->head, l->bytes, sizeof l->head);
    if (memcmp(l->head.e_ident, magic, sizeof magic) != 0 || l->head.e_type != ET_REL || l->head.e_machine != EM_X86_64)
        return refuse(l, "not an object for x86-64");
    size = l->head.e_shnum * sizeof *l->section;
    if (l->head.e_shentsize != sizeof *l->section || !inside(l, l->head.e_shoff, size))
        return refuse(l, "no section table");
    l->section = tsr_alloc(size + 1);
    memcpy(l->section, l->bytes + l->head.e_shoff, size);
    for (int i = 0; i < l->head.e_shnum; i++) {
        const Elf64_Shdr *s = &l->section[i];
        if ((s->sh_type != SHT_NOBITS && !inside(l, s->sh_offset, s->sh_size)) || s->sh_size > UINT32_MAX ||
            s->sh_addralign > 4096 || (s->sh_addralign & (s->sh_addralign - 1)))
            return refuse(l, "a section beyond its end");
    }
    return true;
}

static bool read_symbols(Loader *l)
{
    const Elf64_Shdr *table = NULL, *text;
    size_t size;

    for (int i = 0; i < l->head.e_shnum; i++)
        if (l->section[i].sh_type == SHT_SYMTAB)
            table = &l->section[i];
    if (!table)
        return refuse(l, "no symbols");
    text = table->sh_link < l->head.e_shnum ? &l->section[table->sh_link] : NULL;
    if (!text || text->sh_type != SHT_STRTAB || !text->sh_size || l->bytes[text->sh_offset + text->sh_size - 1])
        return refuse(l, "no names of symbols");
    l->names = l->bytes + text->sh_offset;
    l->names_size = text->sh_size;
    l->nsymbols = table->sh_size / sizeof *l->symbol;
    size = l->nsymbols * sizeof *l->symbol;
    l->symbol = tsr_alloc(size + 1);
    memcpy(l->symbol, l->bytes + table->sh_offset, size);
    l->outside = tsr_calloc(l->nsymbols * sizeof *l->outside + 1);
    for (size_t i = 0; i < l->nsymbols; i++) {
        const Elf64_Sym *s = &l->symbol[i];
        if (s->st_shndx == SHN_UNDEF && *symbol_name(l, s) && !(l->outside[i] = find_offered(symbol_name(l, s)))) {
            sb_printf(l->err, "code calls %s, which is not offered", symbol_name(l, s));
            return false;
        }
        if (s->st_shndx != SHN_UNDEF && s->st_shndx < SHN_LORESERVE &&
            (s->st_shndx >= l->head.e_shnum || s->st_value > l->section[s->st_shndx].sh_size))
            return refuse(l, "a symbol outside its section");
    }
    return true;
}

/* ---- laying out ---- */

/* Unwinding tables are for exceptions, which our code does not throw. */
static bool is_loaded(const Elf64_Shdr *s)
{
    return s->sh_flags & SHF_ALLOC && (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOBITS) && !(s->sh_flags & SHF_TLS);
}

static Part part_of(const Elf64_Shdr *s)
{
    return s->sh_flags & SHF_EXECINSTR ? PART_CODE : s->sh_flags & SHF_WRITE ? PART_DATA : PART_CONST;
}

static size_t aligned(size_t at, size_t to) { return to > 1 ? (at + to - 1) & ~(to - 1) : at; }

static void lay_out(Loader *l)
{
    size_t at = 0;

    l->place = tsr_alloc(l->head.e_shnum * sizeof *l->place + 1);
    for (int i = 0; i < l->head.e_shnum; i++)
        l->place[i] = SIZE_MAX;
    for (Part p = PART_CODE; p < PARTS; p++) {
        l->first[p] = at = aligned(at, (size_t)sysconf(_SC_PAGESIZE));
        for (int i = 0; i < l->head.e_shnum; i++)
            if (is_loaded(&l->section[i]) && part_of(&l->section[i]) == p) {
                l->place[i] = at = aligned(at, l->section[i].sh_addralign);
                at += l->section[i].sh_size;
            }
        if (p == PART_CODE) {
            l->stubs = at = aligned(at, STUB);
            at += l->nsymbols * STUB;
        } else if (p == PART_CONST) {
            l->addresses = at = aligned(at, sizeof(void *));
            at += l->nsymbols * sizeof(void *);
        }
    }
    l->first[PARTS] = aligned(at, (size_t)sysconf(_SC_PAGESIZE));
}

static void copy_sections(Loader *l)
{
    for (int i = 0; i < l->head.e_shnum; i++)
        if (l->place[i] != SIZE_MAX && l->section[i].sh_type == SHT_PROGBITS)
            memcpy(l->image + l->place[i], l->bytes + l->section[i].sh_offset, l->section[i].sh_size);
}

/* The address of a symbol; 0: it has none here. */
static uint64_t address_of(const Loader *l, size_t i)
{
    const Elf64_Sym *s = &l->symbol[i];

    if (l->outside[i])
        return (uint64_t)l->outside[i];
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= SHN_LORESERVE || l->place[s->st_shndx] == SIZE_MAX)
        return 0;
    return (uint64_t)(l->image + l->place[s->st_shndx]) + s->st_value;
}

/* stub: jmp *0(%rip); the address */
static void fill_tables(Loader *l)
{
    static const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0};

    for (size_t i = 0; i < l->nsymbols; i++) {
        uint64_t to = address_of(l, i);
        memcpy(l->image + l->addresses + i * sizeof to, &to, sizeof to);
        if (l->outside[i]) {
            memcpy(l->image + l->stubs + i * STUB, jump, sizeof jump);
            memcpy(l->image + l->stubs + i * STUB + sizeof jump, &to, sizeof to);
        }
    }
}

/* ---- relocations ---- */

static bool put(Loader *l, char *at, uint64_t v, size_t size)
{
    int64_t s = (int64_t)v;

    if (size == 4 && s != (int32_t)s)
        return refuse(l, "an address out of reach");
    memcpy(at, &v, size);
    return true;
}

static bool relocate(Loader *l, size_t section, const Elf64_Rela *r)
{
    uint32_t type = ELF64_R_TYPE(r->r_info);
    size_t i = ELF64_R_SYM(r->r_info), size = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    uint64_t add = (uint64_t)r->r_addend, here, to;
    char *at;

    if (i >= l->nsymbols || r->r_offset > l->section[section].sh_size || size > l->section[section].sh_size - r->r_offset)
        return refuse(l, "a relocation beyond its section");
    at = l->image + l->place[section] + r->r_offset;
    here = (uint64_t)at;
    if (!(to = address_of(l, i)))
        return refuse(l, "a relocation to nothing");
    switch (type) {
    case R_X86_64_64:
        return put(l, at, to + add, size);
    case R_X86_64_PLT32:
        if (l->outside[i])
            to = (uint64_t)(l->image + l->stubs + i * STUB);
        return put(l, at, to + add - here, size);
    case R_X86_64_PC32: case R_X86_64_PC64:
        return put(l, at, to + add - here, size);
    case R_X86_64_GOTPCREL: case R_X86_64_GOTPCRELX: case R_X86_64_REX_GOTPCRELX:
        return put(l, at, (uint64_t)(l->image + l->addresses + i * sizeof to) + add - here, size);
    default:
        return refuse(l, "an unknown relocation");
    }
}

static bool relocate_all(Loader *l)
{
    for (int i = 0; i < l->head.e_shnum; i++) {
        const Elf64_Shdr *s = &l->section[i];
        if (s->sh_type != SHT_RELA || s->sh_info >= l->head.e_shnum || l->place[s->sh_info] == SIZE_MAX)
            continue;
        if (l->section[s->sh_info].sh_type != SHT_PROGBITS)
            return refuse(l, "relocations of zeros");
        for (size_t k = 0; k + sizeof(Elf64_Rela) <= s->sh_size; k += sizeof(Elf64_Rela)) {
            Elf64_Rela r;
            memcpy(&r, l->bytes + s->sh_offset + k, sizeof r);
            if (!relocate(l, s->sh_info, &r))
                return false;
        }
    }
    return true;
}

static bool protect(Loader *l)
{
    static const int may[PARTS] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};

    for (Part p = PART_CODE; p < PARTS; p++)
        if (l->first[p + 1] > l->first[p] && mprotect(l->image + l->first[p], l->first[p + 1] - l->first[p], may[p]))
            return refuse(l, "the system does not let it run");
    return true;
}

/* ---- the whole ---- */

static Code *finish(Loader *l)
{
    Code *c = tsr_calloc(sizeof *c);

    c->image = l->image;
    c->size = l->first[PARTS];
    c->named = tsr_alloc(l->nsymbols * sizeof *c->named + 1);
    for (size_t i = 0; i < l->nsymbols; i++) {
        const Elf64_Sym *s = &l->symbol[i];
        const char *name = symbol_name(l, s);
        if (l->outside[i] || ELF64_ST_BIND(s->st_info) != STB_GLOBAL || ELF64_ST_TYPE(s->st_info) != STT_FUNC || !address_of(l, i))
            continue;
        Named *to = &c->named[c->nnamed++];
        to->name = memcpy(tsr_alloc(strlen(name) + 1), name, strlen(name) + 1);
        uint64_t address = address_of(l, i);
        memcpy(&to->address, &address, sizeof to->address);
    }
    return c;
}

static bool load(Loader *l)
{
    if (!read_head(l) || !read_symbols(l))
        return false;
    lay_out(l);
    if (!l->first[PARTS])
        return refuse(l, "nothing in it");
    l->image = mmap(NULL, l->first[PARTS], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (l->image == MAP_FAILED) {
        l->image = NULL;
        return refuse(l, "no memory for it");
    }
    copy_sections(l);
    fill_tables(l);
    return relocate_all(l) && protect(l);
}

Code *code_load(const void *object, size_t n, StrBuf *err)
{
    Loader l = {.bytes = object, .n = n, .err = err};
    Code *c = load(&l) ? finish(&l) : NULL;

    if (!c && l.image)
        munmap(l.image, l.first[PARTS]);
    tsr_free(l.section);
    tsr_free(l.symbol);
    tsr_free(l.outside);
    tsr_free(l.place);
    return c;
}

CodeFn *code_find(const Code *c, const char *name)
{
    for (size_t i = 0; i < c->nnamed; i++)
        if (!strcmp(c->named[i].name, name))
            return c->named[i].address;
    return NULL;
}

void code_free(Code *c)
{
    if (!c)
        return;
    munmap(c->image, c->size);
    for (size_t i = 0; i < c->nnamed; i++)
        tsr_free(c->named[i].name);
    tsr_free(c->named);
    tsr_free(c);
}
