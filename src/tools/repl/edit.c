/*
 * One loop: read a key, change the buffer, draw.  Keys are a table; a key that
 * is not in it and is printable inserts itself.  Up and down move inside a
 * block first and go through the history at its edges.
 */
#include "tools/repl/edit.h"

#include "base/interrupt.h"
#include "tools/repl/buffer.h"
#include "tools/repl/keys.h"
#include "tools/repl/screen.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

typedef struct Editor {
    const EditHooks *hooks;
    History *history;
    Buffer buf;
    Screen screen;
    StrBuf paste, below, search;
    const char *prompt;
    int at;                     /* history entry shown; history->entry.n: the draft */
    char *draft;                /* what was being typed when going into the history */
    bool searching;
    uint8_t *style;
    size_t style_cap;
    EditResult result;
    bool done;
} Editor;

/* ------------------------------------------------------------- the terminal's mode */

static struct termios cooked;
static bool is_raw;

/* When the terminal is gone, reading will tell. */
static void say(const char *s)
{
    ssize_t unused = write(STDOUT_FILENO, s, strlen(s));

    (void)unused;
}

static void leave_raw(void)
{
    if (!is_raw)
        return;
    say("\033[?2004l");
    tcsetattr(STDIN_FILENO, TCSADRAIN, &cooked);
    is_raw = false;
}

static void on_resize(int sig)
{
    (void)sig;
}

static bool enter_raw(void)
{
    static bool prepared;
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &cooked))
        return false;
    if (!prepared) {
        struct sigaction a = {.sa_handler = on_resize};
        sigaction(SIGWINCH, &a, NULL);
        atexit(leave_raw);
        prepared = true;
    }
    raw = cooked;
    raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw))
        return false;
    is_raw = true;
    say("\033[?2004h");
    return true;
}

/* ------------------------------------------------------------- drawing */

/* Offset of the bracket that pairs with the one at `at`, or SIZE_MAX. */
static size_t match_bracket(const Editor *e, size_t at)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *s = e->buf.text.s, *p;
    size_t n = e->buf.text.n;
    int depth = 0, step;

    if (at >= n || !s[at] || e->style[at] == STYLE_STRING || e->style[at] == STYLE_COMMENT)
        return SIZE_MAX;
    step = (p = strchr(open, s[at])) ? 1 : (p = strchr(close, s[at])) ? -1 : 0;
    for (size_t i = at; step && i < n; i += (size_t)step) {
        if (e->style[i] == STYLE_STRING || e->style[i] == STYLE_COMMENT)
            continue;
        if (s[i] && strchr(open, s[i]))
            depth++;
        else if (s[i] && strchr(close, s[i]))
            depth--;
        if (!depth)
            return i;
    }
    return SIZE_MAX;
}

static void paint(Editor *e)
{
    size_t n = e->buf.text.n;

    if (n + 1 > e->style_cap) {
        e->style_cap = (n + 1) * 2;
        e->style = tsr_realloc(e->style, e->style_cap);
    }
    memset(e->style, STYLE_PLAIN, n + 1);
    if (e->screen.color)
        e->hooks->paint(e->hooks->state, sb_str(&e->buf.text), n, e->style);
}

/* The newest entry that begins with the text, when the cursor stands at its end: shown grey, taken by Right. */
static const char *hint(const Editor *e)
{
    size_t n = e->buf.text.n;

    if (!n || e->buf.cursor != n || e->searching)
        return NULL;
    for (int i = e->history->entry.n - 1; i >= 0; i--)
        if (!strncmp(e->history->entry.at[i], e->buf.text.s, n) && e->history->entry.at[i][n])
            return e->history->entry.at[i] + n;
    return NULL;
}

static View view(Editor *e, StrBuf *first_line)
{
    size_t at = e->buf.cursor, m;
    const char *h = hint(e);

    paint(e);
    m = match_bracket(e, at);
    if (m == SIZE_MAX && at > 0)
        m = match_bracket(e, at - 1);
    if (h)
        sb_write(first_line, h, strcspn(h, "\n"));
    return (View){.prompt = e->prompt, .text = sb_str(&e->buf.text), .n = e->buf.text.n, .cursor = at, .style = e->style,
                  .match = m, .hint = h ? sb_str(first_line) : NULL, .below = e->below.n ? sb_str(&e->below) : NULL};
}

static void draw(Editor *e)
{
    StrBuf line = {0};
    View v;

    if (e->searching) {
        sb_clear(&e->below);
        sb_printf(&e->below, "history search: %s_", sb_str(&e->search));
    }
    v = view(e, &line);
    screen_draw(&e->screen, &v);
    sb_done(&line);
}

/* ------------------------------------------------------------- commands */

static void finish(Editor *e, EditResult r)
{
    StrBuf line = {0};
    View v = view(e, &line);

    screen_leave(&e->screen, &v);
    sb_done(&line);
    e->result = r;
    e->done = true;
}

static void show_entry(Editor *e, int at)
{
    if (at < 0 || at > e->history->entry.n)
        return;
    if (e->at == e->history->entry.n) {
        tsr_free(e->draft);
        e->draft = tsr_alloc(e->buf.text.n + 1);
        memcpy(e->draft, sb_str(&e->buf.text), e->buf.text.n + 1);
    }
    buffer_set(&e->buf, at == e->history->entry.n ? e->draft : e->history->entry.at[at]);
    e->at = at;
}

static void up(Editor *e) { if (!buffer_vertical(&e->buf, -1)) show_entry(e, e->at - 1); }
static void down(Editor *e) { if (!buffer_vertical(&e->buf, 1)) show_entry(e, e->at + 1); }
static void older(Editor *e) { show_entry(e, e->at - 1); }
static void newer(Editor *e) { show_entry(e, e->at + 1); }
static void left(Editor *e) { e->buf.cursor = buffer_prev(&e->buf, e->buf.cursor); }
static void home(Editor *e) { e->buf.cursor = buffer_line_start(&e->buf, e->buf.cursor); }
static void word_left(Editor *e) { e->buf.cursor = buffer_word_left(&e->buf, e->buf.cursor); }
static void word_right(Editor *e) { e->buf.cursor = buffer_word_right(&e->buf, e->buf.cursor); }
static void delete_right(Editor *e) { buffer_remove(&e->buf, e->buf.cursor, buffer_next(&e->buf, e->buf.cursor)); }
static void kill_to_start(Editor *e) { buffer_kill(&e->buf, buffer_line_start(&e->buf, e->buf.cursor), e->buf.cursor); }
static void kill_word_left(Editor *e) { buffer_kill(&e->buf, buffer_word_left(&e->buf, e->buf.cursor), e->buf.cursor); }
static void kill_word_right(Editor *e) { buffer_kill(&e->buf, e->buf.cursor, buffer_word_right(&e->buf, e->buf.cursor)); }
static void yank(Editor *e) { buffer_insert(&e->buf, sb_str(&e->buf.cut), e->buf.cut.n); }
static void newline(Editor *e) { buffer_newline(&e->buf); }
static void undo(Editor *e) { buffer_undo(&e->buf); }
static void pasted(Editor *e) { buffer_insert(&e->buf, sb_str(&e->paste), e->paste.n); }
static void redraw(Editor *e) { screen_clear(&e->screen); }
static void cancel(Editor *e) { finish(e, EDIT_CANCELLED); }

static void take_hint(Editor *e)
{
    const char *h = hint(e);

    if (h)
        buffer_insert(&e->buf, h, strlen(h));
}

static void right(Editor *e)
{
    if (e->buf.cursor == e->buf.text.n)
        take_hint(e);
    else
        e->buf.cursor = buffer_next(&e->buf, e->buf.cursor);
}

static void end(Editor *e)
{
    size_t at = buffer_line_end(&e->buf, e->buf.cursor);

    if (at == e->buf.cursor)
        take_hint(e);
    else
        e->buf.cursor = at;
}

static void kill_to_end(Editor *e)
{
    size_t to = buffer_line_end(&e->buf, e->buf.cursor);

    buffer_kill(&e->buf, e->buf.cursor, to == e->buf.cursor && to < e->buf.text.n ? to + 1 : to);
}

/* In the indentation one stroke takes a whole step of it. */
static void backspace(Editor *e)
{
    size_t start = buffer_line_start(&e->buf, e->buf.cursor), col = e->buf.cursor - start;
    size_t n = buffer_in_indent(&e->buf) && col ? (col - 1) % 4 + 1 : 0;

    buffer_remove(&e->buf, n ? e->buf.cursor - n : buffer_prev(&e->buf, e->buf.cursor), e->buf.cursor);
}

static void dedent(Editor *e)
{
    size_t start = buffer_line_start(&e->buf, e->buf.cursor), n = 0, at = e->buf.cursor;

    while (n < 4 && e->buf.text.s[start + n] == ' ')
        n++;
    buffer_remove(&e->buf, start, start + n);
    e->buf.cursor = at > start + n ? at - n : start;
}

static void delete_or_leave(Editor *e)
{
    if (e->buf.text.n)
        delete_right(e);
    else
        finish(e, EDIT_EOF);
}

static void enter(Editor *e)
{
    if (e->hooks->is_complete(e->hooks->state, sb_str(&e->buf.text), e->buf.text.n))
        finish(e, EDIT_TEXT);
    else
        buffer_newline(&e->buf);
}

/* ------------------------------------------------------------- completion */

static size_t common_prefix(const Completions *c)
{
    size_t n = strlen(c->word.at[0]);

    for (int i = 1; i < c->word.n; i++) {
        size_t k = 0;
        while (k < n && c->word.at[i][k] == c->word.at[0][k])
            k++;
        n = k;
    }
    return n;
}

/* Candidates below the block, in columns of 20. */
static void list_words(Editor *e, const Completions *c)
{
    enum { COLUMN = 20, ACROSS = 4, MOST = 40 };

    for (int i = 0; i < c->word.n && i < MOST; i++) {
        size_t n = strlen(c->word.at[i]);
        if (i)
            sb_puts(&e->below, i % ACROSS ? " " : "\n");
        sb_puts(&e->below, c->word.at[i]);
        sb_pad(&e->below, ' ', n < COLUMN - 1 ? COLUMN - 1 - n : 0);
    }
    if (c->word.n > MOST)
        sb_printf(&e->below, "\nand %d more", c->word.n - MOST);
}

static void complete(Editor *e)
{
    Completions c = {.from = e->buf.cursor};
    size_t typed, n;

    if (buffer_in_indent(&e->buf)) {
        buffer_insert(&e->buf, "    ", 4);
        return;
    }
    e->hooks->complete(e->hooks->state, sb_str(&e->buf.text), e->buf.cursor, &c);
    if (c.word.n) {
        typed = e->buf.cursor - c.from;
        n = common_prefix(&c);
        if (n > typed)
            buffer_insert(&e->buf, c.word.at[0] + typed, n - typed);
        if (c.word.n > 1)
            list_words(e, &c);
    }
    for (int i = 0; i < c.word.n; i++)
        tsr_free(c.word.at[i]);
    vec_free(&c.word);
}

/* ------------------------------------------------------------- history search */

static void search_older(Editor *e)
{
    int i;

    if (!e->searching) {
        e->searching = true;
        sb_clear(&e->search);
        return;
    }
    i = history_search(e->history, sb_str(&e->search), e->at - 1);
    if (i >= 0)
        show_entry(e, i);
}

/* Keys that belong to the search; any other ends it and acts as usual. */
static bool search_key(Editor *e, int32_t key)
{
    int i;

    if (key == KEY_CTRL('R'))
        return search_older(e), true;
    if (key == K_BACKSPACE && e->search.n)
        while (e->search.n && (e->search.s[--e->search.n] & 0xC0) == 0x80) {}
    else if (key >= ' ' && key < K_UP && key != K_BACKSPACE)
        sb_put_utf8(&e->search, (uint32_t)key);
    else {
        e->searching = false;
        if (key != KEY_CTRL('G') && key != K_ESC)
            return false;
        show_entry(e, e->history->entry.n);
        return true;
    }
    sb_str(&e->search)[e->search.n] = 0;
    i = history_search(e->history, sb_str(&e->search), e->history->entry.n - 1);
    if (i >= 0 && e->search.n)
        show_entry(e, i);
    return true;
}

/* ------------------------------------------------------------- keys */

typedef struct { int32_t key; void (*fn)(Editor *e); bool changes; } Binding;

static const Binding bindings[] = {
    {K_ENTER, enter, true},             {KEY_ALT(K_ENTER), newline, true},      {K_TAB, complete, true},
    {K_BACKTAB, dedent, true},          {K_BACKSPACE, backspace, true},         {K_DELETE, delete_right, true},
    {K_UP, up, false},                  {K_DOWN, down, false},                  {K_LEFT, left, false},
    {K_RIGHT, right, true},             {K_HOME, home, false},                  {K_END, end, true},
    {K_PAGE_UP, older, false},          {K_PAGE_DOWN, newer, false},            {K_PASTE, pasted, true},
    {K_WORD_LEFT, word_left, false},    {K_WORD_RIGHT, word_right, false},      {KEY_CTRL('A'), home, false},
    {KEY_CTRL('B'), left, false},       {KEY_CTRL('C'), cancel, false},         {KEY_CTRL('D'), delete_or_leave, true},
    {KEY_CTRL('E'), end, true},         {KEY_CTRL('F'), right, true},           {KEY_CTRL('K'), kill_to_end, true},
    {KEY_CTRL('L'), redraw, false},     {KEY_CTRL('N'), down, false},           {KEY_CTRL('P'), up, false},
    {KEY_CTRL('R'), search_older, false}, {KEY_CTRL('U'), kill_to_start, true}, {KEY_CTRL('W'), kill_word_left, true},
    {KEY_CTRL('Y'), yank, true},        {KEY_CTRL('_'), undo, false},           {KEY_ALT('b'), word_left, false},
    {KEY_ALT('d'), kill_word_right, true}, {KEY_ALT('f'), word_right, false},   {KEY_ALT(K_BACKSPACE), kill_word_left, true},
    {K_EOF, delete_or_leave, false},
};

static void insert_key(Editor *e, int32_t key)
{
    StrBuf b = {0};

    if (key < ' ' || key >= K_UP)
        return;
    sb_put_utf8(&b, (uint32_t)key);
    if (key == ' ' || key == '\n')
        buffer_save(&e->buf);
    buffer_insert(&e->buf, b.s, b.n);
    sb_done(&b);
}

static void handle_key(Editor *e, int32_t key)
{
    sb_clear(&e->below);
    if (e->searching && search_key(e, key))
        return;
    for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++)
        if (bindings[i].key == key) {
            if (bindings[i].changes)
                buffer_save(&e->buf);
            bindings[i].fn(e);
            return;
        }
    insert_key(e, key);
}

static void edit_loop(Editor *e)
{
    while (!e->done) {
        int32_t key;
        draw(e);
        key = key_read(STDIN_FILENO, &e->paste);
        if (key == K_INTR && tsr_interrupted) {
            tsr_interrupted = 0;
            key = KEY_CTRL('C');
        }
        if (key == K_EOF)
            sb_clear(&e->buf.text);     /* the terminal is gone: nothing typed can be meant */
        handle_key(e, key);
    }
}

EditResult edit_read(const EditHooks *hooks, History *history, const char *prompt, bool color, char **text)
{
    Editor e = {.hooks = hooks, .history = history, .prompt = prompt, .at = history->entry.n, .screen.color = color};

    if (!enter_raw())
        return EDIT_EOF;
    buffer_set(&e.buf, "");
    edit_loop(&e);
    leave_raw();
    *text = NULL;
    if (e.result == EDIT_TEXT) {
        *text = e.buf.text.s;
        e.buf.text = (StrBuf){0};
    }
    buffer_done(&e.buf);
    sb_done(&e.paste);
    sb_done(&e.below);
    sb_done(&e.search);
    tsr_free(e.draft);
    tsr_free(e.style);
    return e.result;
}
