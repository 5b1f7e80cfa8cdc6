"""Allocation failures: each scenario runs again and again, another allocation failing each time (robust/oom.c).
And what fuzzers once found is read again (robust/replay.c; suites/sanitized.py does so under the sanitizers)."""
import pathlib
import tempfile

from harness import process
from harness.test import Fail, Test

RUNS = 150

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
    "jit": "@jit\ndef f(x, y): return exp(x) @ y\nprint(f(ones((2, 3)), ones((3, 2))).shape)\n",
}


def binary(ctx):
    return ctx.build / "tests/robust/oom"


def sweep(ctx, text):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "scenario.tsr"
        path.write_text(text)
        p = process.run([binary(ctx), RUNS, "run", path], timeout=120)
    if p.returncode:
        raise Fail((p.stdout + p.stderr)[-1500:])


def replay(ctx, build, env=None):
    p = process.run([build / "tests/robust/replay", ctx.root / "fuzz/corpus"], timeout=120, memory=None, env=env)
    if p.returncode:
        raise Fail(p.stderr[-3000:])


def tests(ctx):
    yield Test("robust/replay", lambda: replay(ctx, ctx.build))
    for name, text in SCENARIOS.items():
        yield Test(f"robust/out-of-memory/{name}", lambda text=text: sweep(ctx, text))
