/* Nothing here yet; goes with the first file of this folder. */
extern int tsr_empty_ir_graph;
int tsr_empty_ir_graph;
