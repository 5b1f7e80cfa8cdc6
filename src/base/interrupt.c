/* One flag, set by the handler; system calls are not restarted, so that a blocked read notices. */
#include "base/interrupt.h"

#include <signal.h>
#include <unistd.h>

volatile int tsr_interrupted;
_Static_assert(_Generic((sig_atomic_t)0, int: 1, default: 0), "the flag's type is sig_atomic_t");

static void on_interrupt(int sig)
{
    (void)sig;
    if (++tsr_interrupted > 2)
        _exit(130);
}

void interrupt_catch(void)
{
    struct sigaction a = {.sa_handler = on_interrupt};

    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
}
