"""Allocation failures: each scenario runs again and again, another allocation failing each time (robust/oom.c).
What fuzzers once found is read again (robust/replay.c; suites/sanitized.py does so under the sanitizers).  Many programs
go through one process's checker: in any order, and spliced from each other's tokens (robust/checks.c).

What is drawn by chance follows from the commit, so that each commit tries others and a failure can be tried again.
"""
import pathlib
import subprocess
import tempfile

from harness import process
from harness.test import Fail, Test

RUNS = 150
SPLICED = 6000

SCENARIOS = {
    "hello": "print('hello')\n",
    "syntax-error": "x = (1,\ny = ]\n",
    "unknown-name": "print(nothing, other)\n",
    "exception": "def f(n):\n    if n == 0:\n        raise ValueError('boom', n)\n    f(n - 1)\ntry:\n    f(5)\nexcept ValueError as e:\n    print(e)\n",
    "traceback": "def f(): return 1 // 0\ntry:\n    f()\nexcept ZeroDivisionError as e:\n    print(repr(e))\n",
    "lists": "x = []\nfor i in range(500):\n    x.append([i])\nprint(sorted(x)[0], x[::7][1:3])\n",
    "dicts": "d = {}\nfor i in range(500):\n    d[str(i)] = {i}\nprint(len(d), '77' in d)\ndel d['3']\n",
    "strings": "s = ''\nfor i in range(100):\n    s += f'{i:>5}|'\nprint(len(s), s.split('|')[3].strip(), s.upper()[:5])\n",
    "classes": "class A:\n    def __init__(self, x): self.x = x\n    def __repr__(self): return f'A({self.x})'\n"
               "class B(A):\n    def get(self): return super().__repr__()\nprint([B(i) for i in range(20)][3].get())\n",
    "generators": "def g(n):\n    for i in range(n):\n        yield i * i\nprint(sum(g(50)), list(zip(g(3), 'abc')))\n",
    "closures": "def make(n):\n    def add(x): return x + n\n    return add\nprint([make(i)(1) for i in range(30)])\n",
    "match": "def f(x):\n    match x:\n        case [a, *rest]: return a, rest\n        case {'k': v}: return v\n        case _: return None\n"
             "print(f([1, 2]), f({'k': 3}), f(0))\n",
    "modules": "import math, json\nprint(math.sqrt(16.0), json.dumps({'a': [1, None]}), json.loads('[1, {}]'))\n",
    "tensors": "x = arange(12).reshape(3, 4)\nprint((x + 1).sum(), x[1:, ::2], x.T.shape)\n",
    "gradient": "def f(x): return (x * x).sum()\nprint(grad(f)(tensor([1.0, 2.0])))\n",
    "regex-format": "import re\nprint(re.sub(r'(\\w+) (\\w+)', r'\\2 \\1', 'ab cd ef gh'), '%5.2f|%-4d' % (1.5, 3), '{:>{}}'.format('x', 5))\n",
    "async": "import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n\nasync def main():\n"
             "    print(await asyncio.gather(*[f(i) for i in range(5)]))\nasyncio.run(main())\n",
    "dataclasses": "from dataclasses import dataclass\n@dataclass(order=True)\nclass P:\n    x: int\n    y: int = 2\nprint(sorted([P(3), P(1)]), P(1) == P(1, 2))\n",
    "files": "import os\np = __file__ + '.d'\nx = {'a': ones((2, 3)), 'b': arange(4)}\nsave_npy(p, x['a'])\nprint(load_npy(p).shape)\n"
             "save_npz(p, x)\nprint(load_npz(p)['b'].tolist())\nsave_safetensors(p, x, {'k': 'v'})\nprint(load_safetensors(p)[1])\n"
             "save_checkpoint(p, x, step=3)\nprint(load_checkpoint(p, x)[1])\nos.remove(p)\n",
    "checked": "def f(x: Tensor['B', 4, f32], w: Tensor[4, 2, f32]) -> Tensor['B', 2, f32]: return x @ w\nprint(f(ones((3, 4)), ones((4, 2))).shape)\n",
    "shape-errors": "def f(x: Tensor['B', 4]): return x @ ones((5, 2))\nx = ones((2, 3)) + ones((4, 5))\n",
    "transforms": "f = lambda x: (x * x).sum()\nprint(vmap(grad(f))(ones((2, 3))).tolist(), jvp(f, (ones(2),), (ones(2),))[1].item(), hessian(f)(ones(2)).shape)\n",
    "loops": "@jit\ndef f(x):\n    for i in range(3):\n        if x.sum() > 2.0:\n            x = x * 0.5\n        else:\n            x = x + 1.0\n    return x\n"
             "print(f(ones(2)).tolist(), scan(lambda c, v: (c + v, c), 0.0, ones(4))[1].tolist())\n",
    "training": "m = Linear(3, 2)\nx = ones((4, 3))\nloss = lambda m: ((m(x) - 1.0) ** 2).mean()\nprint(len(tree_leaves(grad(loss)(m))))\n",
    "graph": "print(len(graph_of(lambda x: exp(x) @ x.T, ones((2, 3)))) > 10)\n",
    "jit": "@jit\ndef f(x, y): return exp(x) @ y\nprint(f(ones((2, 3)), ones((3, 2))).shape)\n",
}


SESSION = "x = 1\ndef f(a):\n    return a * 2.0\n\nf(ones(2))\n:type x\n:ir f(ones(2))\n1 // 0\ny = = 2\n:who\n?f\n"


def binary(ctx):
    return ctx.build / "tests/robust/oom"


def seed(ctx):
    p = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ctx.root, capture_output=True, text=True)
    return int(p.stdout[:8] or "1", 16)


def all_programs(ctx):
    return [f for d in (ctx.root / "tests", ctx.root / "stdlib", ctx.root / "examples", ctx.shared / "corpus")
            for f in sorted(d.rglob("*.tsr")) if f.stat().st_size < 1 << 16]


def checks(ctx, *arguments):
    p = process.run([ctx.build / "tests/robust/checks", *arguments, *all_programs(ctx)], timeout=300)
    if p.returncode:
        raise Fail((p.stdout + p.stderr)[-3000:])


def spliced(ctx):
    with tempfile.TemporaryDirectory() as d:
        checks(ctx, "splice", seed(ctx), SPLICED, pathlib.Path(d) / "program")


def sweep(ctx, text):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "scenario.tsr"
        path.write_text(text)
        p = process.run([binary(ctx), RUNS, seed(ctx), "run", path], timeout=120)
    if p.returncode:
        raise Fail((p.stdout + p.stderr)[-1500:])


def sweep_cache(ctx):
    """Kernels that are made and kept, then kernels that are found."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "scenario.tsr"
        path.write_text("print(jit(lambda x: tanh(x) * 2.0)(ones(3)), jit(lambda x: (x * x).sum())(ones((2, 3))))\n")
        for store in ("", f"{d}/store"):
            p = process.run([binary(ctx), RUNS, seed(ctx), "run", "--backend=cpu", path], timeout=120, env={"TESSERA_CACHE": store})
            if p.returncode:
                raise Fail((p.stdout + p.stderr)[-1500:])


def sweep_session(ctx):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "inputs"
        path.write_text(SESSION)
        p = process.run(["sh", "-c", f"exec '{binary(ctx)}' {RUNS} {seed(ctx)} repl < '{path}'"], timeout=120, env={"TESSERA_HISTORY": ""})
    if p.returncode:
        raise Fail((p.stdout + p.stderr)[-1500:])


def sweep_check(ctx):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "scenario.tsr"
        path.write_text(SCENARIOS["shape-errors"] + SCENARIOS["checked"])
        p = process.run([binary(ctx), RUNS, seed(ctx), "check", "--shapes", path], timeout=120)
    if p.returncode:
        raise Fail((p.stdout + p.stderr)[-1500:])


def replay(ctx, build, env=None):
    p = process.run([build / "tests/robust/replay", ctx.root / "fuzz/corpus"], timeout=120, memory=None, env=env)
    if p.returncode:
        raise Fail(p.stderr[-3000:])


def tests(ctx):
    yield Test("robust/replay", lambda: replay(ctx, ctx.build))
    yield Test("robust/check-order", lambda: checks(ctx, "order"))
    yield Test("robust/check-spliced", lambda: spliced(ctx))
    yield Test("robust/out-of-memory/session", lambda: sweep_session(ctx))
    yield Test("robust/out-of-memory/cache", lambda: sweep_cache(ctx))
    yield Test("robust/out-of-memory/check", lambda: sweep_check(ctx))
    for name, text in SCENARIOS.items():
        yield Test(f"robust/out-of-memory/{name}", lambda text=text: sweep(ctx, text))
