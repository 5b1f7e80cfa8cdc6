/*
 * Terminals send keys as escape sequences: ESC [ params final, or ESC O final.
 * An ESC followed by silence is the key itself; 30 ms tell them apart.
 */
#include "tools/repl/keys.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_byte(int fd)
{
    unsigned char c;
    ssize_t n = read(fd, &c, 1);

    if (n == 1)
        return c;
    return n < 0 && errno == EINTR ? K_INTR : K_EOF;
}

static bool more_follows(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 30) == 1;
}

typedef struct { const char *text; int32_t key; } Sequence;

/* What follows ESC [ or ESC O. */
static const Sequence sequences[] = {
    {"A", K_UP}, {"B", K_DOWN}, {"C", K_RIGHT}, {"D", K_LEFT}, {"H", K_HOME}, {"F", K_END},
    {"1~", K_HOME}, {"7~", K_HOME}, {"4~", K_END}, {"8~", K_END}, {"3~", K_DELETE},
    {"5~", K_PAGE_UP}, {"6~", K_PAGE_DOWN}, {"Z", K_BACKTAB},
    {"1;5C", K_WORD_RIGHT}, {"1;5D", K_WORD_LEFT}, {"1;3C", K_WORD_RIGHT}, {"1;3D", K_WORD_LEFT},
    {"200~", K_PASTE}, {"13;3u", KEY_ALT(K_ENTER)}, {"27;3;13~", KEY_ALT(K_ENTER)},
};

static int32_t read_sequence(int fd)
{
    char s[16];
    size_t n = 0;

    while (n + 1 < sizeof s) {
        int c = read_byte(fd);
        if (c < 0)
            return c;
        s[n++] = (char)c;
        if (c >= 0x40 && c <= 0x7E)
            break;
    }
    s[n] = 0;
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        if (!strcmp(s, sequences[i].text))
            return sequences[i].key;
    return K_NONE;
}

/* Everything up to ESC [201~; a carriage return is a line end. */
static int32_t read_paste(int fd, StrBuf *paste)
{
    static const char end[] = "\033[201~";
    enum { N = sizeof end - 1 };

    sb_clear(paste);
    for (;;) {
        int c = read_byte(fd);
        if (c == K_INTR)
            continue;
        if (c < 0)
            return c;
        sb_putc(paste, c == '\r' ? '\n' : (char)c);
        if (paste->n >= N && !memcmp(paste->s + paste->n - N, end, N)) {
            paste->n -= N;
            paste->s[paste->n] = 0;
            return K_PASTE;
        }
    }
}

static int32_t read_utf8(int fd, int lead)
{
    int n = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    int32_t c = lead & (0x3F >> n);

    if (lead < 0xC2 || lead > 0xF4)
        return K_NONE;
    while (n--) {
        int b = read_byte(fd);
        if (b < 0)
            return b;
        if ((b & 0xC0) != 0x80)
            return K_NONE;
        c = c << 6 | (b & 0x3F);
    }
    return c;
}

int32_t key_read(int fd, StrBuf *paste)
{
    int c = read_byte(fd);
    int32_t key;

    if (c >= 0x80)
        return read_utf8(fd, c);
    if (c != K_ESC || !more_follows(fd))
        return c == '\n' ? K_ENTER : c == 8 ? K_BACKSPACE : c;
    c = read_byte(fd);
    if (c == '[' || c == 'O') {
        key = read_sequence(fd);
        return key == K_PASTE ? read_paste(fd, paste) : key;
    }
    return c < 0 ? c : c == '\n' ? KEY_ALT(K_ENTER) : KEY_ALT(c);
}
