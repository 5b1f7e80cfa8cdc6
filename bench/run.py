#!/usr/bin/env python3
"""Measure Tessera against CPython and NumPy in one run: ./dev bench [WORD ...]

Prints one JSON object a line: {"name", "tessera", "peer", "ratio", "unit", "peer_name"}; a ratio above 1 means that
Tessera is that many times faster than the peer.  Times are the best of several runs, taken alternately.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TESSERA = HERE.parent / "build/tessera"
PYTHON = "/usr/bin/python3" if pathlib.Path("/usr/bin/python3").exists() else sys.executable


def seconds(argv):
    start = time.perf_counter()
    p = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(map(str, argv))}: {p.stderr.strip()[-300:]}")
    return time.perf_counter() - start, p.stdout


def alternate(a, b, rounds):
    """Best wall time of each of two commands, run in turns so that a busy machine hurts both."""
    best = [float("inf")] * 2
    for _ in range(rounds):
        for i, argv in enumerate((a, b)):
            best[i] = min(best[i], seconds(argv)[0])
    return best


def row(name, ours, peer, peer_name, unit="s"):
    print(json.dumps({"name": name, "tessera": round(ours, 9), "peer": peer and round(peer, 9),
                      "ratio": peer and round(peer / ours, 3), "unit": unit, "peer_name": peer_name}), flush=True)


def startup():
    with tempfile.TemporaryDirectory() as d:
        hello = pathlib.Path(d) / "hello.tsr"
        hello.write_text("print('hello')\n")
        row("startup", *alternate([TESSERA, "run", hello], [PYTHON, "-c", "pass"], 20), "CPython")


def same_program(name):
    def measure():
        path = HERE / f"{name}.tsr"
        ours, theirs = seconds([TESSERA, "run", path])[1], seconds([PYTHON, path])[1]
        if ours != theirs:
            raise RuntimeError(f"{name}: {ours!r} is not {theirs!r}")
        row(name, *alternate([TESSERA, "run", path], [PYTHON, path], 3), "CPython")
    return measure


def front_end():
    """Checking 100,000 lines, beside CPython compiling them; both without the empty program's start-up."""
    unit = (HERE / "nbody.tsr").read_text().split("for _ in range")[0]
    functions = "\n".join(unit.replace("def advance", f"def advance{i}").replace("class Body", f"class Body{i}")
                          .replace("Body(", f"Body{i}(") for i in range(100_000 // unit.count("\n")))
    with tempfile.TemporaryDirectory() as d:
        path, empty = pathlib.Path(d) / "long.tsr", pathlib.Path(d) / "empty.tsr"
        path.write_text(functions)
        empty.write_text("")
        compile_it = "import sys; compile(open(sys.argv[1]).read(), 'long', 'exec')"
        ours, theirs = alternate([TESSERA, "check", path], [PYTHON, "-c", compile_it, path], 3)
        ours0, theirs0 = alternate([TESSERA, "check", empty], [PYTHON, "-c", compile_it, empty], 3)
    row("front-end", (ours - ours0) / functions.count("\n"), (theirs - theirs0) / functions.count("\n"), "CPython compile()",
        "s/line")


# One Tessera and one NumPy program a row: `setup`, and the statement that is timed; both print seconds for one round.
TENSOR = [
    ("tensor-add-1", "x = ones((1,))", "x = np.ones((1,), np.float32)", "x = x + 1.0", 20000),
    ("tensor-add-1M", "x = ones((1000000,)); y = ones((1000000,))", "x = np.ones(1000000, np.float32); y = x.copy()",
     "z = x + y", 100),
    ("tensor-exp-1M", "x = ones((1000000,))", "x = np.ones(1000000, np.float32)", ("z = exp(x)", "z = np.exp(x)"), 50),
    ("tensor-log-1M", "x = ones((1000000,)) * 1.5", "x = np.full(1000000, 1.5, np.float32)", ("z = log(x)", "z = np.log(x)"), 50),
    ("tensor-tanh-1M", "x = ones((1000000,)) * 1.5", "x = np.full(1000000, 1.5, np.float32)", ("z = tanh(x)", "z = np.tanh(x)"), 50),
    ("tensor-max-1M", "x = ones((1000000,))", "x = np.ones(1000000, np.float32)", "z = x.max()", 100),
    ("tensor-cumsum-1M", "x = ones((1000000,))", "x = np.ones(1000000, np.float32)", ("z = cumsum(x, axis=0)", "z = x.cumsum(0)"), 50),
    ("tensor-sort-1M", "x = sin(arange(1000000).to(f32))", "x = np.sin(np.arange(1000000, dtype=np.float32))",
     ("z = sort(x)", "z = np.sort(x, kind='stable')"), 5),
    ("tensor-gather-1M", "x = ones((1000000,)); y = arange(1000000)", "x = np.ones(1000000, np.float32); y = np.arange(1000000)",
     "z = x[y]", 50),
    ("tensor-normal-1M", "x = 0", "x = np.random.default_rng(0)",
     ("z = random.normal((1000000,))", "z = x.standard_normal(1000000, dtype=np.float32)"), 20),
    ("tensor-fft-1M", "x = ones((1048576,))", "x = np.ones(1048576, np.float32)", ("z = fft(x)", "z = np.fft.fft(x)"), 5),
    ("tensor-sum-1M", "x = ones((1000000,))", "x = np.ones(1000000, np.float32)", "z = x.sum()", 100),
    ("tensor-sum-rows", "x = ones((1000, 1000))", "x = np.ones((1000, 1000), np.float32)", "z = x.sum(axis=0)", 100),
    ("tensor-transpose", "x = ones((1000, 1000)); y = ones((1000, 1000))", "x = np.ones((1000, 1000), np.float32); y = x.copy()",
     "z = x.T + y", 50),
    ("matmul-64", "x = ones((64, 64))", "x = np.ones((64, 64), np.float32)", "z = x @ x", 2000),
    ("matmul-512", "x = ones((512, 512))", "x = np.ones((512, 512), np.float32)", "z = x @ x", 10),
    ("matmul-1024", "x = ones((1024, 1024))", "x = np.ones((1024, 1024), np.float32)", "z = x @ x", 3),
]


def loop(head, statement, n):
    return (f"import time\n{head}\ndef go(n, x, y):\n    for i in range(n):\n        {statement}\n"
            f"best = 1e9\ngo(2, x, y)\nfor k in range(5):\n    t = time.perf_counter()\n    go({n}, x, y)\n"
            f"    best = min(best, time.perf_counter() - t)\nprint(best / {n})\n")


def tensor_row(name, ours, theirs, statement, n):
    def measure():
        mine, yours = (statement, statement) if isinstance(statement, str) else statement
        with tempfile.TemporaryDirectory() as d:
            a, b = pathlib.Path(d) / "a.tsr", pathlib.Path(d) / "b.py"
            a.write_text(loop("y = None\n" + ours.replace("; ", "\n"), mine, n))
            b.write_text(loop("import numpy as np\ny = None\n" + theirs, yours, n))
            t = float(seconds([TESSERA, "run", a])[1])
            has_numpy = subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode == 0
            row(name, t, float(seconds([PYTHON, b])[1]) if has_numpy else None, "NumPy")
    return measure


ROWS = {"startup": startup, "front-end": front_end,
        **{n: same_program(n) for n in ("fib", "sieve", "nbody", "strings")},
        **{r[0]: tensor_row(*r) for r in TENSOR}}


def main(words):
    for name, measure in ROWS.items():
        if words and not any(w in name for w in words):
            continue
        try:
            measure()
        except Exception as e:
            print(json.dumps({"name": name, "error": str(e)}), flush=True)


main(sys.argv[1:])
