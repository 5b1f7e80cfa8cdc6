/*
 * effect_walk.h - the walk over one body, between its files: effect_walk.c goes through statements,
 * effect_calls.c says what a call does, effect_sources.c notes what was found.
 */
#ifndef TSR_FRONTEND_EFFECT_WALK_H
#define TSR_FRONTEND_EFFECT_WALK_H

#include "frontend/check/effects.h"

enum { WALK_MAX = 1000 };       /* how deep a walk goes: what lies deeper is not looked at */

/* ------------------------------------------------------------- effect_sources.c */

/* Where a changed object came from. FRESH: the function made it. PARAM: `param` is its number. CAPTURED: `local` of a function around. */
typedef enum { ROOT_FRESH, ROOT_PARAM, ROOT_CAPTURED, ROOT_OUTSIDE } RootKind;
typedef struct Root { RootKind kind; int param; const Local *local; Sym name; } Root;

/* The origin of e's object; w->lost: it is too far away, and ROOT_FRESH only so far. */
Root effect_root(EffWalk *w, Ast *e);
/* Join s, less what is masked, to the function's effects, and hand it to the walk's `found`. */
void effect_source(EffWalk *w, EffSource s);
/* What of EFF_state f changes, "append"; each once. */
void effect_detail(EffWalk *w, const char *text);
/* Something with this root is changed at `span` by `what` of `next`; text says so: "write self.x". */
void effect_change(EffWalk *w, Root r, Span span, const char *what, const EffFn *next, const char *text);
/* "write self.x" of a target self.x[i], in the arena of effects. */
const char *effect_write_text(EffWalk *w, Ast *target);

/* ------------------------------------------------------------- effect_calls.c */

/* The effects of all that c may call. */
void effect_call(EffWalk *w, AstCall *c);
/* Those of calling f; bound: its first parameter is c's object, fresh: which is made by this call. */
void effect_call_fn(EffWalk *w, EffFn *f, AstCall *c, bool bound, bool fresh);
bool effect_has_keyword(const AstCall *c, const char *name);

#endif
