#include "fuel.h"

#include "base/interrupt.h"

#include <signal.h>
#include <sys/time.h>

static void burn(int sig)
{
    (void)sig;
    tsr_interrupted = 1;
}

void fuel_start(void)
{
    struct itimerval t = {{0, 50000}, {0, 50000}};

    tsr_interrupted = 0;
    signal(SIGALRM, burn);
    setitimer(ITIMER_REAL, &t, NULL);
}
