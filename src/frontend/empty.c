/* Nothing here yet; goes with the first file of this folder. */
extern int tsr_empty_frontend;
int tsr_empty_frontend;
