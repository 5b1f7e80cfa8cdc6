/* dataclasses.h - the fields of a dataclass; shared by the decorator, the methods it makes and asdict, replace ... */
#ifndef TSR_FRONTEND_DATACLASSES_H
#define TSR_FRONTEND_DATACLASSES_H

#include "frontend/lib/lib.h"

/* What field() gives, completed with its name when the class is decorated. */
typedef struct Field {
    NativeInst head;
    Sym name;
    Value type, dflt, factory, metadata;    /* dflt and factory: V_ERR when not given */
    Value element;                          /* a tensor's: what its declared element type says; V_ERR: a plain dtype */
    bool init, repr, compare, kw_only, initvar;
    int8_t hash;                            /* -1: as compare */
} Field;

Field *as_field(Value v);                               /* NULL: not one */
/* A field's value in an instance; V_ERR with AttributeError pending when it was deleted or never set. */
Value field_get(Interp *I, Value obj, const Field *f);

/* The methods that the decorator puts into a class. */
typedef enum { DM_INIT, DM_REPR, DM_EQ, DM_LT, DM_LE, DM_GT, DM_GE, DM_HASH, DM_SETATTR, DM_DELATTR } DataMethod;
Value data_method_new(DataMethod kind, ClassObj *owner, Value fields);      /* refs fields, a dict of Field */

#endif
