/*
 * build.h - making the tree.
 *
 * The grammar's actions call these, one for each rule that makes something.
 * Nodes come from the unit's arena, carry their span, and know their height, so
 * that no tree is ever deeper than AST_HEIGHT_MAX and later phases may recurse.
 * Lists are values that only ever grow at their end by a new owner, so a line
 * may be parsed again from a saved parser stack without harm.
 */
#ifndef TSR_FRONTEND_BUILD_H
#define TSR_FRONTEND_BUILD_H

#include "frontend/syntax/token.h"

typedef enum { PARSE_OK, PARSE_UNEXPECTED, PARSE_TOO_DEEP } ParseFailure;

typedef struct Parser {
    Unit *unit;
    Arena *arena;
    DiagSink *sink;
    TokenList *list;
    AstSeq result;
    ParseFailure failed;        /* set by the automaton, looked at after each token */
    bool reported;              /* this line has its one report */
    bool trial;                 /* report nothing (input_state, second passes) */
} Parser;

/* A saved parser stack; entries are Lemon's. */
typedef struct ParserMark { void *entry; int n, cap; } ParserMark;
void parser_save(const void *yyp, ParserMark *m);
void parser_restore(void *yyp, const ParserMark *m);
bool parser_accepts(const void *yyp, int token);
void *tsr_parse_Alloc(void *(*alloc)(size_t), Parser *p);
void tsr_parse_Free(void *yyp, void (*release)(void *));
void tsr_parse_(void *yyp, int kind, const Token *t);

/* The one report of this line: NULL when it has had it. */
Diag *syntax_error(Parser *p, DiagCode code, Span span, const char *a, const char *b);

typedef struct { int64_t level; AstAlias *name; } Origin;       /* of a from-import */
typedef struct { AstIf *first, *last; } IfChain;

AstSeq seq1(Parser *p, Ast *n);
AstSeq seq_add(Parser *p, AstSeq s, Ast *n);
AstSeq seq_join(Parser *p, AstSeq a, AstSeq b);

/* build.c: statements */
Ast *bad_line(Parser *p, const Token *t);
Ast *bad_block(Parser *p, const Token *t, AstSeq body);
Ast *bad_branch(Parser *p, Ast *block, const Token *t, AstSeq body);
Ast *mk_plain(Parser *p, AstKind k, const Token *t);
Ast *mk_expr_stmt(Parser *p, Ast *e);
Ast *mk_assign(Parser *p, AstSeq targets, Ast *value);
Ast *mk_aug_assign(Parser *p, Ast *target, const Token *op, Ast *value);
Ast *mk_ann_assign(Parser *p, Ast *target, Ast *annotation, Ast *value);
Ast *mk_return(Parser *p, const Token *t, Ast *value);
Ast *mk_raise(Parser *p, const Token *t, Ast *exc, Ast *cause);
Ast *mk_assert(Parser *p, const Token *t, Ast *test, Ast *msg);
Ast *mk_del(Parser *p, const Token *t, Ast *targets);
Ast *mk_global(Parser *p, const Token *t, AstSeq names);
Ast *mk_nonlocal(Parser *p, const Token *t, AstSeq names);
Ast *mk_import(Parser *p, const Token *t, AstSeq names);
Ast *mk_from(Parser *p, const Token *t, Origin o, AstSeq names, const Token *last);
AstAlias *mk_alias(Parser *p, const Token *name);
AstAlias *mk_dotted(Parser *p, AstSeq names);       /* a.b.c as one name */
Ast *mk_alias_as(Parser *p, AstAlias *a, const Token *name);
Ast *mk_type_alias(Parser *p, const Token *t, const Token *name, AstSeq typarams, Ast *value);
IfChain if_first(Parser *p, const Token *t, Ast *test, const Token *colon, AstSeq body);
IfChain if_more(Parser *p, IfChain c, const Token *t, Ast *test, const Token *colon, AstSeq body);
Ast *if_done(Parser *p, IfChain c, AstSeq orelse);
Ast *mk_while(Parser *p, const Token *t, Ast *test, const Token *colon, AstSeq body, AstSeq orelse);
AstFor *for_head(Parser *p, const Token *t, const Token *async, Ast *target, Ast *iter, const Token *colon);
Ast *mk_for(Parser *p, AstFor *s, AstSeq body, AstSeq orelse);
Ast *mk_with(Parser *p, const Token *t, const Token *async, AstSeq items, const Token *colon, AstSeq body);
Ast *mk_with_item(Parser *p, Ast *context, Ast *target);
Ast *mk_on(Parser *p, const Token *t, Ast *place, const Token *colon, AstSeq body);
Ast *mk_try(Parser *p, const Token *t, const Token *colon, AstSeq body, AstSeq handlers, AstSeq orelse,
            const AstSeq *final);
Ast *mk_handler(Parser *p, const Token *t, Ast *type, const Token *name, const Token *colon, AstSeq body);
Ast *mk_match(Parser *p, const Token *t, Ast *subject, const Token *colon, AstSeq cases);
Ast *mk_case(Parser *p, const Token *t, Ast *pattern, Ast *guard, const Token *colon, AstSeq body);
Ast *decorate(Parser *p, AstSeq decorators, Ast *definition);
AstFunctionDef *mk_def(Parser *p, const Token *t, const Token *async, const Token *name, AstSeq typarams,
                       AstSeq params, Ast *returns, AstSeq where, const Token *colon);
Ast *def_done(Parser *p, AstFunctionDef *f, AstSeq body);
AstClassDef *mk_class(Parser *p, const Token *t, const Token *name, AstSeq typarams, AstSeq bases, const Token *colon);
Ast *class_done(Parser *p, AstClassDef *c, AstSeq body);

/* params.c: parameters, arguments, targets - what is right by rule and not by form */
Ast *mk_typaram(Parser *p, const Token *name, Ast *bound, int stars);
Ast *mk_param(Parser *p, ParamKind kind, const Token *name, Ast *annotation, Ast *dflt);
Ast *mk_param_mark(Parser *p, ParamKind kind, const Token *t);
AstSeq params_finish(Parser *p, AstSeq params);     /* drops the marks, settles the kinds, checks the order */
Ast *mk_arg(Parser *p, const Token *stars, int n, Ast *value);
Ast *mk_keyword_arg(Parser *p, Ast *name, Ast *value);
Ast *mk_arg_comp(Parser *p, Ast *elt, AstSeq clauses);
AstSeq args_comma(Parser *p, AstSeq args);
void args_check(Parser *p, AstSeq args);
typedef enum { TARGET_ASSIGN, TARGET_AUG, TARGET_ANN, TARGET_DEL, TARGET_FOR, TARGET_WITH } TargetUse;
bool target_check(Parser *p, Ast *target, TargetUse use);
const char *expr_kind_name(const Ast *e);           /* "function call", "literal" */

/* expr.c: expressions */
Ast *mk_name(Parser *p, const Token *t);
Ast *mk_int(Parser *p, const Token *t);
Ast *mk_float(Parser *p, const Token *t);
Ast *mk_imag(Parser *p, const Token *t);
Ast *mk_const(Parser *p, const Token *t, int value);
Ast *mk_str(Parser *p, const Token *t);
Ast *mk_bytes(Parser *p, const Token *t);
Ast *mk_strings(Parser *p, AstSeq parts);
Ast *mk_fstring(Parser *p, const Token *t, AstSeq parts, const Token *end);
Ast *mk_fspec(Parser *p, const Token *t, AstSeq parts);
Ast *mk_hole(Parser *p, const Token *t, Ast *value, const Token *debug, const Token *conversion, Ast *spec,
             const Token *end);
Ast *mk_yield(Parser *p, const Token *t, Ast *value);
Ast *mk_yield_from(Parser *p, const Token *t, Ast *value);
Ast *mk_list_or_one(Parser *p, AstSeq items);
Ast *mk_tuple(Parser *p, AstSeq items, const Token *end);
Ast *mk_paren_tuple(Parser *p, const Token *t, AstSeq items, const Token *end);
Ast *mk_paren(Parser *p, const Token *t, AstSeq items, const Token *end);
Ast *mk_starred(Parser *p, const Token *t, Ast *value);
Ast *mk_named(Parser *p, Ast *target, Ast *value);
Ast *mk_if_exp(Parser *p, Ast *body, Ast *test, Ast *orelse);
Ast *mk_lambda(Parser *p, const Token *t, AstSeq params, Ast *body);
Ast *mk_bool(Parser *p, Ast *left, AstOp op, Ast *right);
Ast *mk_unary(Parser *p, const Token *t, AstOp op, Ast *operand);
Ast *mk_binop(Parser *p, Ast *left, AstOp op, Ast *right);
AstCompare *mk_compare(Parser *p, Ast *left, const Token *op, Ast *right);
AstCompare *compare_more(Parser *p, AstCompare *c, const Token *op, Ast *right);
Ast *compare_done(Parser *p, AstCompare *c);
Ast *mk_await(Parser *p, const Token *t, Ast *value);
Ast *mk_attribute(Parser *p, Ast *value, const Token *name);
Ast *mk_call(Parser *p, Ast *func, AstSeq args, const Token *end);
Ast *mk_subs(Parser *p, AstSeq items);
Ast *mk_subscript(Parser *p, Ast *value, Ast *index, const Token *end);
Ast *mk_slice(Parser *p, const Token *t, Ast *lo, Ast *hi, const Token *t2, Ast *step);
Ast *mk_brace_index(Parser *p, Ast *value, AstSeq index, const Token *end);
Ast *mk_list(Parser *p, const Token *t, AstSeq items, const Token *end);
Ast *mk_set(Parser *p, const Token *t, AstSeq items, const Token *end);
Ast *mk_dict(Parser *p, const Token *t, AstSeq items, const Token *end);
Ast *mk_dict_item(Parser *p, const Token *stars, Ast *key, Ast *value);
Ast *mk_comp(Parser *p, AstKind kind, const Token *t, Ast *elt, AstSeq clauses, const Token *end);
Ast *mk_dict_comp(Parser *p, const Token *t, Ast *key, Ast *value, AstSeq clauses, const Token *end);
Ast *mk_comp_for(Parser *p, const Token *t, const Token *async, Ast *target, Ast *iter);
AstSeq comp_if(Parser *p, AstSeq clauses, Ast *cond);

/* pattern.c */
Ast *pat_list_or_one(Parser *p, AstSeq items);
Ast *pat_paren(Parser *p, const Token *t, AstSeq items, const Token *end);
Ast *mk_pat_sequence(Parser *p, const Token *t, AstSeq items, const Token *end);
Ast *mk_pat_star(Parser *p, const Token *t, const Token *name);
Ast *mk_pat_as(Parser *p, Ast *pattern, const Token *name);
Ast *mk_pat_or(Parser *p, Ast *left, Ast *right);
Ast *mk_pat_name(Parser *p, Ast *name);
Ast *mk_pat_value(Parser *p, Ast *value);
Ast *mk_pat_class(Parser *p, Ast *cls, AstSeq args, const Token *end);
Ast *mk_pat_keyword(Parser *p, const Token *name, Ast *pattern);
Ast *mk_pat_mapping(Parser *p, const Token *t, AstSeq items, const Token *end);
Ast *mk_pat_item(Parser *p, Ast *key, Ast *pattern);
Ast *mk_pat_rest(Parser *p, const Token *t, const Token *name);

/* Give a finished node its height; a tree that would grow too high becomes an Error node. */
Ast *seal(Parser *p, Ast *n);
/* The same for a sealed node that got one more child: constant time, so that long lists stay linear. */
Ast *seal_more(Parser *p, Ast *n, const Ast *child);

#endif
