#!/usr/bin/env python3
"""Measure Tessera against CPython and NumPy in one run: ./dev bench [WORD ...]

Prints one JSON object a line: {"name", "tessera", "peer", "ratio", "unit", "peer_name"}; a ratio above 1 means that
Tessera is that many times faster than the peer.  Times are the best of several runs, taken alternately.  WORDs choose
rows by parts of their names: programs (fib, startup ...), families of tensor statements (small, f32, reduce ...; see
tensors.py) or statements ("exp(").  Both sides use the threads they like; TESSERA_THREADS and OPENBLAS_NUM_THREADS say else.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import check
import host
import tensors

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


def host_row(name):
    """One program of host.py: both time themselves and must agree on the result."""
    def measure():
        with tempfile.TemporaryDirectory() as d:
            path = pathlib.Path(d) / "program.tsr"
            path.write_text(host.source(name))
            best, results = [float("inf")] * 2, [None] * 2
            for _ in range(2):
                for i, argv in enumerate(([TESSERA, "run", path], [PYTHON, path])):
                    seconds_taken, _, results[i] = seconds(argv)[1].partition("\n")
                    best[i] = min(best[i], float(seconds_taken))
        if results[0] != results[1]:
            raise RuntimeError(f"{name}: {results[0]!r} is not {results[1]!r}")
        row(f"host-{name}", *best, "CPython")
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


def family(name, words):
    """A family of tensor statements (tensors.py) in one program for each side, the two taking turns."""
    rows = [(k, statement) for k, (_, statement) in enumerate(tensors.ROWS[name])
            if not words or any(w in name or w in statement for w in words)]
    with tempfile.TemporaryDirectory() as d:
        mine, theirs = pathlib.Path(d) / "a.tsr", pathlib.Path(d) / "b.py"
        mine.write_text(tensors.program(tensors.HEAD_TESSERA, rows))
        theirs.write_text(tensors.program(tensors.HEAD_NUMPY, rows))
        best = [{}, {}]
        for _ in range(2):
            for i, argv in enumerate(([TESSERA, "run", mine], [PYTHON, theirs])):
                for line in seconds(argv)[1].splitlines():
                    key, t = line.split()[:2]
                    if key != "#":
                        best[i][int(key)] = min(best[i].get(int(key), float("inf")), float(t))
        for k, statement in rows:
            if k in best[0]:
                row(f"{name}: {statement}", best[0][k], best[1].get(k), "NumPy")
            else:
                print(json.dumps({"name": f"{name}: {statement}", "error": "did not run"}), flush=True)


ROWS = {"startup": startup, "front-end": front_end, "check": check.main,
        **{n: same_program(n) for n in ("fib", "sieve", "nbody", "strings")},
        **{f"host-{n}": host_row(n) for n in host.PROGRAMS}}


def main(words):
    for name, measure in ROWS.items():
        if words and not any(w in name for w in words):
            continue
        try:
            measure()
        except Exception as e:
            print(json.dumps({"name": name, "error": str(e)}), flush=True)
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode:
        print(json.dumps({"name": "tensors", "error": f"{PYTHON} has no NumPy"}), flush=True)
        return
    for name, rows in tensors.ROWS.items():
        if not words or any(w in name or any(w in s for _, s in rows) for w in words):
            try:
                family(name, words)
            except Exception as e:
                print(json.dumps({"name": name, "error": str(e)}), flush=True)


main(sys.argv[1:])
