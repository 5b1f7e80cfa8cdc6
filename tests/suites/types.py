"""What the checker says of types beyond errors: sizes static or dynamic, the grammar of types, traces, and ten files with one seeded bug each."""
import itertools
import pathlib
import re
import tempfile
import time

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
        if not re.search(r"p\.tsr:\d+:\d+$", p.stderr, re.M) or not re.search(r"^ +\| +~+$", p.stderr, re.M) or \
                not re.search(r"^Possible fixes:\n  1\. \S", p.stderr, re.M) or p.stdout:
            raise Fail(f"{before}{bug}\nhas no place, source line, underline and fixes: {p.stderr}")
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


def broadcast_text(ctx):
    """The two texts of the guide in their order, nothing on standard output, at the line that adds."""
    text = "def invalid_broadcast(x: Tensor['B', 'S'], y: Tensor['B', 'K']):\n    return x + y\n"
    p = tessera(ctx, text)
    first, second = p.stderr.find("Cannot broadcast S with K"), p.stderr.find("Shape mismatch in dimension 1: S vs K")
    if p.returncode != 1 or p.stdout or not 0 <= first < second or "p.tsr:2:" not in p.stderr or "return x + y" not in p.stderr:
        raise Fail(p.stdout + p.stderr)


def both_spellings(ctx):
    """The generic and the string spelling of a function: the same results, the same words against a wrong call."""
    generic = "def f[B, D](x: Tensor[B, D], w: Tensor[D, D]) -> Tensor[B, D]:\n    return softmax(x @ w, axis=-1) * D\n"
    plain = "def f(x: Tensor['B', 'D'], w: Tensor['D', 'D']) -> Tensor['B', 'D']:\n    return softmax(x @ w, axis=-1) * D\n"
    right = "print(f(arange(6).to(f32).reshape(2, 3), eye(3)).tolist())\n"
    outs = [tessera(ctx, head + right, verb="run").stdout for head in (generic, plain)]
    if outs[0] != outs[1] or len(outs[0]) < 40:
        raise Fail(f"{outs}")
    said = [tessera(ctx, head + "f(zeros(2, 3), zeros(3, 4))\n").stderr for head in (generic, plain)]
    if any("D = 3 but got 4" not in s or "p.tsr:3:" not in s for s in said):
        raise Fail(f"{said}")


def suffixes(ctx):
    """"1M" counts in binary: 1,048,576 elements."""
    p = tessera(ctx, "def f(x: Tensor['1M', fp8]):\n    y = x\n    return y\n", "--shapes")
    if "y: [1048576]" not in p.stdout or p.returncode:
        raise Fail(p.stdout + p.stderr)


EFFECTFUL = """
@jit
def noisy(x: Tensor["N"]) -> Tensor["N"]:
    print("noisy", x)
    tessera.memory.prefetch_to_l2(x)
    y = x + tessera.random.uniform((N,))
    if y.sum() > 100.0:
        raise ValueError("too much")
    return y


noisy(ones(3))
"""


def effects_in_graph(ctx):
    """Every operation of a graph that has an effect says which, and how it is ordered."""
    p = tessera(ctx, EFFECTFUL, "--ir", "graph", verb="inspect")
    found = {m[1]: m[2] for m in re.finditer(r"^ *(?:%\d+: \S+ = )?(print|prefetch|random|check)\(.*effects=\[(\w+)\] token=\S+", p.stdout, re.M)}
    if found != {"print": "io", "prefetch": "memory", "random": "random", "check": "raise"}:
        raise Fail(f"{found}\n{p.stdout}{p.stderr}")


def explicit_in_graph(ctx):
    """GOAL-02: accumulation, device, prefetch and mesh axis, one each."""
    path = ctx.root / "tests/check/goal_02_graph.tsr"
    p = process.run([ctx.tessera, "inspect", "--ir", "graph", "--sim-devices", 1, path], timeout=20)
    counts = {text: p.stdout.count(text) for text in ("device=gpu:0 {", "= matmul(", "prefetch(", "mesh_axis=data {")}
    if set(counts.values()) != {1} or not re.search(r"matmul\(.*accum=f32", p.stdout):
        raise Fail(f"{counts}\n{p.stdout}")


def repeated(line, n):
    return "".join(line.format(i=i, j=i + 1) for i in range(n))


BLOW_UPS = {
    "tuples": "x0 = (1, 2)\n" + repeated("x{j} = (x{i}, x{i})\n", 80),
    "lists": "x0 = [zeros(2), zeros(3)]\n" + repeated("x{j} = [x{i}, x{i}, x{i}]\n", 80),
    "dicts": "x0 = {'a': zeros(2)}\n" + "".join(f"x{i + 1} = {{'a': x{i}, 'b': x{i}}}\n" for i in range(80)),
    "mutual": "def f(x, n):\n    return g((x, x), n - 1), g([x], n - 1)\ndef g(x, n):\n    return f((x, 1), n - 1), f({'a': x}, n - 1)\ndef k():\n    return f(zeros(3), 5)\n",
    "templates": "def f0(x):\n    return x\n" + repeated("def f{j}(x):\n    return f{i}((x, 1)), f{i}((1, x)), f{i}([x])\n", 60) + "def go():\n    return f60(zeros(2))\n",
    "lambdas": "f0 = lambda x: (x, x)\n" + repeated("f{j} = lambda x: f{i}(f{i}(x))\n", 60) + "def go():\n    return f60(zeros(2))\n",
    "unions": "import sys\nx = 0\n" + repeated("if len(sys.argv) == {i}:\n    x = (x, {i}, zeros({j}))\n", 400),
    "annotations": "def f(x: " + " | ".join(f"Tensor[{i}, {i + 1}]" for i in range(500)) + "):\n    return x\nf(zeros(3, 4))\n",
    "sizes": "def f(x: Tensor['A', 'B', 'C', 'D', 'E']):\n    n = sum(x.shape[0:1], 0) + x.shape[0] + x.shape[1] + x.shape[2]\n" + "    n = n * n\n" * 40 + "    return x.reshape(n)\n",
    "powers": "def f(x: Tensor['A', 'B']):\n    n = x.shape[0] + x.shape[1]\n" + "    n = n * n\n" * 40 + "    return x.reshape(n)\n",
    "classes": "class C0:\n    def __init__(self, x):\n        self.a = x\n" + repeated("class C{j}(C{i}):\n    def __init__(self, x):\n        super().__init__((x, x))\n        self.c{i} = C{i}((x, self.a))\n        self.d{i} = C{i}([x])\n", 30) + "def go():\n    return C30(zeros(2))\n",
}


def blow_ups(ctx):
    """Types and sizes that double with each line are cut: in bounded time and memory, and without a word against a program that runs,
    except that functions that make the types are not all followed (E0917)."""
    for name, text in BLOW_UPS.items():
        with tempfile.TemporaryDirectory() as d:
            (pathlib.Path(d) / "p.tsr").write_text(text)
            p = process.run([ctx.tessera, "check", "p.tsr"], cwd=d, timeout=10, memory=1 << 30)
        if why := process.died(p):
            raise Fail(f"{name}: {why}")
        if p.returncode or (p.stderr and not (name in ("templates", "classes") and p.stderr.count("Warning: ") == 1 and "E0917" in p.stderr)):
            raise Fail(f"{name}: {p.stderr}")


def seconds(ctx, where):
    start = time.perf_counter()
    process.run([ctx.tessera, "check", "p.tsr"], cwd=where, timeout=10)
    return time.perf_counter() - start


def misspelt(ctx):
    """An attribute that is not there, in rounds and rounds that are walked one by one: a guess is made where one is said."""
    text = ("for a in (1, 2, 3, 4, 5, 6, 7, 8):\n    for b in (1, 2, 3, 4, 5, 6, 7, 8):\n        for c in (1, 2, 3, 4, 5, 6, 7, 8):\n"
            "            (ones(a, b) @ ones(b, c)).{}\n")
    took = {}
    for name in ("contiguous()", "contigousss()"):
        with tempfile.TemporaryDirectory() as d:
            (pathlib.Path(d) / "p.tsr").write_text(text.format(name))
            took[name] = min(seconds(ctx, d) for _ in range(5))
    right, wrong = took.values()
    if wrong > 3 * right:
        raise Fail(f"{wrong:.3f} s with the mistake, {right:.3f} s without")


ROWS = {blow_ups: (), misspelt: (), broadcast_text: ("DBG-03", "TYP-07"), both_spellings: ("TYP-08",), suffixes: ("TYP-09",),
        effects_in_graph: ("EFF-12",), explicit_in_graph: ("GOAL-02",), static_or_dynamic: ("TYP-03",),
        grammar: ("TYP-16",), seeded: ("TYP-24", "TYP-28"), traced: ("TYP-27",), one_graph: ("TYP-15",)}


def tests(ctx):
    for f, rows in ROWS.items():
        yield Test(f"types/{f.__name__.replace('_', '-')}", lambda f=f: f(ctx), rows)
