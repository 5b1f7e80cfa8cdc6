/* driver.h - the command line's verbs: source -> check -> run, and the exit code that tells how it went. */
#ifndef TSR_DRIVER_H
#define TSR_DRIVER_H

int driver_main(int argc, char **argv);

#endif
