/*
 * lib.h - what the builtin types do, for the evaluator's operators and for each other.
 *
 * The evaluator (eval/) owns the object layouts, the dispatch of operators and
 * the dictionary; this folder owns what each builtin type *means*: its text,
 * its slices, its methods.  Methods and functions reach the language through
 * the tables of natives.def; what is declared here is called from C.
 */
#ifndef TSR_FRONTEND_LIB_H
#define TSR_FRONTEND_LIB_H

#include "frontend/eval/interp.h"
#include "frontend/eval/native.h"

/* ------------------------------------------------------------- text of values: repr.c, number.c, format.c */

/* value_str, value_repr, value_repr_to of interp.h are in repr.c; value_format in format.c. */
void repr_float(StrBuf *b, double x);                   /* shortest text that reads back as x: 0.1, 1e+16, -0.0, nan */
void repr_str(StrBuf *b, const char *s, size_t n);      /* quoted and escaped as Python does */
void repr_ascii(StrBuf *b, const char *s, size_t n);    /* copy, with escapes for what is beyond ASCII */
bool codepoint_printable(uint32_t c);                   /* str.isprintable of one code point */
bool value_str_to(Interp *I, Value v, StrBuf *out);     /* str(v), appended */
/* "%s is %d" % args, with args a tuple, a dict or one value. */
Value str_percent(Interp *I, StrObj *format, Value args);
Value bytes_percent(Interp *I, BytesObj *format, Value args);   /* the same of bytes, whose %s and %b take bytes; args no dict */
/* "{} {name}".format(*args, **kw); args a tuple, kw a dict. */
Value str_format(Interp *I, StrObj *format, Value args, Value kw);

/* text.render(name=...): {name} holes filled with str(value), every other brace kept. KeyError when one is not given. */
Value str_render(Interp *I, StrObj *text, DictObj *values);

/* Bytes of a text and back, for the codecs utf-8, ascii, latin-1; errors strict, ignore, replace ...: bytes.c. */
Value text_encode(Interp *I, StrObj *s, const char *encoding, const char *errors);
Value text_decode(Interp *I, const char *s, size_t n, const char *encoding, const char *errors);

/* Numbers from text, as int() and float() read them. false: not a number; no exception is set. */
typedef enum { PARSE_OK, PARSE_BAD, PARSE_RANGE } ParseStatus;
ParseStatus parse_int(const char *s, size_t n, int base, int64_t *out);
Value int_of_float(Interp *I, double x);                /* truncated; NaN and what 64 bits cannot hold raise */
bool parse_float(const char *s, size_t n, double *out);

/* ------------------------------------------------------------- sequences: str.c, list.c, seq.c */

/* Resolve a slice against length n: the first index, the step and the number of elements. false: exception pending. */
bool slice_resolve(Interp *I, const SliceObj *s, int64_t n, int64_t *start, int64_t *step, int64_t *count);
bool slice_bounds(Interp *I, const SliceObj *s, int64_t n, int64_t *start, int64_t *stop, int64_t *step);    /* slice.indices */
int64_t str_nchars(StrObj *s);                          /* len(s): counted once */
size_t str_byte_of(StrObj *s, int64_t index);           /* byte offset of code point index, 0 <= index <= nchars */
Value str_item(Interp *I, StrObj *s, int64_t i);        /* s[i]; negative counts from the end; IndexError */
Value seq_item(Interp *I, Value seq, int64_t i);        /* str, bytes, list, tuple, range by index */
Value seq_slice(Interp *I, Value seq, const SliceObj *s);           /* the same by slice */
bool list_set_slice(Interp *I, ListObj *l, const SliceObj *s, Value v);     /* l[a:b:c] = v; V_ERR: del l[a:b:c] */
Value seq_concat(Interp *I, Value a, Value b);          /* a + b of equal kinds: str, bytes, list, tuple */
Value seq_repeat(Interp *I, Value a, int64_t n);        /* a * n */
void *obj_new(Tag kind, size_t size);                   /* eval/heap.c: zeroed after the header, count 1 */
Value range_new(int64_t start, int64_t stop, int64_t step, int64_t n);
Value bytes_new(const char *s, size_t n);
int str_compare(const StrObj *a, const StrObj *b);      /* <0, 0, >0 by code points */
/* list, tuple by lexicographic order: op is AOP_LT .. AOP_GE, AOP_EQ, AOP_NE; 1, 0, -1 pending. */
int seq_compare(Interp *I, int op, Value a, Value b);
Value tuple_from(Interp *I, Value iterable);            /* tuple(iterable) */
bool list_sort(Interp *I, ListObj *l, Value key, bool reverse);     /* stable; key V_ERR or None: the elements themselves */
Value str_char(uint32_t codepoint);                     /* a string of one code point; shared for ASCII */
uint32_t utf8_next(const char **p);                     /* decode one code point of valid UTF-8 and step over it */

/* ------------------------------------------------------------- sets and dicts: set.c, dict.c */

bool set_add(Interp *I, SetObj *s, Value v);
int set_has(Interp *I, SetObj *s, Value v);             /* 1, 0, -1 pending */
bool set_update(Interp *I, SetObj *s, Value iterable);
Value set_binary(Interp *I, int op, Value a, Value b);  /* | & - ^ of two sets (AOP_BITOR ...); kind as a's */
int set_compare(Interp *I, int op, Value a, Value b);   /* subset order and equality of two sets: 1, 0, -1 */
bool dict_update(Interp *I, DictObj *d, Value other);   /* other: a mapping or an iterable of pairs */
Value dict_copy(Interp *I, DictObj *d);
void dict_clear(DictObj *d);                            /* a dict or a set */
DictObj *self_dict(Interp *I, Value v);                 /* the self of a method; NULL: TypeError pending */
int dict_equal(Interp *I, DictObj *a, DictObj *b);

/* ------------------------------------------------------------- calls and exceptions */

/* self.name(*args, **kw), kw a dict with string keys. */
Value call_method_kw(Interp *I, Value self, const char *name, const Value *args, int64_t nargs, Value kw);
Value call_with(Interp *I, Value f, Value args, Value kw);          /* f(*args, **kw): a tuple and a dict */
Value value_deepcopy(Interp *I, Value v);
void re_done(void);                                     /* drops the compiled patterns */
Value raise_exit(Interp *I, Value code);                /* SystemExit(code) */
bool value_delattr(Interp *I, Value v, Sym name);       /* eval/attr.c */
bool staged_truth(Value v);                             /* eval/staged.c: a tensor that control flow cannot ask; as a bool; and, or */
Value staged_bool(Interp *I, Value v);
Value staged_logic(Interp *I, int is_or, Value a, Value b);

Value std_file(int fd);                                 /* sys.stdin, stdout, stderr: files.c */
/* Drop what the library shares between calls (standard streams, one-character strings): at interp_free. */
void lib_done(void);

/* ------------------------------------------------------------- arguments of natives */


/* The str in v (or in an instance of a subclass); NULL with TypeError "WHAT must be str, not int" pending. */
StrObj *need_str(Interp *I, Value v, const char *what);
StrObj *self_str(Interp *I, Value v);                   /* the same for the self of a method of str */
BytesObj *need_bytes(Interp *I, Value v);               /* or TypeError, NULL */
static inline StrObj *arg_str(const Value *a, int i) { return (StrObj *)a[i].o; }
static inline bool is_none(Value v) { return v.tag == V_NONE; }
static inline bool is_given(Value v) { return v.tag != V_ERR && v.tag != V_NONE; }
/* The value inside an instance of a builtin's subclass (Stack(list) -> the list), else v itself. Borrowed. */
static inline Value unwrap_base(Value v)
{
    return v.tag == V_INSTANCE && ((InstanceObj *)v.o)->base.tag != V_ERR ? ((InstanceObj *)v.o)->base : v;
}

#endif
