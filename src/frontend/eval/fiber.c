/*
 * Stack switching.  The switch saves what the C calling convention says a
 * callee must keep, stores the stack pointer, and loads the other one; 20
 * instructions, no system call.  Other machines use ucontext.
 */
#include "frontend/eval/fiber.h"

#include "base/alloc.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
enum { MARGIN = 256 << 10, SCALE = 4 };
#else
enum { MARGIN = 96 << 10, SCALE = 1 };
#endif

enum { GUARD = 4096, POOL_MAX = 512, GUARDED_MAX = 8192 };

void tsr_fiber_switch(void **save, void *load);
void tsr_fiber_start(void);

#if defined(__x86_64__)
__asm__(".text\n.globl tsr_fiber_switch\n.type tsr_fiber_switch,@function\n"
        "tsr_fiber_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size tsr_fiber_switch,.-tsr_fiber_switch\n"
        ".globl tsr_fiber_start\n.type tsr_fiber_start,@function\n"
        "tsr_fiber_start:\n  movq %r12, %rdi\n  xorl %ebp, %ebp\n  callq *%r13\n  ud2\n"
        ".size tsr_fiber_start,.-tsr_fiber_start\n");
enum { SAVED = 7 };

/* The stack as the switch would have left it: r15 r14 r13 r12 rbx rbp, return address. */
static void *first_stack(char *top, void (*entry)(Fiber *), Fiber *f)
{
    void **sp = (void **)((uintptr_t)top & ~(uintptr_t)15) - 2;   /* so that the call finds it aligned */

    sp -= SAVED;
    memset(sp, 0, SAVED * sizeof *sp);
    sp[2] = (void *)(uintptr_t)entry;
    sp[3] = f;
    sp[6] = (void *)(uintptr_t)tsr_fiber_start;
    return sp;
}
#elif defined(__aarch64__)
__asm__(".text\n.globl tsr_fiber_switch\n.type tsr_fiber_switch,%function\n"
        "tsr_fiber_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n  ret\n"
        ".globl tsr_fiber_start\n.type tsr_fiber_start,%function\n"
        "tsr_fiber_start:\n  mov x0, x19\n  mov x29, xzr\n  blr x20\n  brk #1\n");

static void *first_stack(char *top, void (*entry)(Fiber *), Fiber *f)
{
    void **sp = (void **)((uintptr_t)top & ~(uintptr_t)15) - 20;

    memset(sp, 0, 20 * sizeof *sp);
    sp[0] = f;
    sp[1] = (void *)(uintptr_t)entry;
    sp[11] = (void *)(uintptr_t)tsr_fiber_start;
    return sp;
}
#else
#include <ucontext.h>
#define USE_UCONTEXT 1
#endif

#ifdef HAS_ASAN
static void before(Fiber *from, const Fiber *to)
{
    __sanitizer_start_switch_fiber(from->done ? NULL : &from->fake, to->base, to->size);
}

static void after(Fiber *self, Fiber *came_from)
{
    const void *base;
    size_t size;

    __sanitizer_finish_switch_fiber(self->fake, &base, &size);
    if (!came_from->base) {                 /* the process's own stack: learn where it is */
        came_from->base = (char *)(uintptr_t)base;
        came_from->size = size;
    }
}

/* Frames that never returned leave their marks on a stack: entry's own, when its function came to an end. */
static void wipe_marks(const Fiber *f)
{
    size_t n = f->done && f->size > MARGIN ? MARGIN : f->size;

    __asan_unpoison_memory_region(f->base + f->size - n, n);
}
#else
static void wipe_marks(const Fiber *f) { (void)f; }
static void before(Fiber *from, const Fiber *to) { (void)from, (void)to; }
static void after(Fiber *self, Fiber *came_from) { (void)self, (void)came_from; }
#endif

#ifdef USE_UCONTEXT
static Fiber *starting;         /* whom the next switch goes to: a new context takes it from here */

static void jump(Fiber *from, Fiber *to)
{
    starting = to;
    if (!from->sp)
        from->sp = tsr_calloc(sizeof(ucontext_t));
    swapcontext(from->sp, to->sp);
}
#else
static void jump(Fiber *from, Fiber *to)
{
    tsr_fiber_switch(&from->sp, to->sp);
}
#endif

static void entry(Fiber *f)
{
    after(f, f->caller);
    f->fn(f->arg);
    f->done = true;
    fiber_suspend(f);
    tsr_bug("a finished fiber was resumed");
}

#ifdef USE_UCONTEXT
static void trampoline(void) { entry(starting); }

static void *first_stack(char *top, void (*fn)(Fiber *), Fiber *f)
{
    ucontext_t *u = f->sp ? f->sp : tsr_calloc(sizeof *u);

    (void)fn;
    getcontext(u);
    u->uc_stack.ss_sp = f->base + GUARD;
    u->uc_stack.ss_size = (size_t)(top - f->base - GUARD);
    makecontext(u, trampoline, 0);
    return u;
}
#endif

/* Idle small stacks, linked through `caller`. */
static Fiber *pool;
static int pooled, live;

static bool map_stack(Fiber *f, size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (p == MAP_FAILED)
        return false;
    if (live < GUARDED_MAX)                 /* a guard splits the mapping, and the kernel allows 65530 of them */
        mprotect(p, GUARD, PROT_NONE);
    f->base = p;
    f->size = size;
    return true;
}

Fiber *fiber_new(size_t size, void (*fn)(void *), void *arg)
{
    Fiber *f = size == FIBER_SMALL ? pool : NULL;

    if (f) {
        pool = f->caller;
        pooled--;
    } else {
        f = tsr_calloc(sizeof *f);
        if (!map_stack(f, size * SCALE)) {
            tsr_free(f);
            return NULL;
        }
    }
    live++;
    f->limit = f->base + GUARD + MARGIN;
    f->fn = fn;
    f->arg = arg;
    f->done = false;
    f->caller = NULL;
    f->fake = NULL;
    f->sp = first_stack(f->base + f->size, entry, f);
    return f;
}

void fiber_resume(Fiber *cur, Fiber *g)
{
    g->caller = cur;
    before(cur, g);
    jump(cur, g);
    after(cur, g);
}

void fiber_jump(Fiber *cur, Fiber *to)
{
    before(cur, to);
    jump(cur, to);
    after(cur, to);
}

void fiber_suspend(Fiber *f)
{
    Fiber *to = f->caller;

    before(f, to);
    jump(f, to);
    after(f, f->caller);
}

static void unmap(Fiber *f)
{
#ifdef USE_UCONTEXT
    tsr_free(f->sp);
#endif
    munmap(f->base, f->size);
    tsr_free(f);
}

void fiber_free(Fiber *f)
{
    live--;
    wipe_marks(f);
    if (f->size == (size_t)FIBER_SMALL * SCALE && pooled < POOL_MAX) {
        f->caller = pool;
        pool = f;
        pooled++;
    } else {
        unmap(f);
    }
}

void fiber_pool_done(void)
{
    while (pool) {
        Fiber *next = pool->caller;
        unmap(pool);
        pool = next;
    }
    pooled = 0;
}
