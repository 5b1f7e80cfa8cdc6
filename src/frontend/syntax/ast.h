/*
 * ast.h - the syntax tree.
 *
 * One struct for each row of ast.def, all beginning with an Ast header.  Nodes
 * live in the unit's arena.  The parser fills them; names, checking and
 * evaluation write only the NOTE fields and the header's type.
 */
#ifndef TSR_FRONTEND_AST_H
#define TSR_FRONTEND_AST_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/source.h"
#include "base/strbuf.h"
#include "base/sym.h"

typedef enum AstKind {
#define NODE(K, f)
#define LIST(K, f)
#define SYM(K, f)
#define INT(K, f)
#define STR(K, f)
#define REAL(K, f)
#define NOTE(K, t, f)
#define AST(K, cat, fields) AST_##K,
#include "frontend/syntax/ast.def"
    AST_COUNT
} AstKind;

struct Scope;

/* No tree is higher, so phases may recurse: deeper programs are refused by the parser. */
enum { AST_HEIGHT_MAX = 512 };

typedef struct Ast {
    uint8_t kind;               /* AstKind */
    uint8_t parens;             /* the expression stood in ( ) of its own */
    uint16_t height;            /* of the tree below, PART nodes not counted; <= AST_HEIGHT_MAX */
    Span span;                  /* of a compound statement: its header, from keyword to colon */
    uint32_t found;             /* the number of the type that the last check found; 0: none.  check/type.h knows which it is */
} Ast;

typedef struct { Ast **at; int n; } AstSeq;      /* one list of children */
typedef struct { const char *s; uint32_t n; } AstText;   /* bytes, also NUL-terminated; may hold NULs */

typedef struct AstName AstName;

#define NODE(K, f) Ast *f;
#define LIST(K, f) AstSeq f;
#define SYM(K, f) Sym f;
#define INT(K, f) int64_t f;
#define STR(K, f) AstText f;
#define REAL(K, f) double f;
#define NOTE(K, t, f) t f;
#define AST(K, cat, fields) typedef struct Ast##K { Ast ast; fields } Ast##K;
#include "frontend/syntax/ast.def"

typedef enum { CONST_NONE, CONST_FALSE, CONST_TRUE, CONST_ELLIPSIS } AstConst_;

/* Operators, spelled as in the source.  Binary ones also serve AugAssign. */
typedef enum AstOp {
    AOP_ADD, AOP_SUB, AOP_MUL, AOP_DIV, AOP_FLOORDIV, AOP_MOD, AOP_POW, AOP_MATMUL,
    AOP_LSHIFT, AOP_RSHIFT, AOP_BITAND, AOP_BITOR, AOP_BITXOR,
    AOP_NEG, AOP_POS, AOP_INVERT, AOP_NOT,
    AOP_AND, AOP_OR,
    AOP_EQ, AOP_NE, AOP_LT, AOP_LE, AOP_GT, AOP_GE, AOP_IS, AOP_IS_NOT, AOP_IN, AOP_NOT_IN,
    AOP_COUNT
} AstOp;
extern const char *const ast_op_text[AOP_COUNT];        /* "+", "not in", ... */

typedef enum ParamKind {
    PARAM_POSONLY, PARAM_NORMAL, PARAM_VARARGS, PARAM_KWONLY, PARAM_KWARGS,
    PARAM_CONSTRAINT,           /* constraint: D % 8 == 0  - annotation holds the condition, no value */
    PARAM_ANY                   /* a lone ... as the whole list: any parameters (SYN-27) */
} ParamKind;

typedef enum { FIELD_NODE, FIELD_LIST, FIELD_SYM, FIELD_INT, FIELD_STR, FIELD_REAL } AstFieldKind;
typedef struct { const char *name; AstFieldKind kind; uint16_t offset; } AstField;
typedef enum { CAT_STMT, CAT_EXPR, CAT_PAT, CAT_PART } AstCategory;
typedef struct { const char *name; AstCategory category; AstField field[11]; size_t size; } AstInfo;  /* fields end at one without name */
extern const AstInfo ast_info[AST_COUNT];

static inline Ast **ast_node_field(const Ast *n, const AstField *f) { return (Ast **)((char *)n + f->offset); }
static inline AstSeq *ast_list_field(const Ast *n, const AstField *f) { return (AstSeq *)((char *)n + f->offset); }

/* The fields of a kind that hold other nodes, in order, up to CHILD_END: what walks need of ast_info, close together. */
typedef enum { CHILD_END, CHILD_NODE, CHILD_LIST } AstChildKind;
typedef struct { uint16_t kind, offset; } AstChild;
extern const AstChild ast_child[AST_COUNT][8];

static inline Ast **ast_child_node(const Ast *n, const AstChild *c) { return (Ast **)((char *)n + c->offset); }
static inline AstSeq *ast_child_list(const Ast *n, const AstChild *c) { return (AstSeq *)((char *)n + c->offset); }

typedef struct { Span span; } AstComment;

/* One parsed file. */
typedef struct Unit {
    const Source *src;
    AstModule *module;          /* never NULL after unit_parse; broken parts are AstError */
    bool broken;                /* a line could not be read, so names that it defined are missing */
    Vec(AstComment) comments;   /* trivia, in order, spans from # to the line's end */
    Arena arena;
} Unit;

/* Parse a whole file; errors go to the sink and parsing continues. The unit owns its tree. */
Unit *unit_parse(const Source *src, DiagSink *sink);
/* Bytes [from, to) of src alone, which begin and end lines; positions are those in src. */
Unit *unit_parse_range(const Source *src, uint32_t from, uint32_t to, DiagSink *sink);
void unit_free(Unit *u);

typedef enum { INPUT_COMPLETE, INPUT_OPEN, INPUT_BAD } InputState;
/* For the REPL: is this text a whole statement, the beginning of one, or wrong already? */
InputState input_state(const char *text, size_t len);

Ast *ast_alloc(Arena *a, AstKind kind, Span span);
#define ast_new(a, K, span) ((Ast##K *)ast_alloc((a), AST_##K, (span)))
#define AST_IS(n, K) ((n) && (n)->kind == AST_##K)
#define AST_AS(n, K) ((Ast##K *)(n))

/* Is it None, ... or the like? n: NULL allowed. */
static inline bool ast_is_const(const Ast *n, AstConst_ value) { return AST_IS(n, Const) && AST_AS(n, Const)->value == value; }

/* Is it Generic, Protocol or ABC, perhaps with parameters: a base that stands beside another one and adds nothing to objects? */
bool ast_is_marker_base(const Ast *e);
/* The base that a class takes its attributes from: the first by position that is no marker, else the first; NULL: it has none. */
const Ast *ast_class_base(const AstClassDef *c);

/* Children in source order; stops early when fn returns false. */
bool ast_walk(Ast *n, bool (*fn)(Ast *child, void *state), void *state);
bool ast_equal(const Ast *a, const Ast *b);             /* positions and NOTEs apart */
void ast_dump(const Ast *n, StrBuf *out);               /* the tree without positions, one node a line */
void ast_print(const Ast *n, StrBuf *out);              /* as source text that parses to an equal tree */

#endif
