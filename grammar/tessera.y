/*
 * tessera.y - tokens to tree.
 *
 * A Lemon grammar of the whole language.  It stays small because the layout
 * pass (layout.c) has settled beforehand whatever needs more than one token of
 * foresight: soft keywords arrive as keywords where they are meant as such,
 * decorator signs are not matrix products, blocks are properly indented, and a
 * line that cannot be understood is one BAD token.  So there is no error rule
 * here: the driver (parse.c) parses a line at a time, and rewinds to its start
 * when it must repair or drop it.  Actions only call build.h; what Python
 * forbids by rule and not by form (targets, parameter order) is checked there.
 *
 * Expressions have four levels: primary (atoms and what follows them), arith
 * (everything up to comparisons), disj (not, and, or), expr (conditional,
 * lambda).  Within arith and disj operator precedence decides.
 */
%name tsr_parse_
%token_prefix TOK_
%token_type {const Token *}
%extra_context {Parser *p}
%stack_size 8192

%include {
#define NDEBUG 1                /* no trace of each step */
#include "frontend/syntax/build.h"
#include <assert.h>
#include <string.h>
#define YYNOERRORRECOVERY 1
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wshadow"
}
// A rule of one symbol without an action gives that symbol's value: Lemon leaves it in its place, and goes on without reducing where it can.
%syntax_error   { p->failed = PARSE_UNEXPECTED; }
%stack_overflow { p->failed = PARSE_TOO_DEEP; }

%left OR.
%left AND.
%right NOT.
%nonassoc CMP IN.
%left VBAR.
%left CIRCUMFLEX.
%left AMPER.
%left SHIFT.
%left PLUS MINUS.
%left STAR SLASH DSLASH PERCENT AT.
%right UNARY TILDE.
%right DSTAR.

%start_symbol file
file ::= stmts(B).                          { p->result = B; }

/* ---- lines and blocks ---- */

%type stmts {AstSeq}
%type simples {AstSeq}
%type suite {AstSeq}
stmts(A) ::= .                              { A = (AstSeq){0}; }
stmts(A) ::= stmts(B) simples(L) NEWLINE.   { A = seq_join(p, B, L); }
stmts(A) ::= stmts(B) simples(L) SEMI NEWLINE. { A = seq_join(p, B, L); }
stmts(A) ::= stmts(B) compound(S).          { A = seq_add(p, B, S); }
stmts(A) ::= stmts(B) BAD(T) NEWLINE.       { A = seq_add(p, B, bad_line(p, T)); }
stmts(A) ::= stmts(B) broken(S).            { A = seq_add(p, B, S); }

/* A header that could not be read keeps its block, and the branches that hang on it. */
%type broken {Ast *}
broken(A) ::= BAD_HEAD(T) suite(B).                     { A = bad_block(p, T, B); }
broken(A) ::= broken(L) ELSE(T) COLON suite(B).         { A = bad_branch(p, L, T, B); }
broken(A) ::= broken(L) ELIF(T) nexpr COLON suite(B).   { A = bad_branch(p, L, T, B); }
broken(A) ::= broken(L) handler(H).                     { A = bad_branch(p, L, NULL, AST_AS(H, Handler)->body); }
broken(A) ::= broken(L) FINALLY(T) COLON suite(B).      { A = bad_branch(p, L, T, B); }

simples(A) ::= small(S).                    { A = seq1(p, S); }
simples(A) ::= simples(B) SEMI small(S).    { A = seq_add(p, B, S); }

suite(A) ::= simples(B) NEWLINE.            { A = B; }
suite(A) ::= simples(B) SEMI NEWLINE.       { A = B; }
suite(A) ::= BAD(T) NEWLINE.                { A = seq1(p, bad_line(p, T)); }
suite(A) ::= NEWLINE INDENT stmts(B) DEDENT. { A = B; }

/* ---- simple statements ---- */

%type small {Ast *}
%type targets {AstSeq}
%type rhs {Ast *}
%type yieldexpr {Ast *}
small(A) ::= testlist(E).                           { A = mk_expr_stmt(p, E); }
small(A) ::= yieldexpr(E).                          { A = mk_expr_stmt(p, E); }
small(A) ::= targets(T) rhs(V).                     { A = mk_assign(p, T, V); }
small(A) ::= testlist(T) AUG(O) rhs(V).             { A = mk_aug_assign(p, T, O, V); }
small(A) ::= testlist(T) COLON expr(N).             { A = mk_ann_assign(p, T, N, NULL); }
small(A) ::= testlist(T) COLON expr(N) EQ rhs(V).   { A = mk_ann_assign(p, T, N, V); }
targets(A) ::= testlist(T) EQ.                      { A = seq1(p, T); }
targets(A) ::= targets(L) testlist(T) EQ.           { A = seq_add(p, L, T); }
rhs ::= testlist.
rhs ::= yieldexpr.
yieldexpr(A) ::= YIELD(T).                          { A = mk_yield(p, T, NULL); }
yieldexpr(A) ::= YIELD(T) testlist(E).              { A = mk_yield(p, T, E); }
yieldexpr(A) ::= YIELD(T) FROM expr(E).             { A = mk_yield_from(p, T, E); }

small(A) ::= PASS(T).                               { A = mk_plain(p, AST_Pass, T); }
small(A) ::= BREAK(T).                              { A = mk_plain(p, AST_Break, T); }
small(A) ::= CONTINUE(T).                           { A = mk_plain(p, AST_Continue, T); }
small(A) ::= RETURN(T).                             { A = mk_return(p, T, NULL); }
small(A) ::= RETURN(T) testlist(E).                 { A = mk_return(p, T, E); }
small(A) ::= RAISE(T).                              { A = mk_raise(p, T, NULL, NULL); }
small(A) ::= RAISE(T) expr(E).                      { A = mk_raise(p, T, E, NULL); }
small(A) ::= RAISE(T) expr(E) FROM expr(C).         { A = mk_raise(p, T, E, C); }
small(A) ::= ASSERT(T) nexpr(E).                    { A = mk_assert(p, T, E, NULL); }
small(A) ::= ASSERT(T) nexpr(E) COMMA nexpr(M).     { A = mk_assert(p, T, E, M); }
small(A) ::= DEL(T) testlist(E).                    { A = mk_del(p, T, E); }
small(A) ::= GLOBAL(T) names(N).                    { A = mk_global(p, T, N); }
small(A) ::= NONLOCAL(T) names(N).                  { A = mk_nonlocal(p, T, N); }
%type names {AstSeq}
names(A) ::= NAME(N).                               { A = seq1(p, mk_name(p, N)); }
names(A) ::= names(L) COMMA NAME(N).                { A = seq_add(p, L, mk_name(p, N)); }

%type dotted {AstSeq}
%type aliases {AstSeq}
%type froms {AstSeq}
%type origin {Origin}
%type dots {Origin}
small(A) ::= IMPORT(T) aliases(N).                  { A = mk_import(p, T, N); }
aliases(A) ::= alias(N).                            { A = seq1(p, N); }
aliases(A) ::= aliases(L) COMMA alias(N).           { A = seq_add(p, L, N); }
%type alias {Ast *}
alias(A) ::= dotted(D).                             { A = &mk_dotted(p, D)->ast; }
alias(A) ::= dotted(D) AS NAME(N).                  { A = mk_alias_as(p, mk_dotted(p, D), N); }
dotted(A) ::= NAME(N).                              { A = seq1(p, mk_name(p, N)); }
dotted(A) ::= dotted(D) DOT NAME(N).                { A = seq_add(p, D, mk_name(p, N)); }

small(A) ::= FROM(T) origin(O) IMPORT STAR(S).      { A = mk_from(p, T, O, (AstSeq){0}, S); }
small(A) ::= FROM(T) origin(O) IMPORT froms(N).     { A = mk_from(p, T, O, N, NULL); }
small(A) ::= FROM(T) origin(O) IMPORT LPAR froms(N) RPAR(E).       { A = mk_from(p, T, O, N, E); }
small(A) ::= FROM(T) origin(O) IMPORT LPAR froms(N) COMMA RPAR(E). { A = mk_from(p, T, O, N, E); }
origin(A) ::= dotted(D).                            { A = (Origin){0, mk_dotted(p, D)}; }
origin ::= dots.
origin(A) ::= dots(B) dotted(D).                    { A = (Origin){B.level, mk_dotted(p, D)}; }
dots(A) ::= DOT.                                    { A = (Origin){1, NULL}; }
dots(A) ::= ELLIPSIS.                               { A = (Origin){3, NULL}; }
dots(A) ::= dots(B) DOT.                            { A = (Origin){B.level + 1, NULL}; }
dots(A) ::= dots(B) ELLIPSIS.                       { A = (Origin){B.level + 3, NULL}; }
froms(A) ::= from(N).                               { A = seq1(p, N); }
froms(A) ::= froms(L) COMMA from(N).                { A = seq_add(p, L, N); }
%type from {Ast *}
from(A) ::= NAME(N).                                { A = &mk_alias(p, N)->ast; }
from(A) ::= NAME(N) AS NAME(M).                     { A = mk_alias_as(p, mk_alias(p, N), M); }

small(A) ::= TYPE(T) NAME(N) typarams(L) EQ expr(V). { A = mk_type_alias(p, T, N, L, V); }

/* ---- compound statements ---- */

%type compound {Ast *}
%type ifs {IfChain}
%type orelse {AstSeq}
compound(A) ::= ifs(I).                             { A = if_done(p, I, (AstSeq){0}); }
compound(A) ::= ifs(I) ELSE COLON suite(B).         { A = if_done(p, I, B); }
ifs(A) ::= IF(T) nexpr(E) COLON(C) suite(B).        { A = if_first(p, T, E, C, B); }
ifs(A) ::= ifs(I) ELIF(T) nexpr(E) COLON(C) suite(B). { A = if_more(p, I, T, E, C, B); }
orelse(A) ::= .                                     { A = (AstSeq){0}; }
orelse(A) ::= ELSE COLON suite(B).                  { A = B; }

compound(A) ::= WHILE(T) nexpr(E) COLON(C) suite(B) orelse(O).         { A = mk_while(p, T, E, C, B, O); }
compound(A) ::= forhead(F) suite(B) orelse(O).                  { A = mk_for(p, F, B, O); }
compound(A) ::= WITH(T) withs(I) COLON(C) suite(B).             { A = mk_with(p, T, NULL, I, C, B); }
compound(A) ::= ASYNC(S) WITH(T) withs(I) COLON(C) suite(B).    { A = mk_with(p, T, S, I, C, B); }
compound(A) ::= ON(T) expr(E) COLON(C) suite(B).                { A = mk_on(p, T, E, C, B); }
%type forhead {AstFor *}
forhead(A) ::= FOR(T) tgtlist(X) IN testlist(E) COLON(C).       { A = for_head(p, T, NULL, X, E, C); }
forhead(A) ::= ASYNC(S) FOR(T) tgtlist(X) IN testlist(E) COLON(C). { A = for_head(p, T, S, X, E, C); }
%type withs {AstSeq}
%type withlist {AstSeq}
%type withitem {Ast *}
withs ::= withlist.
withs(A) ::= WITH_LPAR withlist(L) RPAR.            { A = L; }
withs(A) ::= WITH_LPAR withlist(L) COMMA RPAR.      { A = L; }
withlist(A) ::= withitem(I).                        { A = seq1(p, I); }
withlist(A) ::= withlist(L) COMMA withitem(I).      { A = seq_add(p, L, I); }
withitem(A) ::= expr(E).                            { A = mk_with_item(p, E, NULL); }
withitem(A) ::= expr(E) AS tgt(X).                  { A = mk_with_item(p, E, X); }

compound(A) ::= TRY(T) COLON(C) suite(B) FINALLY COLON suite(F).  { A = mk_try(p, T, C, B, (AstSeq){0}, (AstSeq){0}, &F); }
compound(A) ::= TRY(T) COLON(C) suite(B) handlers(H) orelse(O).   { A = mk_try(p, T, C, B, H, O, NULL); }
compound(A) ::= TRY(T) COLON(C) suite(B) handlers(H) orelse(O) FINALLY COLON suite(F).
                                                    { A = mk_try(p, T, C, B, H, O, &F); }
%type handlers {AstSeq}
%type handler {Ast *}
handlers(A) ::= handler(H).                         { A = seq1(p, H); }
handlers(A) ::= handlers(L) handler(H).             { A = seq_add(p, L, H); }
handler(A) ::= EXCEPT(T) COLON(C) suite(B).                     { A = mk_handler(p, T, NULL, NULL, C, B); }
handler(A) ::= EXCEPT(T) expr(E) COLON(C) suite(B).             { A = mk_handler(p, T, E, NULL, C, B); }
handler(A) ::= EXCEPT(T) expr(E) AS NAME(N) COLON(C) suite(B).  { A = mk_handler(p, T, E, N, C, B); }

compound(A) ::= MATCH(T) nlist(E) COLON(C) NEWLINE INDENT cases(L) DEDENT. { A = mk_match(p, T, E, C, L); }
%type cases {AstSeq}
%type guard {Ast *}
cases(A) ::= .                                      { A = (AstSeq){0}; }
cases(A) ::= cases(L) CASE(T) patterns(P) guard(G) COLON(C) suite(B). { A = seq_add(p, L, mk_case(p, T, P, G, C, B)); }
cases(A) ::= cases(L) BAD NEWLINE.                  { A = L; }
cases(A) ::= cases(L) BAD_HEAD suite.               { A = L; }
guard(A) ::= .                                      { A = NULL; }
guard(A) ::= IF nexpr(E).                           { A = E; }

/* ---- definitions ---- */

%type decorators {AstSeq}
%type defhead {AstFunctionDef *}
%type classhead {AstClassDef *}
compound ::= definition.
compound(A) ::= decorators(L) definition(D).        { A = decorate(p, L, D); }
stmts(A) ::= stmts(B) decorators BAD(T) NEWLINE.    { A = seq_add(p, B, bad_line(p, T)); }
stmts(A) ::= stmts(B) decorators BAD_HEAD(T) suite(S).  { A = seq_add(p, B, bad_block(p, T, S)); }
decorators(A) ::= decorator(D).                     { A = seq1(p, D); }
decorators(A) ::= decorators(L) decorator(D).       { A = seq_add(p, L, D); }
%type decorator {Ast *}
decorator(A) ::= DECORATOR nexpr(E).                { A = E; }
decorator(A) ::= DECORATOR nexpr(E) NEWLINE.        { A = E; }
%type definition {Ast *}
definition(A) ::= defhead(H) suite(B).              { A = def_done(p, H, B); }
definition(A) ::= classhead(H) suite(B).            { A = class_done(p, H, B); }
defhead(A) ::= DEF(T) NAME(N) typarams(G) LPAR params(P) RPAR result(R) where(W) COLON(C).
                                                    { A = mk_def(p, T, NULL, N, G, P, R, W, C); }
defhead(A) ::= ASYNC(S) DEF(T) NAME(N) typarams(G) LPAR params(P) RPAR result(R) where(W) COLON(C).
                                                    { A = mk_def(p, T, S, N, G, P, R, W, C); }
classhead(A) ::= CLASS(T) NAME(N) typarams(G) COLON(C).                 { A = mk_class(p, T, N, G, (AstSeq){0}, C); }
classhead(A) ::= CLASS(T) NAME(N) typarams(G) LPAR args(L) RPAR COLON(C). { A = mk_class(p, T, N, G, L, C); }
%type result {Ast *}
%type where {AstSeq}
%type wherelist {AstSeq}
result(A) ::= .                                     { A = NULL; }
result(A) ::= ARROW expr(E).                        { A = E; }
where(A) ::= .                                      { A = (AstSeq){0}; }
where(A) ::= WHERE wherelist(L).                    { A = L; }
wherelist(A) ::= expr(E).                           { A = seq1(p, E); }
wherelist(A) ::= wherelist(L) COMMA expr(E).        { A = seq_add(p, L, E); }

%type typarams {AstSeq}
%type typaramlist {AstSeq}
%type typaram {Ast *}
typarams(A) ::= .                                   { A = (AstSeq){0}; }
typarams(A) ::= LSQB typaramlist(L) RSQB.           { A = L; }
typarams(A) ::= LSQB typaramlist(L) COMMA RSQB.     { A = L; }
typaramlist(A) ::= typaram(T).                      { A = seq1(p, T); }
typaramlist(A) ::= typaramlist(L) COMMA typaram(T). { A = seq_add(p, L, T); }
typaram(A) ::= NAME(N).                             { A = mk_typaram(p, N, NULL, 0); }
typaram(A) ::= NAME(N) COLON expr(B).               { A = mk_typaram(p, N, B, 0); }
typaram(A) ::= STAR NAME(N).                        { A = mk_typaram(p, N, NULL, 1); }
typaram(A) ::= DSTAR NAME(N).                       { A = mk_typaram(p, N, NULL, 2); }

%type params {AstSeq}
%type paramlist {AstSeq}
%type param {Ast *}
params(A) ::= .                                     { A = (AstSeq){0}; }
params ::= paramlist.
params(A) ::= paramlist(L) COMMA.                   { A = L; }
paramlist(A) ::= param(X).                          { A = seq1(p, X); }
paramlist(A) ::= paramlist(L) COMMA param(X).       { A = seq_add(p, L, X); }
param(A) ::= NAME(N).                               { A = mk_param(p, PARAM_NORMAL, N, NULL, NULL); }
param(A) ::= NAME(N) EQ expr(D).                    { A = mk_param(p, PARAM_NORMAL, N, NULL, D); }
param(A) ::= NAME(N) COLON expr(T).                 { A = mk_param(p, PARAM_NORMAL, N, T, NULL); }
param(A) ::= NAME(N) COLON expr(T) EQ expr(D).      { A = mk_param(p, PARAM_NORMAL, N, T, D); }
param(A) ::= STAR NAME(N).                          { A = mk_param(p, PARAM_VARARGS, N, NULL, NULL); }
param(A) ::= STAR NAME(N) COLON expr(T).            { A = mk_param(p, PARAM_VARARGS, N, T, NULL); }
param(A) ::= STAR NAME(N) COLON starred(T).         { A = mk_param(p, PARAM_VARARGS, N, T, NULL); }
param(A) ::= DSTAR NAME(N).                         { A = mk_param(p, PARAM_KWARGS, N, NULL, NULL); }
param(A) ::= DSTAR NAME(N) COLON expr(T).           { A = mk_param(p, PARAM_KWARGS, N, T, NULL); }
param(A) ::= STAR(T).                               { A = mk_param_mark(p, PARAM_KWONLY, T); }
param(A) ::= SLASH(T).                              { A = mk_param_mark(p, PARAM_POSONLY, T); }
param(A) ::= ELLIPSIS(T).                           { A = mk_param_mark(p, PARAM_ANY, T); }

%type lparams {AstSeq}
%type lparamlist {AstSeq}
%type lparam {Ast *}
lparams(A) ::= .                                    { A = (AstSeq){0}; }
lparams ::= lparamlist.
lparams(A) ::= lparamlist(L) COMMA.                 { A = L; }
lparamlist(A) ::= lparam(X).                        { A = seq1(p, X); }
lparamlist(A) ::= lparamlist(L) COMMA lparam(X).    { A = seq_add(p, L, X); }
lparam(A) ::= NAME(N).                              { A = mk_param(p, PARAM_NORMAL, N, NULL, NULL); }
lparam(A) ::= NAME(N) EQ expr(D).                   { A = mk_param(p, PARAM_NORMAL, N, NULL, D); }
lparam(A) ::= STAR NAME(N).                         { A = mk_param(p, PARAM_VARARGS, N, NULL, NULL); }
lparam(A) ::= DSTAR NAME(N).                        { A = mk_param(p, PARAM_KWARGS, N, NULL, NULL); }
lparam(A) ::= STAR(T).                              { A = mk_param_mark(p, PARAM_KWONLY, T); }
lparam(A) ::= SLASH(T).                             { A = mk_param_mark(p, PARAM_POSONLY, T); }

/* ---- lists of expressions ---- */

%type testlist {Ast *}
%type items {AstSeq}
%type item {Ast *}
%type starred {Ast *}
testlist(A) ::= items(L).                           { A = mk_list_or_one(p, L); }
testlist(A) ::= items(L) COMMA(T).                  { A = mk_tuple(p, L, T); }
items(A) ::= item(E).                               { A = seq1(p, E); }
items(A) ::= items(L) COMMA item(E).                { A = seq_add(p, L, E); }
item ::= expr.
item ::= starred.
starred(A) ::= STAR(T) arith(E).                    { A = mk_starred(p, T, E); }

%type nlist {Ast *}
%type nitems {AstSeq}
%type nitem {Ast *}
%type nexpr {Ast *}
nlist(A) ::= nitems(L).                             { A = mk_list_or_one(p, L); }
nlist(A) ::= nitems(L) COMMA(T).                    { A = mk_tuple(p, L, T); }
nitems(A) ::= nitem(E).                             { A = seq1(p, E); }
nitems(A) ::= nitems(L) COMMA nitem(E).             { A = seq_add(p, L, E); }
nitem ::= nexpr.
nitem ::= starred.
nexpr ::= expr.
nexpr(A) ::= expr(T) WALRUS expr(E).                { A = mk_named(p, T, E); }

/* Targets of for and with: primaries only, so that "in" ends them. */
%type tgtlist {Ast *}
%type tgts {AstSeq}
%type tgt {Ast *}
tgtlist(A) ::= tgts(L).                             { A = mk_list_or_one(p, L); }
tgtlist(A) ::= tgts(L) COMMA(T).                    { A = mk_tuple(p, L, T); }
tgts(A) ::= tgt(E).                                 { A = seq1(p, E); }
tgts(A) ::= tgts(L) COMMA tgt(E).                   { A = seq_add(p, L, E); }
tgt ::= primary.
tgt(A) ::= STAR(T) primary(E).                      { A = mk_starred(p, T, E); }

/* ---- expressions ---- */

%type expr {Ast *}
%type disj {Ast *}
%type arith {Ast *}
%type primary {Ast *}
%type atom {Ast *}
expr ::= disj.
expr(A) ::= disj(B) IF disj(C) ELSE expr(E).        { A = mk_if_exp(p, B, C, E); }
expr(A) ::= LAMBDA(T) lparams(P) COLON expr(B).     { A = mk_lambda(p, T, P, B); }

disj ::= arith.
disj(A) ::= disj(L) OR disj(R).                     { A = mk_bool(p, L, AOP_OR, R); }
disj(A) ::= disj(L) AND disj(R).                    { A = mk_bool(p, L, AOP_AND, R); }
disj(A) ::= NOT(T) disj(E).                         { A = mk_unary(p, T, AOP_NOT, E); }

/* Comparisons chain, so they are one list and not nested: a level of their own. */
%type compare {AstCompare *}
disj(A) ::= compare(C).                             { A = compare_done(p, C); }
compare(A) ::= arith(L) CMP(O) arith(R).            { A = mk_compare(p, L, O, R); }
compare(A) ::= arith(L) IN(O) arith(R).             { A = mk_compare(p, L, O, R); }
compare(A) ::= compare(L) CMP(O) arith(R).          { A = compare_more(p, L, O, R); }
compare(A) ::= compare(L) IN(O) arith(R).           { A = compare_more(p, L, O, R); }

arith(A) ::= arith(L) VBAR arith(R).                { A = mk_binop(p, L, AOP_BITOR, R); }
arith(A) ::= arith(L) CIRCUMFLEX arith(R).          { A = mk_binop(p, L, AOP_BITXOR, R); }
arith(A) ::= arith(L) AMPER arith(R).               { A = mk_binop(p, L, AOP_BITAND, R); }
arith(A) ::= arith(L) SHIFT(O) arith(R).            { A = mk_binop(p, L, O->op, R); }
arith(A) ::= arith(L) PLUS arith(R).                { A = mk_binop(p, L, AOP_ADD, R); }
arith(A) ::= arith(L) MINUS arith(R).               { A = mk_binop(p, L, AOP_SUB, R); }
arith(A) ::= arith(L) STAR arith(R).                { A = mk_binop(p, L, AOP_MUL, R); }
arith(A) ::= arith(L) SLASH arith(R).               { A = mk_binop(p, L, AOP_DIV, R); }
arith(A) ::= arith(L) DSLASH arith(R).              { A = mk_binop(p, L, AOP_FLOORDIV, R); }
arith(A) ::= arith(L) PERCENT arith(R).             { A = mk_binop(p, L, AOP_MOD, R); }
arith(A) ::= arith(L) AT arith(R).                  { A = mk_binop(p, L, AOP_MATMUL, R); }
arith(A) ::= arith(L) DSTAR arith(R).               { A = mk_binop(p, L, AOP_POW, R); }
arith(A) ::= MINUS(T) arith(E). [UNARY]             { A = mk_unary(p, T, AOP_NEG, E); }
arith(A) ::= PLUS(T) arith(E). [UNARY]              { A = mk_unary(p, T, AOP_POS, E); }
arith(A) ::= TILDE(T) arith(E).                     { A = mk_unary(p, T, AOP_INVERT, E); }
arith(A) ::= AWAIT(T) primary(E).                   { A = mk_await(p, T, E); }
arith ::= primary.

primary ::= atom.
primary(A) ::= primary(V) DOT NAME(N).              { A = mk_attribute(p, V, N); }
primary(A) ::= primary(F) LPAR args(L) RPAR(E).     { A = mk_call(p, F, L, E); }
primary(A) ::= primary(V) LSQB subs(I) RSQB(E).     { A = mk_subscript(p, V, I, E); }
primary(A) ::= primary(V) LBRACE nitems(L) RBRACE(E).       { A = mk_brace_index(p, V, L, E); }
primary(A) ::= primary(V) LBRACE nitems(L) COMMA RBRACE(E). { A = mk_brace_index(p, V, L, E); }

atom(A) ::= NAME(N).                                { A = mk_name(p, N); }
atom(A) ::= INT(N).                                 { A = mk_int(p, N); }
atom(A) ::= FLOAT(N).                               { A = mk_float(p, N); }
atom(A) ::= IMAG(N).                                { A = mk_imag(p, N); }
atom(A) ::= NONE(T).                                { A = mk_const(p, T, CONST_NONE); }
atom(A) ::= TRUE(T).                                { A = mk_const(p, T, CONST_TRUE); }
atom(A) ::= FALSE(T).                               { A = mk_const(p, T, CONST_FALSE); }
atom(A) ::= ELLIPSIS(T).                            { A = mk_const(p, T, CONST_ELLIPSIS); }
atom(A) ::= strings(L).                             { A = mk_strings(p, L); }
atom(A) ::= LPAR(T) RPAR(E).                        { A = mk_paren_tuple(p, T, (AstSeq){0}, E); }
atom(A) ::= LPAR(T) nitems(L) COMMA RPAR(E).        { A = mk_paren_tuple(p, T, L, E); }
atom(A) ::= LPAR(T) nitems(L) RPAR(E).              { A = mk_paren(p, T, L, E); }
atom(A) ::= LPAR(T) yieldexpr(Y) RPAR(E).           { A = mk_paren(p, T, seq1(p, Y), E); }
atom(A) ::= LPAR(T) nitem(X) comp(C) RPAR(E).       { A = mk_comp(p, AST_GenExp, T, X, C, E); }
atom(A) ::= LSQB(T) RSQB(E).                        { A = mk_list(p, T, (AstSeq){0}, E); }
atom(A) ::= LSQB(T) nitems(L) RSQB(E).              { A = mk_list(p, T, L, E); }
atom(A) ::= LSQB(T) nitems(L) COMMA RSQB(E).        { A = mk_list(p, T, L, E); }
atom(A) ::= LSQB(T) nitem(X) comp(C) RSQB(E).       { A = mk_comp(p, AST_ListComp, T, X, C, E); }
atom(A) ::= LBRACE(T) nitems(L) RBRACE(E).          { A = mk_set(p, T, L, E); }
atom(A) ::= LBRACE(T) nitems(L) COMMA RBRACE(E).    { A = mk_set(p, T, L, E); }
atom(A) ::= LBRACE(T) nitem(X) comp(C) RBRACE(E).   { A = mk_comp(p, AST_SetComp, T, X, C, E); }
atom(A) ::= LBRACE(T) RBRACE(E).                    { A = mk_dict(p, T, (AstSeq){0}, E); }
atom(A) ::= LBRACE(T) pairs(L) RBRACE(E).           { A = mk_dict(p, T, L, E); }
atom(A) ::= LBRACE(T) pairs(L) COMMA RBRACE(E).     { A = mk_dict(p, T, L, E); }
atom(A) ::= LBRACE(T) expr(K) COLON expr(V) comp(C) RBRACE(E). { A = mk_dict_comp(p, T, K, V, C, E); }
%type pairs {AstSeq}
%type pair {Ast *}
pairs(A) ::= pair(I).                               { A = seq1(p, I); }
pairs(A) ::= pairs(L) COMMA pair(I).                { A = seq_add(p, L, I); }
pair(A) ::= expr(K) COLON expr(V).                  { A = mk_dict_item(p, NULL, K, V); }
pair(A) ::= DSTAR(T) arith(V).                      { A = mk_dict_item(p, T, NULL, V); }

%type comp {AstSeq}
%type compfor {Ast *}
comp(A) ::= compfor(F).                             { A = seq1(p, F); }
comp(A) ::= comp(L) compfor(F).                     { A = seq_add(p, L, F); }
comp(A) ::= comp(L) IF disj(C).                     { A = comp_if(p, L, C); }
compfor(A) ::= FOR(T) tgtlist(X) IN disj(E).        { A = mk_comp_for(p, T, NULL, X, E); }
compfor(A) ::= ASYNC(S) FOR(T) tgtlist(X) IN disj(E). { A = mk_comp_for(p, T, S, X, E); }

%type args {AstSeq}
%type arglist {AstSeq}
%type arg {Ast *}
args(A) ::= .                                       { A = (AstSeq){0}; }
args ::= arglist.
args(A) ::= arglist(L) COMMA.                       { A = args_comma(p, L); }
arglist(A) ::= arg(X).                              { A = seq1(p, X); }
arglist(A) ::= arglist(L) COMMA arg(X).             { A = seq_add(p, L, X); }
arg(A) ::= nexpr(E).                                { A = mk_arg(p, NULL, 0, E); }
arg(A) ::= expr(N) EQ expr(E).                      { A = mk_keyword_arg(p, N, E); }
arg(A) ::= STAR(T) expr(E).                         { A = mk_arg(p, T, 1, E); }
arg(A) ::= DSTAR(T) expr(E).                        { A = mk_arg(p, T, 2, E); }
arg(A) ::= nexpr(E) comp(C).                        { A = mk_arg_comp(p, E, C); }

%type subs {Ast *}
%type sublist {AstSeq}
%type sub {Ast *}
%type opt {Ast *}
subs(A) ::= sublist(L).                             { A = mk_subs(p, L); }
subs(A) ::= sublist(L) COMMA(T).                    { A = mk_tuple(p, L, T); }
sublist(A) ::= sub(S).                              { A = seq1(p, S); }
sublist(A) ::= sublist(L) COMMA sub(S).             { A = seq_add(p, L, S); }
sub ::= nitem.
sub(A) ::= opt(L) COLON(T) opt(H).                  { A = mk_slice(p, T, L, H, NULL, NULL); }
sub(A) ::= opt(L) COLON(T) opt(H) COLON(U) opt(S).  { A = mk_slice(p, T, L, H, U, S); }
opt(A) ::= .                                        { A = NULL; }
opt ::= expr.

/* ---- strings ---- */

%type strings {AstSeq}
%type string {Ast *}
%type fparts {AstSeq}
%type hole {Ast *}
%type fvalue {Ast *}
%type fdebug {const Token *}
%type fconv {const Token *}
%type fspec {Ast *}
strings(A) ::= string(S).                           { A = seq1(p, S); }
strings(A) ::= strings(L) string(S).                { A = seq_add(p, L, S); }
string(A) ::= STRING(T).                            { A = mk_str(p, T); }
string(A) ::= BYTES(T).                             { A = mk_bytes(p, T); }
string(A) ::= FSTART(T) fparts(L) FEND(E).          { A = mk_fstring(p, T, L, E); }
fparts(A) ::= .                                     { A = (AstSeq){0}; }
fparts(A) ::= fparts(L) FTEXT(T).                   { A = seq_add(p, L, mk_str(p, T)); }
fparts(A) ::= fparts(L) hole(H).                    { A = seq_add(p, L, H); }
hole(A) ::= FLBRACE(T) fvalue(V) fdebug(D) fconv(C) fspec(S) FRBRACE(E). { A = mk_hole(p, T, V, D, C, S, E); }
fvalue ::= nlist.
fvalue ::= yieldexpr.
fdebug(A) ::= .                                     { A = NULL; }
fdebug(A) ::= FEQUAL(T).                            { A = T; }
fconv(A) ::= .                                      { A = NULL; }
fconv(A) ::= FBANG NAME(N).                         { A = N; }
fspec(A) ::= .                                      { A = NULL; }
fspec(A) ::= FCOLON(T) fparts(L).                   { A = mk_fspec(p, T, L); }

/* ---- patterns ---- */

%type patterns {Ast *}
%type patlist {AstSeq}
%type pat {Ast *}
%type orpat {Ast *}
%type closed {Ast *}
%type patitem {Ast *}
patterns(A) ::= patlist(L).                         { A = pat_list_or_one(p, L); }
patterns(A) ::= patlist(L) COMMA(T).                { A = mk_pat_sequence(p, NULL, L, T); }
patlist(A) ::= patitem(P).                          { A = seq1(p, P); }
patlist(A) ::= patlist(L) COMMA patitem(P).         { A = seq_add(p, L, P); }
patitem ::= pat.
patitem(A) ::= STAR(T) NAME(N).                     { A = mk_pat_star(p, T, N); }
pat ::= orpat.
pat(A) ::= orpat(P) AS NAME(N).                     { A = mk_pat_as(p, P, N); }
orpat ::= closed.
orpat(A) ::= orpat(L) VBAR closed(P).               { A = mk_pat_or(p, L, P); }
closed(A) ::= patname(V).                           { A = mk_pat_name(p, V); }
closed(A) ::= patname(V) LPAR RPAR(E).              { A = mk_pat_class(p, V, (AstSeq){0}, E); }
closed(A) ::= patname(V) LPAR patargs(L) RPAR(E).   { A = mk_pat_class(p, V, L, E); }
closed(A) ::= patname(V) LPAR patargs(L) COMMA RPAR(E). { A = mk_pat_class(p, V, L, E); }
closed(A) ::= patvalue(V).                          { A = mk_pat_value(p, V); }
closed(A) ::= LPAR(T) RPAR(E).                      { A = mk_pat_sequence(p, T, (AstSeq){0}, E); }
closed(A) ::= LPAR(T) patlist(L) RPAR(E).           { A = pat_paren(p, T, L, E); }
closed(A) ::= LPAR(T) patlist(L) COMMA RPAR(E).     { A = mk_pat_sequence(p, T, L, E); }
closed(A) ::= LSQB(T) RSQB(E).                      { A = mk_pat_sequence(p, T, (AstSeq){0}, E); }
closed(A) ::= LSQB(T) patlist(L) RSQB(E).           { A = mk_pat_sequence(p, T, L, E); }
closed(A) ::= LSQB(T) patlist(L) COMMA RSQB(E).     { A = mk_pat_sequence(p, T, L, E); }
closed(A) ::= LBRACE(T) RBRACE(E).                  { A = mk_pat_mapping(p, T, (AstSeq){0}, E); }
closed(A) ::= LBRACE(T) patpairs(L) RBRACE(E).      { A = mk_pat_mapping(p, T, L, E); }
closed(A) ::= LBRACE(T) patpairs(L) COMMA RBRACE(E). { A = mk_pat_mapping(p, T, L, E); }
%type patname {Ast *}
%type patvalue {Ast *}
%type number {Ast *}
%type patargs {AstSeq}
%type patarg {Ast *}
%type patpairs {AstSeq}
%type patpair {Ast *}
patname(A) ::= NAME(N).                             { A = mk_name(p, N); }
patname(A) ::= patname(V) DOT NAME(N).              { A = mk_attribute(p, V, N); }
patvalue ::= number.
patvalue(A) ::= MINUS(T) number(E).                 { A = mk_unary(p, T, AOP_NEG, E); }
patvalue(A) ::= number(L) PLUS IMAG(R).             { A = mk_binop(p, L, AOP_ADD, mk_imag(p, R)); }
patvalue(A) ::= number(L) MINUS IMAG(R).            { A = mk_binop(p, L, AOP_SUB, mk_imag(p, R)); }
patvalue(A) ::= MINUS(T) number(L) PLUS IMAG(R).    { A = mk_binop(p, mk_unary(p, T, AOP_NEG, L), AOP_ADD, mk_imag(p, R)); }
patvalue(A) ::= MINUS(T) number(L) MINUS IMAG(R).   { A = mk_binop(p, mk_unary(p, T, AOP_NEG, L), AOP_SUB, mk_imag(p, R)); }
patvalue(A) ::= NONE(T).                            { A = mk_const(p, T, CONST_NONE); }
patvalue(A) ::= TRUE(T).                            { A = mk_const(p, T, CONST_TRUE); }
patvalue(A) ::= FALSE(T).                           { A = mk_const(p, T, CONST_FALSE); }
patvalue(A) ::= strings(L).                         { A = mk_strings(p, L); }
number(A) ::= INT(N).                               { A = mk_int(p, N); }
number(A) ::= FLOAT(N).                             { A = mk_float(p, N); }
number(A) ::= IMAG(N).                              { A = mk_imag(p, N); }
patargs(A) ::= patarg(X).                           { A = seq1(p, X); }
patargs(A) ::= patargs(L) COMMA patarg(X).          { A = seq_add(p, L, X); }
patarg ::= pat.
patarg(A) ::= NAME(N) EQ pat(P).                    { A = mk_pat_keyword(p, N, P); }
patpairs(A) ::= patpair(I).                         { A = seq1(p, I); }
patpairs(A) ::= patpairs(L) COMMA patpair(I).       { A = seq_add(p, L, I); }
patpair(A) ::= patvalue(K) COLON pat(P).            { A = mk_pat_item(p, K, P); }
patpair(A) ::= patname(K) COLON pat(P).             { A = mk_pat_item(p, K, P); }
patpair(A) ::= DSTAR(T) NAME(N).                    { A = mk_pat_rest(p, T, N); }

/* ---- what the driver needs of the automaton ---- */
%code {
/* The stack as it stood at the start of a line. */
void parser_save(const void *yyp, ParserMark *m)
{
    const yyParser *y = yyp;
    int n = (int)(y->yytos - y->yystack) + 1;

    if (n > m->cap) {
        m->cap = n * 2;
        m->entry = tsr_realloc(m->entry, (size_t)m->cap * sizeof(yyStackEntry));
    }
    m->n = n;
    memcpy(m->entry, y->yystack, (size_t)n * sizeof(yyStackEntry));
}

void parser_restore(void *yyp, const ParserMark *m)
{
    yyParser *y = yyp;

    memcpy(y->yystack, m->entry, (size_t)m->n * sizeof(yyStackEntry));
    y->yytos = y->yystack + m->n - 1;
}

enum { TRIAL_DEPTH = 512 };     /* states that a trial may push above or copy from the real stack */

/* Would `token` be shifted next? Runs the automaton on a copy of its states, without actions. */
bool parser_accepts(const void *yyp, int token)
{
    const yyParser *y = yyp;
    YYACTIONTYPE state[TRIAL_DEPTH];
    const yyStackEntry *base = y->yytos;            /* state[0] is base's */
    int top = 0;

    state[0] = base->stateno;
    for (;;) {
        YYACTIONTYPE act = yy_find_shift_action((YYCODETYPE)token, state[top]);
        if (act < YY_MIN_REDUCE)
            return act <= YY_MAX_SHIFTREDUCE || act == YY_ACCEPT_ACTION;
        int pop = -yyRuleInfoNRhs[act - YY_MIN_REDUCE];
        if (pop <= top) {
            top -= pop;
        } else {
            base -= pop - top;
            if (base < y->yystack)
                return false;
            top = 0;
            state[0] = base->stateno;
        }
        if (top + 1 >= TRIAL_DEPTH)
            return false;
        act = yy_find_reduce_action(state[top], yyRuleInfoLhs[act - YY_MIN_REDUCE]);
        state[++top] = act;
    }
}
}
