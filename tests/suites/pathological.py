"""Inputs that are huge, deep or absurd: each gives a result or a clean error in bounded time, memory and stack.

The texts are made on the fly.  `ulimit -s 512` makes too deep a recursion fail here before a user finds it.
"""
import pathlib
import tempfile

from harness import process
from harness.test import Fail, Test

STACK = 512 << 10
MEMORY = 2 << 30
SECONDS = 20
N = 100_000


def deep(opening, closing, n=N, middle="1"):
    return lambda: f"x = {opening * n}{middle}{closing * n}\n"


# name, text (made when needed), what must come: "ok" runs, "error" is a diagnostic or exception, "any" either
TABLE = [
    ("line-10MB", lambda: "x = '" + "a" * (10 << 20) + "'\nprint(len(x))\n", "ok"),
    ("identifier-10MB", lambda: "a" * (10 << 20) + " = 1\n", "error"),
    ("tokens-without-newline", lambda: "x = " + "+".join(["1"] * 500_000) + "\n", "any"),
    ("comments", lambda: "# comment\n" * 500_000 + "print(1)\n", "ok"),
    ("blank-lines", lambda: "\n" * 5_000_000 + "print(1)\n", "ok"),
    ("parentheses", deep("(", ")"), "error"),
    ("lists", deep("[", "]"), "error"),
    ("dicts", deep("{1:", "}"), "error"),
    ("parentheses-open", lambda: "x = " + "(" * N + "\n", "error"),
    ("brackets-200", deep("[", "]", 200), "ok"),
    ("brackets-256", deep("[", "]", 256), "any"),
    ("brackets-257", deep("[", "]", 257), "error"),
    ("unary-minus", lambda: "x = " + "-" * N + "1\n", "error"),
    ("not", lambda: "x = " + "not " * N + "1\n", "error"),
    ("await", lambda: "async def f(x):\n    " + "await " * N + "x\n", "error"),
    ("lambda", lambda: "x = " + "lambda: " * N + "1\n", "error"),
    ("attributes", lambda: "x = y" + ".a" * N + "\n", "error"),
    ("calls", lambda: "def f(): return f\nx = f" + "()" * 50_000 + "\n", "any"),
    ("subscripts", lambda: "x = 1\ny = x" + "[0]" * N + "\n", "error"),
    ("conditionals", lambda: "x = " + "1 if 0 else " * N + "2\n", "any"),
    ("powers", lambda: "x = " + "1**" * N + "1\n", "any"),
    ("comparisons", lambda: "x = " + "1<" * 20_000 + "1\n", "any"),
    ("boolean-or", lambda: "x = " + "0 or " * N + "1\n", "any"),
    ("blocks", lambda: "".join(" " * i + "if 1:\n" for i in range(2000)) + " " * 2000 + "x = 1\n", "error"),
    ("functions-nested", lambda: "".join(" " * i + f"def f{i}():\n" for i in range(1000)) + " " * 1000 + "pass\n", "error"),
    ("elif", lambda: "x = 5\nif x == 0: pass\n" + "".join(f"elif x == -{i}: pass\n" for i in range(1, 50_000)), "any"),
    ("f-strings-nested", lambda: "x = " + "f'{" * 300 + "1" + "}'" * 300 + "\n", "error"),
    ("functions-50k", lambda: "".join(f"def f{i}(): return {i}\n" for i in range(50_000)) + "print(f49999())\n", "ok"),
    ("classes-10k", lambda: "".join(f"class C{i}: x = {i}\n" for i in range(10_000)) + "print(C9999.x)\n", "ok"),
    ("locals-10k", lambda: "def f():\n" + "".join(f"    v{i} = {i}\n" for i in range(10_000)) + "    return v9999\nprint(f())\n", "ok"),
    ("arguments-10k", lambda: "def f(*a): return len(a)\nprint(f(" + ",".join("1" for _ in range(10_000)) + "))\n", "ok"),
    ("parameters-1k", lambda: "def f(" + ",".join(f"a{i}" for i in range(1000)) + "): return a999\n", "ok"),
    ("list-200k", lambda: "x = [" + ",".join(["1"] * 200_000) + "]\nprint(len(x))\n", "ok"),
    ("dict-100k", lambda: "x = {" + ",".join(f"{i}:{i}" for i in range(N)) + "}\nprint(len(x))\n", "ok"),
    ("int-1MB-digits", lambda: "x = " + "9" * (1 << 20) + "\n", "error"),
    ("hex-1MB-digits", lambda: "x = 0x" + "f" * (1 << 20) + "\n", "error"),
    ("float-1MB-digits", lambda: "x = 0." + "3" * (1 << 20) + "\nprint(x)\n", "any"),
    ("float-exponent", lambda: "x = 1e999999999\nprint(x)\n", "any"),
    ("int-min", lambda: "x = -9223372036854775808\nprint(x)\n", "ok"),
    ("int-overflow", lambda: "x = 9223372036854775807\nprint(x + 1)\n", "error"),
    ("string-open", lambda: "x = '" + "a" * 1000 + "\n", "error"),
    ("string-triple-open", lambda: 'x = """' + "a\n" * N, "error"),
    ("escape-at-end", lambda: "x = 'a\\", "error"),
    ("backslash-at-end", lambda: "x = 1 \\", "any"),
    ("dedent-wrong", lambda: "if 1:\n        x = 1\n    y = 2\n", "error"),
    ("errors-100k", lambda: "x = = 1\n" * N, "error"),
    ("bad-characters", lambda: "x = \x01\x02\x7f\n", "error"),
    ("control-bidi", lambda: "x = '\u202e'\n", "any"),
    ("recursion", lambda: "def f(n): return f(n + 1)\nf(0)\n", "error"),
    ("import-self", lambda: "import input\nx = 1\nprint(input.x)\n", "any"),
    ("recursion-mutual", lambda: "def f(n): return g(n)\ndef g(n): return f(n)\nf(0)\n", "error"),
    ("recursion-repr", lambda: "x = []\nfor i in range(100000): x = [x]\nprint(len(repr(x)))\n", "any"),
    ("recursion-compare", lambda: "a = []\nb = []\nfor i in range(100000):\n    a = [a]\n    b = [b]\nprint(a == b)\n", "any"),
    ("recursion-hash", lambda: "a = ()\nfor i in range(100000): a = (a,)\nprint(hash(a) != 0)\n", "any"),
    ("recursion-init", lambda: "class A:\n    def __init__(self): A()\nA()\n", "error"),
    ("recursion-getattr", lambda: "class A:\n    def __getattr__(self, n): return self.missing\nA().x\n", "error"),
    ("recursion-str", lambda: "class A:\n    def __str__(self): return str(self)\nprint(A())\n", "error"),
    ("recursion-sort", lambda: "def k(x): return sorted([x], key=k)\nk(1)\n", "error"),
    ("recursion-generator", lambda: "def g(n):\n    yield from g(n + 1)\nfor x in g(0): pass\n", "error"),
    ("long-linked-list", lambda: "x = None\nfor i in range(1000000): x = (i, x)\nx = None\nprint('freed')\n", "ok"),
    ("long-object-chain", lambda: "class N:\n    def __init__(self, n): self.n = n\nx = None\n"
     "for i in range(300000): x = N(x)\nx = None\nprint('freed')\n", "ok"),
    ("self-containing-list", lambda: "x = []\nx.append(x)\nprint(repr(x))\n", "ok"),
    ("json-deep", lambda: "import json\njson.loads('[' * 1000000)\n", "error"),
    ("exception-chain", lambda: "e = None\nfor i in range(20000):\n    try:\n        try: raise ValueError(i)\n"
     "        except ValueError as x:\n            raise KeyError(i) from e\n    except KeyError as y: e = y\nprint('ok')\n", "ok"),
    ("shape-too-large", lambda: "x = zeros((1 << 40, 1 << 40))\n", "error"),
    ("shape-2-63", lambda: "x = zeros((9223372036854775807, 2))\n", "error"),
    ("shape-2-62", lambda: "x = zeros((1 << 62,))\n", "error"),
    ("shape-negative", lambda: "x = zeros((-1, 2))\n", "error"),
    ("shape-zero-and-large", lambda: "x = zeros((0, 1 << 62))\nprint(x.size)\n", "any"),
    ("rank-1000", lambda: "x = zeros((1,) * 1000)\n", "error"),
    ("rank-16", lambda: "x = zeros((1,) * 16)\nprint(x.ndim)\n", "ok"),
    ("rank-17", lambda: "x = zeros((1,) * 17)\n", "error"),
    ("shape-literal", lambda: "def f(x: Tensor[" + ",".join(["1"] * 10_000) + "]): pass\n", "any"),
    ("dim-expression", lambda: 'def f(x: Tensor["' + "+".join(f"D{i}" for i in range(300)) + '"]): return x\n', "any"),
    ("repeat-string", lambda: "x = 'a' * (1 << 40)\n", "error"),
    ("repeat-list", lambda: "x = [0] * (1 << 40)\n", "error"),
    ("range-huge", lambda: "print(len(range(1 << 60)))\n", "ok"),
    ("shift-huge", lambda: "x = 1 << 100\n", "error"),
    ("power-huge", lambda: "x = 10 ** 100\n", "error"),
    ("format-width", lambda: "x = '{:>99999999999}'.format(1)\n", "error"),
    ("percent-width", lambda: "x = f'{1:>1000000}'\nprint(len(x))\n", "ok"),
]


def check(ctx, make, want):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "input.tsr"
        path.write_text(make())
        p = process.run([ctx.tessera, "run", path], timeout=SECONDS, memory=MEMORY, stack=STACK)
    if why := process.died(p):
        raise Fail(why)
    if p.returncode not in (0, 1):
        raise Fail(f"exit code {p.returncode}: {p.stderr[-300:]}")
    if want == "ok" and p.returncode:
        raise Fail(f"should run: {p.stderr[-400:]}")
    if want == "error" and not p.returncode:
        raise Fail("should be an error")
    if p.returncode and not p.stderr.strip():
        raise Fail("failed without a message")
    if "internal error" in p.stderr:
        raise Fail(p.stderr[-400:])
    if len(p.stderr) > 200_000:
        raise Fail(f"{len(p.stderr)} bytes of messages")


def tests(ctx):
    for name, make, want in TABLE:
        yield Test(f"pathological/{name}", lambda make=make, want=want: check(ctx, make, want))
