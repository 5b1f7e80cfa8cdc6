/* Nothing here yet; goes with the first file of this folder. */
extern int tsr_empty_runtime;
int tsr_empty_runtime;
