"""The interactive session: transcripts in a real terminal, on a dumb one, and through a pipe."""
import os
import pathlib
import pty
import select
import subprocess
import tempfile
import time

from harness import process
from harness.terminal import Terminal, need_pty
from harness.test import Fail, Test


class session(Terminal):
    """A session that has said its first prompt."""

    def __init__(self, ctx, **env):
        super().__init__([ctx.tessera], {"TESSERA_HISTORY": "", **env})

    def __enter__(self):
        super().__enter__()
        self.expect(">>>")
        return self


def computes(ctx):
    with session(ctx) as t:
        t.keys("6 * 7", "Enter")
        t.expect("\n42\n")


def blocks_are_indented_and_run(ctx):
    with session(ctx) as t:
        t.keys("def f(x):", "Enter", "return x * 2", "Enter", "Enter", "f(21)", "Enter")
        seen = t.expect("\n42\n")
        if "...     return x * 2" not in seen:
            raise Fail("the block's second line is not indented\n" + seen)


def a_block_can_be_edited(ctx):
    with session(ctx) as t:
        t.keys("for i in range(2):", "Enter", "print(i)", "Enter", "Up", "Up", "End", "BSpace", "BSpace", "BSpace", "3):",
               "Down", "Down", "Enter")
        t.expect("\n0\n1\n2\n")


def errors_keep_the_session(ctx):
    with session(ctx) as t:
        t.keys("y = 5", "Enter", "1 // 0", "Enter")
        t.expect("ZeroDivisionError")
        t.keys("x = = 1", "Enter")
        t.expect("[E0102]")
        t.keys("y + 1", "Enter")
        t.expect("\n6\n")


def ctrl_c_stops_a_computation(ctx):
    with session(ctx) as t:
        t.keys("kept = 9", "Enter", "while True: pass", "Enter")
        time.sleep(0.5)
        t.keys("C-c")
        t.expect("KeyboardInterrupt")
        t.keys("kept", "Enter")
        t.expect("\n9\n")


def ctrl_c_drops_the_line(ctx):
    with session(ctx) as t:
        t.keys("garbage(", "C-c", "1 + 1", "Enter")
        t.expect("\n2\n")


def ctrl_d_leaves(ctx):
    with session(ctx) as t:
        t.keys("x = 1", "Enter", "C-d")
        t.expect("left with 0")


def exit_leaves(ctx):
    with session(ctx) as t:
        t.keys("import sys", "Enter", "sys.exit(3)", "Enter")
        t.expect("left with 3")


def names_are_completed(ctx):
    with session(ctx) as t:
        t.keys("my_long_name = 5", "Enter", "my_lo", "Tab", "Enter")
        t.expect("\n5\n")
        t.keys("log_softm", "Tab")
        t.expect(">>> log_softmax")


def attributes_are_completed(ctx):
    with session(ctx) as t:
        t.keys("x = [3]", "Enter", "x.app", "Tab", "(4)", "Enter", "x", "Enter")
        t.expect("\n[3, 4]\n")
        t.keys("import math", "Enter", "math.sq", "Tab", "(16.0)", "Enter")
        t.expect("\n4.0\n")


def keywords_are_completed(ctx):
    with session(ctx) as t:
        t.keys("sorted(['b', 'A'], key", "Tab", "str.lower)", "Enter")
        t.expect("\n['A', 'b']\n")
        t.keys("def f(alpha, beta_size=3):", "Enter", "return beta_size", "Enter", "Enter", "f(1, beta", "Tab", "8)", "Enter")
        t.expect("\n8\n")


def candidates_are_listed(ctx):
    with session(ctx) as t:
        t.keys("aaa_one = 1; aaa_two = 2", "Enter", "aaa_", "Tab")
        seen = t.expect("aaa_one ")
        if "aaa_two" not in seen.rsplit(">>> aaa_", 1)[-1]:
            raise Fail(seen)


def history_goes_back(ctx):
    with session(ctx) as t:
        t.keys("111 + 1", "Enter", "222 + 1", "Enter")
        t.expect("\n223\n")
        t.keys("Up", "Up", "Enter")
        t.expect("\n112\n")
        t.keys("C-r", "222", "Enter")
        seen = t.expect(">>> 222 + 1", seconds=3)
        if seen.count("\n223\n") < 2:
            t.expect("\n223\n>>> 111 + 1\n112\n>>> 222 + 1\n223\n")


def history_outlives_the_session(ctx):
    with tempfile.TemporaryDirectory() as d:
        path = str(pathlib.Path(d) / "sub/history")
        with session(ctx, TESSERA_HISTORY=path) as t:
            t.keys("def g():", "Enter", "return 77", "Enter", "Enter", "C-d")
            t.expect("left with 0")
        with session(ctx, TESSERA_HISTORY=path) as t:
            t.keys("Up", "End", "Enter", "g()", "Enter")
            t.expect("\n77\n")


def questions_are_answered(ctx):
    with session(ctx) as t:
        t.keys("?len", "Enter")
        t.expect("len(")
        t.keys("def area(width, height=2):", "Enter", '"""Width times height."""', "Enter", "return width * height", "Enter",
               "Enter", "?area", "Enter")
        seen = t.expect("Width times height.\n>>>")
        if "def area(width, height=2)    (<input " not in seen:
            raise Fail(seen)
        t.keys("?nothing", "Enter")
        t.expect("no name 'nothing'")


def commands_work(ctx):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "part.tsr"
        path.write_text("loaded = 123\nprint('loading')\n")
        saved = pathlib.Path(d) / "saved.tsr"
        with session(ctx) as t:
            t.keys(f":load {path}", "Enter")
            t.expect("\nloading\n")
            t.keys("loaded + 1", "Enter")
            t.expect("\n124\n")
            t.keys(":type [1, 2]", "Enter")
            t.expect("\nlist of 2\n")
            t.keys(":who", "Enter")
            t.expect("loaded: int")
            t.keys(":time sum(range(1000))", "Enter")
            t.expect("499500\n")
            t.keys(f":save {saved}", "Enter", ":tpye 1", "Enter")
            t.expect("did you mean ':type'?")
        if "loaded + 1" not in saved.read_text():
            raise Fail(saved.read_text())


def tensors_have_types(ctx):
    with session(ctx) as t:
        t.keys(":type ones((2, 3))", "Enter")
        t.expect("Tensor[2, 3, f32]")


def graphs_are_shown(ctx):
    """:ir of a call, of an expression over tensors, and of what has no graph."""
    p = process.run([ctx.tessera, "repl"], stdin="def f(x, k): return exp(x) * k\nw = ones((3, 2))\n:ir f(ones((2, 3)), 2.0)\n"
                                                 ":ir (w.T @ w).sum()\n:ir 1 +\n:ir x = 1\n:ir nothing(1)\n1 + 1\n")
    for want in ("%1: f32[x_0, x_1]", "= exp(%1)", "%1: f32[w_0, w_1]", "matmul(", "\n2\n"):
        if want not in p.stdout:
            raise Fail(f"no {want!r} in {p.stdout!r} {p.stderr!r}")
    for want in ("[E01", "':ir' shows the graph of one expression", "NameError"):
        if want not in p.stderr:
            raise Fail(f"no {want!r} in {p.stderr!r}")


def pasted_text_is_one_input(ctx):
    with session(ctx) as t:
        t.paste("def h(x):\n    y = x + 1\n\n    return y\n")
        t.keys("Enter", "h(1)", "Enter")
        t.expect("\n2\n")


def text_is_coloured(ctx):
    with session(ctx) as t:
        t.keys("if 'text' == 12: pass  # note")
        seen = t.expect("note", colors=True)
        for code in ("\033[35m", "\033[32m", "\033[36m", "\033[90m"):
            if code not in seen:
                raise Fail(f"{code!r} is missing in {seen!r}")
    with session(ctx, NO_COLOR="1") as t:
        t.keys("if 1: pass")
        if "\033[3" in t.expect("if 1: pass", colors=True):
            raise Fail("colour in spite of NO_COLOR")


def long_and_wide_lines_wrap(ctx):
    with session(ctx) as t:
        t.keys("s = '" + "ab" * 60 + "語語'", "Home", "Right", "End", "Enter", "len(s)", "Enter")
        t.expect("\n122\n")


def a_dumb_terminal_works(ctx):
    with session(ctx, TERM="dumb") as t:
        t.keys("def f():", "Enter", "  return 5", "Enter", "Enter", "f()", "Enter")
        seen = t.expect("\n5\n")
        if "\033" in t.screen(colors=True).replace("\033[39m", ""):
            raise Fail("escape sequences on a dumb terminal: " + repr(seen))


def prompts_quickly(ctx):
    """Up to the first prompt it costs less than 50 ms of processor time, at the best of five tries."""
    need_pty()
    best = min(cpu_to_prompt(ctx) for _ in range(5))
    if best > 0.05:
        raise Fail(f"{best * 1000:.0f} ms")


def cpu_to_prompt(ctx):
    main, child = pty.openpty()
    p = subprocess.Popen([ctx.tessera], stdin=child, stdout=child, stderr=child,
                         env={**os.environ, "TERM": "xterm", "TESSERA_HISTORY": ""})
    os.close(child)
    seen, end = b"", time.monotonic() + 10
    while b">>> " not in seen and time.monotonic() < end:
        if select.select([main], [], [], 1)[0]:
            seen += os.read(main, 4096)
    p.kill()
    used = os.wait4(p.pid, 0)[2]
    p.returncode = 0
    os.close(main)
    if b">>> " not in seen:
        raise Fail("no prompt")
    return used.ru_utime + used.ru_stime


# ------------------------------------------------------------- through a pipe

PIPE = [
    ("values", "1 + 1\n'a'\nNone\n", "2\n'a'\n"),
    ("function", "def f(x):\n    y = x\n\n    return y\nf(3)\n", "3\n"),
    ("else", "if 0:\n    print(1)\nelse:\n    print(2)\n", "2\n"),
    ("brackets", "x = [1,\n2]\nx\n", "[1, 2]\n"),
    ("no-last-newline", "5", "5\n"),
    ("class", "class A:\n    def f(self):\n        return 4\nA().f()\n", "4\n"),
    ("command", ":type 1\n", "int\n"),
    ("last_value", "2 + 3\n_ * 2\n_\nNone\n_ + 1\n", "5\n10\n10\n11\n"),
    ("decorator", "def d(f): return f\n@d\ndef g():\n    return 6\ng()\n", "6\n"),
]


def piped(ctx, text, want):
    p = process.run([ctx.tessera, "repl"], stdin=text)
    if why := process.died(p):
        raise Fail(why)
    if p.stdout != want or p.returncode:
        raise Fail(f"got {p.stdout!r} {p.stderr!r}, exit code {p.returncode}")


def piped_errors_go_on(ctx):
    p = process.run([ctx.tessera], stdin="x = 1\nx.nothing\nx + \nx + 1\n")
    if p.stdout != "2\n" or "AttributeError" not in p.stderr or "[E01" not in p.stderr:
        raise Fail(f"{p.stdout!r} {p.stderr!r}")


FUNCTIONS = (computes, blocks_are_indented_and_run, a_block_can_be_edited, errors_keep_the_session,
             ctrl_c_stops_a_computation, ctrl_c_drops_the_line, ctrl_d_leaves, exit_leaves, names_are_completed,
             attributes_are_completed, keywords_are_completed, candidates_are_listed, history_goes_back,
             history_outlives_the_session, questions_are_answered, commands_work, tensors_have_types, graphs_are_shown,
             pasted_text_is_one_input, text_is_coloured, long_and_wide_lines_wrap, a_dumb_terminal_works,
             prompts_quickly, piped_errors_go_on)


def tests(ctx):
    for f in FUNCTIONS:
        yield Test(f"repl/{f.__name__}", lambda f=f: f(ctx))
    for name, text, want in PIPE:
        yield Test(f"repl/pipe/{name}", lambda text=text, want=want: piped(ctx, text, want))
