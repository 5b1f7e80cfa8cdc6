/*
 * _sqlite: small databases of the library's own, through SQLite.
 *
 * One call is one transaction: the file is opened, every statement runs once
 * for each row of its parameters, and all of it is kept or none.  Nothing stays
 * open between calls, so any number of processes may share a file; a writer
 * waits for others for WAIT_MS.  SQLite does its own reading and writing, locks
 * and journal included; base/vfs.h is not asked.
 */
#include "frontend/lib/lib.h"

#include <sqlite3.h>
#include <string.h>

enum { WAIT_MS = 5000 };

typedef struct Work {
    Interp *I;
    sqlite3 *db;
    const char *path;
} Work;

static bool fail(Work *w)
{
    raise(w->I, EXC_OSError, "%s: %s", w->path, w->db ? sqlite3_errmsg(w->db) : "out of memory");
    return false;
}

/* ------------------------------------------------------------- values of both worlds */

static bool bind(Work *w, sqlite3_stmt *s, int at, Value v)
{
    int rc = SQLITE_MISMATCH;

    if (v.tag == V_INT)
        rc = sqlite3_bind_int64(s, at, v.i);
    else if (v.tag == V_FLOAT)
        rc = sqlite3_bind_double(s, at, v.f);
    else if (v.tag == V_NONE)
        rc = sqlite3_bind_null(s, at);
    else if (v.tag == V_STR)
        rc = sqlite3_bind_text64(s, at, as_str(v)->s, as_str(v)->len, SQLITE_TRANSIENT, SQLITE_UTF8);
    if (rc == SQLITE_MISMATCH) {
        raise(w->I, EXC_TypeError, "a database keeps int, float, str and None, not %s", value_type_name(v));
        return false;
    }
    return rc == SQLITE_OK || fail(w);
}

static Value column(sqlite3_stmt *s, int i)
{
    switch (sqlite3_column_type(s, i)) {
    case SQLITE_INTEGER:
        return vint(sqlite3_column_int64(s, i));
    case SQLITE_FLOAT:
        return vfloat(sqlite3_column_double(s, i));
    case SQLITE_TEXT:
        return str_new((const char *)sqlite3_column_text(s, i), (size_t)sqlite3_column_bytes(s, i));
    default:
        return VNONE;
    }
}

static Value row(sqlite3_stmt *s)
{
    int n = sqlite3_column_count(s);
    Value t = tuple_new(n);

    for (int i = 0; i < n; i++)
        as_tuple(t)->at[i] = column(s, i);
    return t;
}

/* ------------------------------------------------------------- statements */

/* One run of a prepared statement; the rows that it gives go to *found. */
static bool step_all(Work *w, sqlite3_stmt *s, ListObj *found)
{
    int rc;

    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        list_push(found, row(s));
    return rc == SQLITE_DONE || fail(w);
}

static bool run_with(Work *w, sqlite3_stmt *s, Value params, ListObj *found)
{
    int n = sqlite3_bind_parameter_count(s);

    if (params.tag != V_TUPLE || as_tuple(params)->n != n) {
        raise(w->I, EXC_TypeError, "a statement with %d parameters takes a tuple of as many values", n);
        return false;
    }
    sqlite3_reset(s);
    for (int i = 0; i < n; i++)
        if (!bind(w, s, i + 1, as_tuple(params)->at[i]))
            return false;
    return step_all(w, s, found);
}

/* One (text, [parameters]) of the list. */
static bool run_statement(Work *w, Value pair, ListObj *results)
{
    const TupleObj *t = pair.tag == V_TUPLE && as_tuple(pair)->n == 2 ? as_tuple(pair) : NULL;
    sqlite3_stmt *s = NULL;
    Value found;
    bool ok;

    if (!t || t->at[0].tag != V_STR || t->at[1].tag != V_LIST) {
        raise(w->I, EXC_TypeError, "statements are pairs of a text and a list of parameters");
        return false;
    }
    if (sqlite3_prepare_v2(w->db, as_str(t->at[0])->s, (int)as_str(t->at[0])->len, &s, NULL) != SQLITE_OK)
        return fail(w);
    found = list_new(0);
    ok = true;
    for (int64_t i = 0; ok && i < as_list(t->at[1])->n; i++)
        ok = run_with(w, s, as_list(t->at[1])->at[i], as_list(found));
    sqlite3_finalize(s);
    list_push(results, found);
    return ok;
}

static bool execute(Work *w, const char *text)
{
    return sqlite3_exec(w->db, text, NULL, NULL, NULL) == SQLITE_OK || fail(w);
}

static bool transact(Work *w, ListObj *statements, ListObj *results)
{
    bool ok = execute(w, "BEGIN IMMEDIATE");

    for (int64_t i = 0; ok && i < statements->n; i++)
        ok = run_statement(w, statements->at[i], results);
    if (ok)
        return execute(w, "COMMIT");
    sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);      /* what failed is told already */
    return false;
}

static Value f_run(Interp *I, Value *a)                     /* path, statements */
{
    StrObj *path = need_str(I, a[0], "the path");
    Work w = {.I = I};
    Value results;
    bool ok;

    if (!path)
        return VERR;
    if (a[1].tag != V_LIST)
        return raise(I, EXC_TypeError, "statements are a list, not %s", value_type_name(a[1]));
    w.path = path->s;
    results = list_new(0);
    ok = sqlite3_open_v2(path->s, &w.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK || fail(&w);
    if (ok) {
        sqlite3_busy_timeout(w.db, WAIT_MS);
        ok = transact(&w, as_list(a[1]), as_list(results));
    }
    sqlite3_close(w.db);
    if (ok)
        return results;
    value_unref(results);
    return VERR;
}

const NativeDef natives_sqlite[] = {
    {"_sqlite", "run", f_run, "(path: str, statements: list) -> list",
     "Run pairs (text, [parameters]) on a database file in one transaction; for each the list of rows. OSError when it cannot be."},
    {0},
};
