/* fuel.h - a running program is told every 50 ms that ctrl-C was pressed, so that none runs for ever. */
#ifndef TSR_FUZZ_FUEL_H
#define TSR_FUZZ_FUEL_H

void fuel_start(void);

#endif
