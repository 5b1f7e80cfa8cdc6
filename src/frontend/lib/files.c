/*
 * Files: open(), the file object, the standard streams, input().
 *
 * A file has one buffer for each direction and goes through the current Vfs.
 * Text is decoded piece by piece as it is handed out; while reading text,
 * "\r\n" and "\r" become "\n" in the buffer.  Standard output is the
 * interpreter's own writer, so that print and sys.stdout keep their order.
 */
#include "frontend/lib/lib.h"
#include "frontend/lib/text.h"

#include "base/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 16 };

typedef struct File {
    NativeInst head;
    int fd;                     /* -1: closed */
    bool reads, writes, binary, keep_newlines, std_out, std_file, at_end;
    bool last_cr;               /* the chunk before ended in \r, which became \n: skip a \n that follows */
    Value name, mode, encoding, errors;
    StrBuf in, out;             /* in: bytes read, `at` of them handed out */
    size_t at;
} File;

static void file_free(void *p);
static Value file_next(Interp *I, void *p);
static void file_repr(Interp *I, void *p, StrBuf *b);

static const NativeType file_type = {"TextIOWrapper", file_free, NULL, file_next, .repr = file_repr};

static File *file_new(int fd, Value name, const char *mode, const char *encoding, const char *errors)
{
    File *f = nativeobj_new(&file_type, sizeof *f);

    f->fd = fd;
    f->name = value_ref(name);
    f->mode = str_c(mode);
    f->encoding = str_c(encoding);
    f->errors = str_c(errors);
    return f;
}

static int flush_out(File *f)
{
    size_t done = 0, put;
    int err = 0;

    while (!err && done < f->out.n) {
        err = vfs_current()->write(f->fd, f->out.s + done, f->out.n - done, &put);
        done += put;
    }
    sb_clear(&f->out);
    return err;
}

static int close_file(File *f)
{
    int err = 0, e;

    if (f->fd < 0)
        return 0;
    err = flush_out(f);
    if (!f->std_file) {
        e = vfs_current()->close(f->fd);
        err = err ? err : e;
    }
    f->fd = -1;
    return err;
}

static void file_free(void *p)
{
    File *f = p;

    close_file(f);
    sb_done(&f->in);
    sb_done(&f->out);
    value_unref(f->name);
    value_unref(f->mode);
    value_unref(f->encoding);
    value_unref(f->errors);
}

static void file_repr(Interp *I, void *p, StrBuf *b)
{
    File *f = p;

    sb_puts(b, "<TextIOWrapper name=");
    value_repr_to(I, f->name, b);
    sb_puts(b, " mode=");
    value_repr_to(I, f->mode, b);
    if (!f->binary) {
        sb_puts(b, " encoding=");
        value_repr_to(I, f->encoding, b);
    }
    sb_putc(b, '>');
}

/* ------------------------------------------------------------- checks */

static File *self_file(Interp *I, Value v)
{
    if (v.tag != V_NATIVEOBJ || ((NativeInst *)v.o)->type != &file_type) {
        raise(I, EXC_TypeError, "a file is needed here, not '%s'", value_type_name(v));
        return NULL;
    }
    return (File *)v.o;
}

static File *open_file(Interp *I, Value v)
{
    File *f = self_file(I, v);

    if (f && f->fd < 0) {
        raise(I, EXC_ValueError, "I/O operation on closed file.");
        return NULL;
    }
    return f && interp_may_touch(I, "reading or writing a file") ? f : NULL;
}

static File *readable_file(Interp *I, Value v)
{
    File *f = open_file(I, v);

    if (f && !f->reads) {
        raise(I, EXC_OSError, "not readable");
        return NULL;
    }
    return f;
}

static const char *file_path(const File *f)
{
    return f->name.tag == V_STR ? as_str(f->name)->s : NULL;
}

/* ------------------------------------------------------------- reading */

/* "\r\n" and "\r" to "\n" in the n bytes at s; gives the new length. */
static size_t translate(File *f, char *s, size_t n)
{
    size_t to = 0;

    for (size_t i = 0; i < n; i++) {
        bool skip = f->last_cr && s[i] == '\n';
        f->last_cr = s[i] == '\r';
        if (!skip)
            s[to++] = s[i] == '\r' ? '\n' : s[i];
    }
    return to;
}

/* Read one more chunk; false: an error is pending. At the end of the file at_end is set. */
static bool fill(Interp *I, File *f)
{
    size_t got = 0, n;
    int err;

    if (f->at) {
        memmove(f->in.s, f->in.s + f->at, f->in.n - f->at);
        f->in.n -= f->at;
        f->at = 0;
    }
    if (f->out.n && (err = flush_out(f))) {
        raise_errno(I, err, file_path(f));
        return false;
    }
    if (!interp_poll(I))
        return false;
    n = f->in.n;
    sb_pad(&f->in, 0, CHUNK);
    err = vfs_current()->read(f->fd, f->in.s + n, CHUNK, &got);
    f->in.n = n + (f->binary || f->keep_newlines ? got : translate(f, f->in.s + n, got));
    f->at_end = !got;
    if (!err)
        return true;
    raise_errno(I, err, file_path(f));
    return false;
}

static Value piece(Interp *I, File *f, const char *s, size_t n)
{
    return f->binary ? bytes_new(s, n) : text_decode(I, s, n, as_str(f->encoding)->s, as_str(f->errors)->s);
}

static Value take(Interp *I, File *f, size_t n)
{
    Value v = piece(I, f, n ? f->in.s + f->at : "", n);

    f->at += n;
    return v;
}

/* One line with its end; "" at the end of the file. */
static Value read_line(Interp *I, File *f)
{
    size_t seen = 0;

    f->at_end = false;
    for (;;) {
        size_t n = f->in.n - f->at;
        const char *hit = n > seen ? memchr(f->in.s + f->at + seen, '\n', n - seen) : NULL;
        if (hit)
            return take(I, f, (size_t)(hit - (f->in.s + f->at)) + 1);
        if (f->at_end)
            return take(I, f, n);
        seen = n;
        if (!fill(I, f))
            return VERR;
    }
}

/* Bytes of the first `count` characters in the buffer; *left is how many are missing. */
static size_t chars_in_buffer(File *f, int64_t count, int64_t *left)
{
    const char *s = f->in.s + f->at;
    size_t n = f->in.n - f->at, i = 0;

    if (f->binary || as_str(f->encoding)->s[0] != 'u') {
        *left = (size_t)count > n ? count - (int64_t)n : 0;
        return (size_t)count > n ? n : (size_t)count;
    }
    while (i < n && (count > 0 || ((unsigned char)s[i] & 0xc0) == 0x80)) {
        count -= ((unsigned char)s[i] & 0xc0) != 0x80;
        i++;
    }
    *left = count + (i == n);           /* at the end of the buffer the last character may go on */
    return i;
}

static Value read_chars(Interp *I, File *f, int64_t count)
{
    int64_t left;
    size_t n;

    f->at_end = false;
    for (;;) {
        n = chars_in_buffer(f, count, &left);
        if (left <= 0 || f->at_end || !count)
            return take(I, f, n);
        if (!fill(I, f))
            return VERR;
    }
}

static Value m_read(Interp *I, Value *a)
{
    File *f = readable_file(I, a[0]);
    int64_t n = -1;

    if (!f || (is_given(a[1]) && !value_as_int(I, a[1], &n)))
        return VERR;
    if (n >= 0)
        return read_chars(I, f, n);
    for (f->at_end = false; !f->at_end;)
        if (!fill(I, f))
            return VERR;
    return take(I, f, f->in.n - f->at);
}

static Value m_readline(Interp *I, Value *a)
{
    File *f = readable_file(I, a[0]);
    return f ? read_line(I, f) : VERR;
}

static bool is_empty(Value v)
{
    return v.tag == V_STR ? !as_str(v)->len : !((BytesObj *)v.o)->len;
}

static Value file_next(Interp *I, void *p)
{
    File *f = readable_file(I, vobj(p));
    Value line = f ? read_line(I, f) : VERR;

    if (is_err(line) || !is_empty(line))
        return line;
    value_unref(line);
    return VERR;
}

static Value m_readlines(Interp *I, Value *a)
{
    Value out = list_new(8), line;

    while (!is_err(line = file_next(I, a[0].o)))
        list_push(as_list(out), line);
    if (!exc_pending(I))
        return out;
    value_unref(out);
    return VERR;
}

/* ------------------------------------------------------------- writing */

/* After buffered reading the file's position is ahead of the program's: go back before writing. */
static void drop_read_buffer(File *f)
{
    if (f->in.n > f->at)
        lseek(f->fd, -(off_t)(f->in.n - f->at), SEEK_CUR);
    f->in.n = f->at = 0;
}

static bool put(Interp *I, File *f, const char *s, size_t n)
{
    int err = 0;

    if (f->std_out) {
        interp_write(I, s, n);
        return true;
    }
    drop_read_buffer(f);
    sb_write(&f->out, s, n);
    if (f->out.n >= CHUNK || f->std_file)
        err = flush_out(f);
    if (!err)
        return true;
    raise_errno(I, err, file_path(f));
    return false;
}

/* What writing v gives: characters, or bytes; -1 pending. */
static int64_t write_value(Interp *I, File *f, Value v)
{
    Value data, text = unwrap_base(v), to = f->std_file && f->writes ? *interp_redirect(I, f->std_out ? 1 : 2) : VERR;
    bool ok;

    if (!is_err(to) && (void *)to.o != f) {
        Value r = value_call_method(I, to, sym("write"), &v, 1);
        int64_t n = is_err(r) ? -1 : text.tag == V_STR ? (int64_t)as_str(text)->len : 0;
        value_unref(r);
        return n;
    }
    if (f->binary) {
        if (text.tag != V_BYTES) {
            raise(I, EXC_TypeError, "a bytes-like object is required, not '%s'", value_type_name(v));
            return -1;
        }
        return put(I, f, ((BytesObj *)text.o)->s, ((BytesObj *)text.o)->len) ? (int64_t)((BytesObj *)text.o)->len : -1;
    }
    if (text.tag != V_STR) {
        raise(I, EXC_TypeError, "write() argument must be str, not %s", value_type_name(v));
        return -1;
    }
    if (as_str(f->encoding)->s[0] == 'u')
        return put(I, f, as_str(text)->s, as_str(text)->len) ? str_nchars(as_str(text)) : -1;
    data = text_encode(I, as_str(text), as_str(f->encoding)->s, as_str(f->errors)->s);
    if (is_err(data))
        return -1;
    ok = put(I, f, ((BytesObj *)data.o)->s, ((BytesObj *)data.o)->len);
    value_unref(data);
    return ok ? str_nchars(as_str(text)) : -1;
}

static File *writable_file(Interp *I, Value v)
{
    File *f = open_file(I, v);

    if (f && !f->writes) {
        raise(I, EXC_OSError, "not writable");
        return NULL;
    }
    return f;
}

static Value m_write(Interp *I, Value *a)
{
    File *f = writable_file(I, a[0]);
    int64_t n = f ? write_value(I, f, a[1]) : -1;

    return n < 0 ? VERR : vint(n);
}

static Value m_writelines(Interp *I, Value *a)
{
    File *f = writable_file(I, a[0]);
    Value it = f ? value_iter(I, a[1]) : VERR, x;
    int64_t n = 0;

    if (is_err(it))
        return VERR;
    while (n >= 0 && !is_err(x = value_next(I, it))) {
        n = write_value(I, f, x);
        value_unref(x);
    }
    value_unref(it);
    return exc_pending(I) ? VERR : VNONE;
}

/* ------------------------------------------------------------- position, closing */

static Value m_flush(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    int err;

    if (!f)
        return VERR;
    if (f->std_out)
        interp_flush(I);
    err = flush_out(f);
    return err ? raise_errno(I, err, file_path(f)) : VNONE;
}

static Value m_close(Interp *I, Value *a)
{
    File *f = self_file(I, a[0]);
    int err = f ? close_file(f) : 0;

    return !f ? VERR : err ? raise_errno(I, err, file_path(f)) : VNONE;
}

static Value m_enter(Interp *I, Value *a)
{
    return open_file(I, a[0]) ? value_ref(a[0]) : VERR;
}

static Value m_exit(Interp *I, Value *a)
{
    return is_err(m_close(I, a)) ? VERR : vbool(false);
}

static Value m_tell(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    off_t at = f ? lseek(f->fd, 0, SEEK_CUR) : -1;

    if (!f)
        return VERR;
    return at < 0 ? raise_errno(I, errno, file_path(f)) : vint(at - (off_t)(f->in.n - f->at) + (off_t)f->out.n);
}

static Value m_seek(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    int64_t to, whence;
    off_t at;
    int err;

    if (!f || !value_as_int(I, a[1], &to) || !value_as_int(I, a[2], &whence))
        return VERR;
    if (whence < 0 || whence > 2)
        return raise(I, EXC_ValueError, "invalid whence (%lld, should be 0, 1 or 2)", (long long)whence);
    if (whence == 0 && to < 0)
        return raise(I, EXC_ValueError, "negative seek position %lld", (long long)to);
    if ((err = flush_out(f)))
        return raise_errno(I, err, file_path(f));
    drop_read_buffer(f);
    f->last_cr = false;
    at = lseek(f->fd, to, (int[]){SEEK_SET, SEEK_CUR, SEEK_END}[whence]);
    return at < 0 ? raise_errno(I, errno, file_path(f)) : vint(at);
}

static Value m_fileno(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    return f ? vint(f->fd) : VERR;
}

static Value m_isatty(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    return f ? vbool(isatty(f->fd)) : VERR;
}

static Value m_readable(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    return f ? vbool(f->reads) : VERR;
}

static Value m_writable(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    return f ? vbool(f->writes) : VERR;
}

static Value m_seekable(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    return f ? vbool(lseek(f->fd, 0, SEEK_CUR) >= 0) : VERR;
}

/* Of that many bytes; None: up to here. The position stays. */
static Value m_truncate(Interp *I, Value *a)
{
    File *f = open_file(I, a[0]);
    int64_t size;
    Value here;
    int err;

    if (!f)
        return VERR;
    if (!f->writes)
        return raise(I, EXC_OSError, "File not open for writing");
    here = is_given(a[1]) ? value_ref(a[1]) : m_tell(I, a);
    if (is_err(here) || !value_as_int(I, here, &size))
        return value_unref(here), VERR;
    value_unref(here);
    if ((err = flush_out(f)) || (ftruncate(f->fd, size) && (err = errno)))
        return raise_errno(I, err, file_path(f));
    return vint(size);
}

static Value p_closed(Interp *I, Value *a) { return vbool(((File *)a[0].o)->fd < 0); }
static Value p_name(Interp *I, Value *a) { return value_ref(((File *)a[0].o)->name); }
static Value p_mode(Interp *I, Value *a) { return value_ref(((File *)a[0].o)->mode); }
static Value p_encoding(Interp *I, Value *a) { return value_ref(((File *)a[0].o)->encoding); }
static Value m_iter(Interp *I, Value *a) { return value_ref(a[0]); }

/* ------------------------------------------------------------- open */

typedef struct Mode { int flags; bool reads, writes, binary; } Mode;

static bool mode_parse(Interp *I, const char *text, Mode *m)
{
    char kind = 0;
    bool plus = false, is_text = false;

    *m = (Mode){0};
    for (const char *p = text; *p; p++) {
        if (strchr("rwax", *p) && !kind)
            kind = *p;
        else if (strchr("rwax", *p)) {
            raise(I, EXC_ValueError, "must have exactly one of create/read/write/append mode");
            return false;
        } else if (*p == '+' && !plus) {
            plus = true;
        } else if (*p == 'b' && !m->binary) {
            m->binary = true;
        } else if (*p == 't' && !is_text) {
            is_text = true;
        } else {
            raise(I, EXC_ValueError, "invalid mode: '%s'", text);
            return false;
        }
    }
    if (!kind || (m->binary && is_text)) {
        raise(I, EXC_ValueError, kind ? "can't have text and binary mode at once"
                                      : "must have exactly one of create/read/write/append mode");
        return false;
    }
    m->reads = kind == 'r' || plus;
    m->writes = kind != 'r' || plus;
    m->flags = m->reads && m->writes ? O_RDWR : m->writes ? O_WRONLY : O_RDONLY;
    m->flags |= kind == 'w' ? O_CREAT | O_TRUNC : kind == 'a' ? O_CREAT | O_APPEND : kind == 'x' ? O_CREAT | O_EXCL : 0;
    return true;
}

static int open_regular(const char *path, int flags, int *fd)
{
    struct stat st;
    int err = vfs_current()->open(path, flags, 0666, fd);

    if (!err && !fstat(*fd, &st) && S_ISDIR(st.st_mode)) {
        vfs_current()->close(*fd);
        err = EISDIR;
    }
    return err;
}

/* a = file, mode, buffering, encoding, errors, newline */
static Value f_open(Interp *I, Value *a)
{
    StrObj *path = need_str(I, a[0], "the path"), *mode = path ? need_str(I, a[1], "mode") : NULL;
    StrObj *enc = NULL, *errors = NULL;
    Mode m;
    File *f;
    int fd, err;

    if (!mode || !mode_parse(I, mode->s, &m) || !interp_may(I, SUSPEND_IO, "open") || !interp_may_touch(I, "opening a file"))
        return VERR;
    if (strlen(path->s) != path->len)
        return raise(I, EXC_ValueError, "embedded null byte");
    if ((is_given(a[3]) && !(enc = need_str(I, a[3], "encoding"))) || (is_given(a[4]) && !(errors = need_str(I, a[4], "errors"))))
        return VERR;
    if (m.binary && (enc || errors))
        return raise(I, EXC_ValueError, "binary mode doesn't take an %s argument", enc ? "encoding" : "errors");
    Value probe = text_decode(I, "", 0, enc ? enc->s : "utf-8", errors ? errors->s : "strict");
    if (is_err(probe))
        return VERR;
    value_unref(probe);
    err = open_regular(path->s, m.flags, &fd);
    if (err)
        return raise_errno(I, err, path->s);
    f = file_new(fd, vobj(path), mode->s, enc ? enc->s : "utf-8", errors ? errors->s : "strict");
    f->reads = m.reads;
    f->writes = m.writes;
    f->binary = m.binary;
    f->keep_newlines = is_given(a[5]);
    return vobj(f);
}

/* ------------------------------------------------------------- standard streams */

static Value std_stream[3];

Value std_file(int fd)
{
    static const char *const name[] = {"<stdin>", "<stdout>", "<stderr>"};
    Value n;
    File *f;

    if (std_stream[fd].tag != V_NATIVEOBJ) {
        n = str_c(name[fd]);
        f = file_new(fd, n, fd ? "w" : "r", "utf-8", "strict");
        value_unref(n);
        f->std_file = true;
        f->std_out = fd == 1;
        f->reads = !fd;
        f->writes = fd;
        std_stream[fd] = vobj(f);
    }
    return value_ref(std_stream[fd]);
}

/* What is written to standard output (1) or error (2) goes to the file, or where it went (None). Returns what it went to before. */
static Value f_redirect(Interp *I, Value *a)
{
    int64_t fd = a[0].i;
    Value old, *to;

    if (a[0].tag != V_INT || fd < 1 || fd > 2)
        return raise(I, EXC_ValueError, "1 is standard output, 2 is standard error");
    to = interp_redirect(I, (int)fd);
    old = *to;
    *to = is_given(a[1]) ? value_ref(a[1]) : VERR;
    return is_err(old) ? VNONE : old;
}

void lib_done(void)
{
    str_chars_done();
    re_done();
    for (int i = 0; i < 3; i++)
        if (std_stream[i].tag == V_NATIVEOBJ) {
            value_unref(std_stream[i]);
            std_stream[i] = VNONE;
        }
}

static Value f_input(Interp *I, Value *a)
{
    Value text, in, line, out;
    StrObj *s;

    if (!interp_may(I, SUSPEND_IO, "input") || !interp_may_touch(I, "input()"))
        return VERR;
    if (!is_err(a[0])) {
        text = value_str(I, a[0]);
        if (is_err(text))
            return VERR;
        interp_write(I, as_str(text)->s, as_str(text)->len);
        value_unref(text);
    }
    interp_flush(I);
    in = std_file(0);
    line = m_readline(I, &in);
    value_unref(in);
    if (is_err(line))
        return VERR;
    s = as_str(line);
    if (!s->len) {
        value_unref(line);
        return raise(I, EXC_EOFError, "EOF when reading a line");
    }
    out = s->s[s->len - 1] == '\n' ? str_new(s->s, s->len - 1) : value_ref(line);
    value_unref(line);
    return out;
}

const NativeDef natives_files[] = {
    {"_core", "redirect", f_redirect, "(stream: int, file) -> object", "What is written to standard output (1) or error (2) goes to the file; None: where it went. Gives what it went to before."},
    {"", "open", f_open, "(file: str, mode: str = 'r', buffering: int = -1, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> TextIOWrapper", "Open a file: r read, w replace, a append, x create; + both, b bytes."},
    {"", "input", f_input, "(prompt=..., /) -> str", "One line of standard input without its end; EOFError when there is none."},
    {"TextIOWrapper", "read", m_read, "(self, size: int | None = -1, /) -> str", "The rest, or up to size characters (bytes in binary mode)."},
    {"TextIOWrapper", "readline", m_readline, "(self, /) -> str", "The next line with its end; empty at the end of the file."},
    {"TextIOWrapper", "readlines", m_readlines, "(self, /) -> list[str]", "The lines that are left."},
    {"TextIOWrapper", "write", m_write, "(self, text: str | bytes, /) -> int", "Write; gives how many characters."},
    {"TextIOWrapper", "writelines", m_writelines, "(self, lines: Iterable, /) -> None", "Write each; adds no line ends."},
    {"TextIOWrapper", "flush", m_flush, "(self, /) -> None", "Hand buffered output to the system."},
    {"TextIOWrapper", "close", m_close, "(self, /) -> None", "Write what is buffered and close."},
    {"TextIOWrapper", "tell", m_tell, "(self, /) -> int", "Position in bytes."},
    {"TextIOWrapper", "seek", m_seek, "(self, offset: int, whence: int = 0, /) -> int", "Go to a position: from the start, from here (1), from the end (2)."},
    {"TextIOWrapper", "fileno", m_fileno, "(self, /) -> int", "The system's number of the open file."},
    {"TextIOWrapper", "isatty", m_isatty, "(self, /) -> bool", "Is it a terminal?"},
    {"TextIOWrapper", "readable", m_readable, "(self, /) -> bool", "Can it be read?"},
    {"TextIOWrapper", "writable", m_writable, "(self, /) -> bool", "Can it be written?"},
    {"TextIOWrapper", "seekable", m_seekable, "(self, /) -> bool", "Has it positions to go to?"},
    {"TextIOWrapper", "truncate", m_truncate, "(self, size: int | None = None, /) -> int", "Cut or lengthen it to so many bytes; None: to the position."},
    {"TextIOWrapper", "closed", p_closed, "property[bool]", "Is it closed?"},
    {"TextIOWrapper", "name", p_name, "property[str]", "Its path."},
    {"TextIOWrapper", "mode", p_mode, "property[str]", "The mode it was opened with."},
    {"TextIOWrapper", "encoding", p_encoding, "property[str]", "How its text is encoded."},
    {"TextIOWrapper", "__enter__", m_enter, "(self)", "Itself."},
    {"TextIOWrapper", "__exit__", m_exit, "(self, kind, value, traceback) -> bool", "Close it."},
    {"TextIOWrapper", "__iter__", m_iter, "(self) -> Iterator[str]", "Its lines."},
    {0},
};
