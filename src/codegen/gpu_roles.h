/*
 * gpu_roles.h - kernels around a product that warpgroups do (sm_90a).
 *
 * Found before code is made; the files that make it (gpu_roles.c) ask what is planned here.
 */
#ifndef TSR_CODEGEN_GPU_ROLES_H
#define TSR_CODEGEN_GPU_ROLES_H

#include "codegen/gpu_assembly.h"

enum { GROUP_THREADS = 128, GROUP_ROWS = 64 };          /* of a warpgroup; rows of its product */
enum { OUT_SLOTS = 2, WIDE_BYTES = 128, SHARED_MOST = 227 << 10, SLOT_ALIGN = 1024, ROW_ALIGN = 128 };

/* Axes of a parameter: that of a box's elements that lie side by side, and that of its rows. */
typedef struct MapAxes { int inner, second; } MapAxes;

/* An operand in the slots of the ring: slabs one after the other, rows of a slab of `span` bytes, permuted as TMA and wgmma do it. */
typedef struct RoleOperand {
    const TileNode *load;
    const TileNode *part;       /* of a parameter, that it is taken of: rows end there; else NULL */
    bool turned;                /* do its rows, or columns, lie side by side, and not its steps? */
    int span, slabs, box[MAP_AXES];     /* box: elements of a slab, the inner ones first; 0 along other axes: one */
    MapAxes axes;
    int64_t bytes, slab;        /* of a slot, of a slab in it */
    int64_t at;                 /* in shared memory, of the first slot */
} RoleOperand;

/* A store of the sums' shape, by tensor copies: slabs of 64 rows of `span` bytes. */
typedef struct RoleStore {
    const TileNode *store, *part;       /* as of an operand */
    int span, map;
    int box[MAP_AXES];          /* of a store of more than two axes, whose rows are all but the last one: as a map has them; else 0 */
    MapAxes axes;
    bool before;                /* may its rows begin before the first one? Tensor copies fault there */
} RoleStore;

/* A tile that follows the sums (gpu_roles_late.c): boxes are pieces of it. word: this thread's, two elements each, once it is there. */
typedef struct RoleLate { RoleOperand o; int map; LLVMValueRef *word; } RoleLate;
enum { LATE_MOST = 2 };

/* A row that is the same for all rows of a tile (gpu_roles_beside.c). at: in the memory of such rows; x: this thread's elements, raw. */
typedef struct RoleBeside { const TileNode *load; int64_t at; LLVMValueRef x[2]; } RoleBeside;
enum { BESIDE_MOST = 4, SLOT_BARRIER = 5 };             /* the first of the warpgroups' named barriers */

/* A ring of slots, between the producer and the consumers (gpu_roles_ring.c). */
typedef struct RoleRing {
    int stages;
    int64_t barriers;           /* in shared memory: of full slots, then of empty ones */
    LLVMValueRef stage, phase;  /* a role's place: in slots of its own */
} RoleRing;

/* Groups of a block, or of one set of it: every `every`th, from `first` on; of a chain as gpu_chain_take.c has it. t: a slot, the number at hand. */
typedef struct RoleGroups { LLVMBasicBlockRef head, done; LLVMValueRef t, step, next; } RoleGroups;

typedef struct Roles {
    const TileNode *loop, *dot;
    DType in, out;
    int extent[3], bytes;       /* rows, columns, steps of a round; of an element */
    int threads, order;         /* threads: consumers of one tile; order: rows of tiles that are done together */
    bool promotes;              /* are sums of `interval` rounds added to the others in f32? */
    int interval;
    bool by_turns;              /* are those of one round added while the next one is under way? */
    int sets;                   /* 2: sets of consumers take turns, so that one multiplies while the other one stores */
    bool uneven;                /* of different numbers of rounds, then */
    LLVMValueRef others;        /* those of the next tile, which the other set has, in a slot */
    int cluster;                /* blocks that work together (gpu_roles_cluster.c); 1: none do */
    bool splits;                /* do they divide the steps of one tile? Else they take tiles side by side */
    int shared_operand, shared_axis;    /* which all of them need then; the grid's axis along which they are */
    int64_t given, given_barriers;      /* in shared memory: sums that others have, and the barriers of their passing on */
    LLVMValueRef rank, turn;    /* this block's number in its cluster, an i32; parity of the tile at hand, in a slot */
    GpuIf rest;                 /* what only one block of a cluster does with a tile */
    Wgmma unit;
    RoleOperand o[2];
    RoleStore store[GPU_MAPS - 2];
    int nstores, nmaps;
    RoleLate late[LATE_MOST];
    int nlate, taken;           /* taken: sets of their pieces that are in registers */
    LLVMValueRef *met;          /* their slots, once they are full */
    RoleBeside beside[BESIDE_MOST];
    int nbeside;
    int64_t beside_at;          /* in shared memory */
    TileRef tabled, tabled_seed;        /* what is stored, if it is looked up (gpu_roles_table.c), and of what; nodes NULL: nothing is */
    int64_t table;              /* in shared memory */
    bool reads_own;             /* does it load from what it stores to? */
    RoleRing ring;
    int64_t slots, shared;      /* in shared memory: where stored tiles pass through; all that is planned */
    LLVMValueRef map[GPU_MAPS]; /* addresses of tensor maps */
    LLVMValueRef base;          /* of shared memory */
    LLVMValueRef set;           /* this consumer's, an i32 */
    LLVMValueRef group;         /* of a chain: this consumer's warpgroup, an i32; else NULL */
    struct Chain *chain;        /* of a kernel of several products (gpu_chain.h), to which loop, dot, o and ring mean nothing; else NULL */
} Roles;

static inline int roles_groups(const Roles *r) { return r->sets * r->threads / GROUP_THREADS; }
/* Of a block: a warp that brings operands, or, where warpgroups share registers unevenly, a warpgroup of which one thread does. */
static inline int roles_threads(const Roles *r)
{
    return r->sets * r->threads + (roles_groups(r) > 1 ? GROUP_THREADS : GPU_WARP);
}

bool roles_find(CpuCode *e, Roles *r);                  /* is the kernel one of these? Then all but the values is set */
bool roles_is_known(const TileNode *n);                 /* does it follow from sizes, the group and numbers of loops? */
void role_emit_known(CpuCode *e, const TileNode *n);         /* its value from now on, if it is such a number */
void roles_frame(const CpuCode *e, const Roles *r, GpuFrame *frame);     /* threads, clusters and tensor maps */

/* What the finders of roles share. */
bool role_unit(DType in, DType out, int columns, Wgmma *unit);
bool role_block(const CpuCode *e, const TileNode *load, RoleOperand *o);       /* can tensor copies bring it for products? Then how it lies */
bool role_row(const CpuCode *e, const TileNode *load, RoleOperand *o); /* the same of a row of f32 that threads read, unpermuted */
TileRef role_stored(const TileNode *store);             /* a tile of two axes: what is stored, or what it is another shape of */
bool role_is_boxed(const Roles *r, const TileNode *n);  /* is it that shape of a store that was found? */
void role_find_stores(const CpuCode *e, Roles *r, const TileNode *first, int columns); /* from a node on, of tiles with so many columns, or any (0) */
int64_t role_slots(const Roles *r);                     /* bytes that stored tiles pass through */
bool role_is_of_consumers(TileOp op);
bool role_is_short_quotient(const TileNode *n);         /* a floordiv or mod of a number from 0 to below 2^31 by one from 0 on */
bool role_is_zeros(TileRef v);
bool role_reads_own(const TileKernel *k);
int64_t role_lay(int64_t *all, int64_t bytes, int64_t align);
void role_map(const CpuCode *e, const RoleOperand *o, GpuMap *m);
void role_store_maps(const CpuCode *e, const Roles *r, GpuFrame *frame);

static inline Roles *roles(const CpuCode *e) { return e->gpu->roles; }
static inline LLVMValueRef op32(CpuCode *e, LLVMOpcode op, LLVMValueRef x, int64_t y)
{
    return LLVMBuildBinOp(e->u->builder, op, x, i32_number(e, y), "");
}
static inline LLVMValueRef plus(CpuCode *e, LLVMValueRef x, LLVMValueRef y) { return LLVMBuildAdd(e->u->builder, x, y, ""); }
static inline LLVMValueRef narrow(CpuCode *e, LLVMValueRef x) { return LLVMBuildTrunc(e->u->builder, x, i32_type(e), ""); }
static inline LLVMValueRef wide(CpuCode *e, LLVMValueRef x) { return LLVMBuildZExt(e->u->builder, x, i64_type(e), ""); }
static inline LLVMValueRef get(CpuCode *e, LLVMValueRef slot) { return LLVMBuildLoad2(e->u->builder, i32_type(e), slot, ""); }

/* ---- gpu_roles_ring.c ---- */
LLVMValueRef role_same_in_warp(CpuCode *e, LLVMValueRef x);    /* a number that all lanes of a warp have; the compiler knows so, too */
LLVMValueRef role_warpgroup(CpuCode *e);                /* this thread's in its set */
void role_keep_registers(CpuCode *e, int consumers, bool producer);    /* so many warpgroups multiply; all of this one are here */
void role_init_ring(CpuCode *e, const RoleRing *g);     /* one thread's */
void role_enter_ring(CpuCode *e, RoleRing *g);          /* a role begins with the first slot */
LLVMValueRef role_stage(CpuCode *e, const RoleRing *g);
void role_next(CpuCode *e, const RoleRing *g);
LLVMValueRef role_phase(CpuCode *e, const RoleRing *g);
LLVMValueRef role_full(CpuCode *e, const RoleRing *g, LLVMValueRef stage);     /* its barrier */
void role_wait(CpuCode *e, const RoleRing *g);          /* until the slot at hand is full */
void role_wait_at(CpuCode *e, const RoleRing *g, LLVMValueRef stage, LLVMValueRef phase);      /* the same of one that was at hand */
void role_release(CpuCode *e, const RoleRing *g, LLVMValueRef stage);  /* this warp has done with the slot */
void role_release_if(CpuCode *e, const RoleRing *g, LLVMValueRef stage, LLVMValueRef is);
LLVMValueRef role_peek(CpuCode *e, const RoleRing *g);  /* is the slot at hand full, or soon? */
void role_wait_unless(CpuCode *e, const RoleRing *g, LLVMValueRef full);       /* the same wait, when that has been asked */
LLVMValueRef role_room(CpuCode *e, const RoleRing *g);  /* the producer's slot is empty */
void role_fill(CpuCode *e, const RoleRing *g, LLVMValueRef stage);     /* what the producer wrote there is there */
LLVMValueRef role_make_room(CpuCode *e, const RoleRing *g, int64_t bytes);     /* the producer's slot is empty, and so many bytes will come to it */
/* Coordinates of a load's or store's place, as its tensor map has them but where rows end with a part. */
void role_coordinates(CpuCode *e, const TileNode *n, MapAxes axes, LLVMValueRef *at);
/* They are those of a box of so many rows of the map; how many there are. */
int role_end_rows(CpuCode *e, const TileNode *n, const TileNode *part, int second, int rows, LLVMValueRef *at);
/* The producer sends for the block of a load. */
void role_bring(CpuCode *e, const RoleRing *g, const RoleOperand *o, const TileNode *load, LLVMValueRef map, LLVMValueRef stage);
RoleGroups role_each_group(CpuCode *e, LLVMValueRef first, int every);
void role_enter_group(CpuCode *e, LLVMValueRef t);      /* the group that is number t */
void role_end_group(CpuCode *e, const RoleGroups *g);

/* ---- gpu_roles_cluster.c: blocks that work together ---- */
static inline bool roles_share(const Roles *r) { return r->cluster > 1 && !r->splits; }
static inline bool roles_split(const Roles *r) { return r->cluster > 1 && r->splits; }
void roles_find_cluster(const CpuCode *e, Roles *r);    /* as the schedule asks for, if the kernel is fit for it */
int64_t roles_given_bytes(const Roles *r);              /* of shared memory, for sums that pass between blocks */
void role_enter_cluster(CpuCode *e);                    /* all threads: barriers of all blocks are made */
void role_leave_cluster(CpuCode *e);                    /* all threads: no block ends before the others have done with its memory */
LLVMValueRef role_rank(CpuCode *e);                     /* of this block in its cluster, an i32 */
LLVMValueRef role_cluster_number(CpuCode *e);           /* of this cluster */
LLVMValueRef role_clusters(CpuCode *e);                 /* how many there are */
void role_split_rounds(CpuCode *e, LLVMValueRef all, LLVMValueRef *first, LLVMValueRef *n);    /* this block's of a loop's rounds */
void role_init_given(CpuCode *e);                       /* one thread's, as the ring's barriers */
/* The sums of all blocks, added up in the order of their numbers: in the first block, which alone goes on, until role_end_rest. */
void role_join_sums(CpuCode *e, LLVMValueRef *sum, int n);
void role_end_rest(CpuCode *e);
void role_arrive_everywhere(CpuCode *e, LLVMValueRef bar, LLVMValueRef is);    /* at the barrier that lies there, in all blocks; `is` NULL: always */

/* ---- gpu_roles_store.c ---- */
/*
 * Slab after slab through two slots of the warpgroup: one is written while the other one is stored.  Several tiles go together, a slab of each in
 * turn: what is loaded and computed for all of them is in registers for a slab's elements only.
 */
void role_store_tiles(CpuCode *e, const RoleStore *store, int n);
bool role_stores_together(const Roles *r);      /* may they? Slabs are of the same size, and none is read again */
LLVMValueRef role_warp_row(CpuCode *e);         /* the first of this warp's in its warpgroup's tile, an i32 */
/* Do registers of v go to memory, or into a product, two as a word? *v is what the registers are of, which may be what is yet to be converted. */
bool role_packs(TileRef *v, DType dt);
LLVMValueRef role_word(CpuCode *e, DType dt, bool pack, LLVMValueRef low, LLVMValueRef high);

/* What a tile is a long formula of, a value of two bytes, where lanes have enough pieces of it; a node NULL: it is none. */
TileRef role_seed(TileRef v, int span);
LLVMValueRef role_formula(CpuCode *e, TileRef v, TileRef seed, LLVMValueRef x, int width);     /* v of elements x of the seed, all of them bits */

/* ---- gpu_roles_table.c: formulas that are looked up ---- */
int64_t roles_find_table(Roles *r);                     /* bytes of shared memory that it takes */
void role_make_table(CpuCode *e);                       /* the consumers, before their first tile */
/* Words of two bf16 each become those of their entries. An i1, the same in the warp: are all of them what the formula gives? */
LLVMValueRef role_find_in_table(CpuCode *e, LLVMValueRef *word, int n);

/* ---- gpu_roles_late.c: tiles that follow the sums ---- */
void roles_find_late(const CpuCode *e, Roles *r);
int roles_late_rounds(const Roles *r);                  /* of the ring, of a group */
void role_bring_late(CpuCode *e);                       /* the producer, behind a group's other rounds */
void role_meet_late(CpuCode *e);                        /* the consumers, there as well: they have come */
void role_take_late(CpuCode *e, int rows);              /* all up to so many 64 rows of each warpgroup are in registers */

/* ---- gpu_roles_beside.c: rows that are the same for all rows of a tile ---- */
int64_t roles_find_beside(const CpuCode *e, Roles *r);  /* bytes of shared memory that they take */
bool role_is_beside(const CpuCode *e, const TileNode *load);
void role_load_beside(CpuCode *e);                      /* before the loop: their elements are under way */
void role_put_beside(CpuCode *e);                       /* behind it: they are in shared memory */

/* ---- gpu_roles.c ---- */
LLVMValueRef role_describe(CpuCode *e, const RoleOperand *o, LLVMValueRef at);  /* low word of a descriptor: of a matrix that begins there */
LLVMValueRef role_descriptor(CpuCode *e, const RoleOperand *o, LLVMValueRef low);
int64_t role_step(const Wgmma *unit, const RoleOperand *o, int s);      /* bytes between the first matrix and that of step s */
void roles_emit(CpuCode *e);                            /* the kernel's body */
bool roles_node(CpuCode *e, const TileNode *n);         /* the loop and the stores; false: another node */
void roles_fence(CpuCode *e);                           /* the consumers have come here */
LLVMValueRef roles_load_if(CpuCode *e, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef fill);    /* as gpu_load_if */

#endif
