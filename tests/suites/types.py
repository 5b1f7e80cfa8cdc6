"""What the checker says of types beyond errors: sizes static or dynamic, the grammar of types, traces, and ten files with one seeded bug each."""
import itertools
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test

ATTENTION = '''import sys


def attention[B, S, D: static, H: static](q: Tensor[B, H, S, D], k: Tensor[B, H, S, D]) -> Tensor[B, H, S, S]:
    scores = q @ k.mT / D ** 0.5
    return softmax(scores, axis=-1)


'''


def tessera(ctx, text, *options, verb="check"):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "p.tsr"
        path.write_text(text)
        p = process.run([ctx.tessera, verb, *options, "p.tsr"], cwd=d)
    if why := process.died(p):
        raise Fail(why)
    return p


def static_or_dynamic(ctx):
    p = tessera(ctx, ATTENTION, "--shapes")
    if "B: dynamic, S: dynamic, D: static, H: static" not in p.stdout or p.returncode:
        raise Fail(p.stdout + p.stderr)
    unknown = ATTENTION + "m = len(sys.argv) + 15\nprint(attention(zeros(2, 4, 8, m), zeros(2, 4, 8, m)).shape)\n"
    p = tessera(ctx, unknown)
    if p.returncode != 1 or "D is declared static" not in p.stderr or "p.tsr:10:" not in p.stderr:
        raise Fail(p.stderr)
    for fine in ("zeros(2, 4, 8, 16)", "zeros(len(sys.argv), 4, 8, 16)"):
        p = tessera(ctx, ATTENTION + f"x = {fine}\nattention(x, x)\n")
        if p.returncode:
            raise Fail(f"{fine}: {p.stderr}")


DIMS = ["B", '"B"', '"B", "S"', '4, "?"', '"...", "D"', '"B*H", 2']
DTYPES = ["", "bf16", "bf16 @ accum(f32)", "bf16 @ accum(f32) @ round(rne)"]


def grammar(ctx):
    """24 combinations of sizes and element types: each parses, is printed, and parses to the same."""
    combinations = list(itertools.product(DIMS, DTYPES))
    if len(combinations) != 24:
        raise Fail("not 24")
    for dims, dtype in combinations:
        text = f"def f(x: Tensor[{', '.join(filter(None, (dims, dtype)))}]):\n    return x\n"
        once = tessera(ctx, text, "--print-ast")
        if once.returncode:
            raise Fail(f"{text}{once.stderr}")
        twice = tessera(ctx, once.stdout, "--print-ast")
        if once.stdout != twice.stdout or re.sub(r"\s", "", once.stdout) != re.sub(r"\s", "", text):
            raise Fail(f"{text}became\n{once.stdout}then\n{twice.stdout}")
        if (p := tessera(ctx, text)).returncode:
            raise Fail(f"{text}{p.stderr}")


# before the bug, the line with it, the same line mended
SEEDED = [
    ("def f(x: Tensor['B', 784], w: Tensor[784, 10]):\n", "    return x @ w.T", "    return x @ w"),
    ("def f(x: Tensor['B', 'S', 'D']):\n", "    return x + x.mean(axis=1)", "    return x + x.mean(axis=1, keepdims=True)"),
    ("model = Sequential(Linear(28, 64), relu, Linear(64, 10))\n", "print(model(zeros(5, 32)).shape)", "print(model(zeros(5, 28)).shape)"),
    ("def heads(x: Tensor['B', 'S', 512]):\n", "    return x.reshape(x.shape[0], x.shape[1], 8, 65)", "    return x.reshape(x.shape[0], x.shape[1], 8, 64)"),
    ("a, b = zeros(3, 4), zeros(3, 5)\n", "print(concat([a, b], axis=0).shape)", "print(concat([a, b], axis=1).shape)"),
    ("x, w = zeros(8, 3, 32, 32), zeros(16, 3, 5, 5)\n", "print(conv2d(x, w.permute(1, 0, 2, 3)).shape)", "print(conv2d(x, w).shape)"),
    ("class Net(Module):\n    def __init__(self):\n        self.a = Linear(8, 16)\n        self.b = Linear(16, 4)\n    def forward(self, x):\n",
     "        return self.a(self.b(x))\nprint(Net()(zeros(2, 8)).shape)", "        return self.b(self.a(x))\nprint(Net()(zeros(2, 8)).shape)"),
    ("def loss(w, x, y):\n    return mse(x @ w, y)\n", "print(grad(loss)(zeros(3, 1), zeros(5, 2), zeros(5, 1)).shape)", "print(grad(loss)(zeros(2, 1), zeros(5, 2), zeros(5, 1)).shape)"),
    ("q, k = zeros(2, 7, 16), zeros(2, 9, 16)\n", "print(einsum('bqd,bkc->bqk', q, k.mT).shape, einsum('bqd,bkd->bqk', q, k.mT).shape)", "print(einsum('bqd,bkd->bqk', q, k).shape)"),
    ("def pool(x: Tensor['B', 'S', 'D']) -> Tensor['B', 'D']:\n", "    return x.sum(axis=2)", "    return x.sum(axis=1)"),
]


def seeded(ctx):
    for before, bug, mended in SEEDED:
        line = before.count("\n") + 1
        p = tessera(ctx, before + bug + "\n")
        if p.returncode != 1 or not re.search(rf"p\.tsr:{line}:|^\s*{line} \|", p.stderr, re.M):
            raise Fail(f"{before}{bug}\nsays {p.stderr!r}")
        p = tessera(ctx, before + mended + "\n")
        if p.returncode or p.stderr:
            raise Fail(f"{before}{mended}\nsays {p.stderr}")


def traced(ctx):
    """A line for each operation that runs: its line, its inputs' shapes, its output's."""
    text = "x = ones(2, 3)\ny = (x + 1) * 2\nfor i in range(3):\n    y = exp(y)\nz = x @ y.mT\nprint(z.sum(axis=0).shape)\n"
    p = tessera(ctx, text, "--trace-shapes", verb="run")
    lines = p.stderr.splitlines()
    want = [(1, "full"), (2, "add"), (2, "mul"), (4, "exp"), (4, "exp"), (4, "exp"), (5, "permute"), (5, "matmul"), (6, "sum")]
    got = [re.match(r"\S*p\.tsr:(\d+) (\w+)( \S+\[[^]]*\])* -> \w+\[[^]]*\]$", l) for l in lines]
    if p.stdout != "(2,)\n" or not all(got) or [(int(m[1]), m[2]) for m in got] != want:
        raise Fail(p.stderr)
    if "matmul f32[2, 3] f32[3, 2] -> f32[2, 2]" not in p.stderr:
        raise Fail(p.stderr)


def one_graph(ctx):
    text = """@jit
def f(x: Tensor[S, D, f16]) -> Tensor[S, D, f16]:
    return x * 2
print(f(zeros((3, 4), dtype=f16)).shape, f(zeros((5, 4), dtype=f16)).shape)
"""
    p = tessera(ctx, text, "--stats", verb="run")
    if p.stdout != "(3, 4) (5, 4)\n" or "f compiles=1 calls=2" not in p.stderr:
        raise Fail(p.stdout + p.stderr)
    p = tessera(ctx, text.replace("(5, 4), dtype=f16", "(5, 4), dtype=f32"), verb="run")
    if p.returncode != 1 or "f16" not in p.stderr or "f32" not in p.stderr:
        raise Fail(p.stderr)


ROWS = {static_or_dynamic: ("TYP-03",), grammar: ("TYP-16",), seeded: ("TYP-24",), traced: ("TYP-27",), one_graph: ("TYP-15",)}


def tests(ctx):
    for f, rows in ROWS.items():
        yield Test(f"types/{f.__name__.replace('_', '-')}", lambda f=f: f(ctx), rows)
