#!/usr/bin/env python3
"""Matrix products by two threads beside one: bench/threads.py [--rounds=N] [--threads=N]

Processes of one thread and of several take turns; each gives the least wall-clock time of many products of a size, and the least over all rounds
counts, so that short spells in which the machine is idle are enough.  One JSON object a line: {"name", "one_ms", "ms", "times"}.
The cores have to be there: with load on all of them `times` says nothing.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

TESSERA = pathlib.Path(__file__).resolve().parent.parent / "build/tessera"
CASES = [("f32", n) for n in (256, 512, 1024, 2048)] + [("f32", "512x3072x768"), ("f32", "1x4096x4096"), ("bf16", 1024), ("int8", 1024)]
PROGRAM = """
from time import perf_counter as now
def case(name, dt, m, n, k):
    a, b = random.randint(-3, 4, (m, k)).to(dt), random.randint(-3, 4, (k, n)).to(dt)
    least, end = 1e9, now() + 0.4
    while now() < end:
        t = now()
        c = a @ b
        least = min(least, now() - t)
    print(name, least * 1e3)
"""


def program():
    lines = [PROGRAM]
    for dtype, size in CASES:
        m, n, k = (int(s) for s in size.split("x")) if isinstance(size, str) else (size,) * 3
        lines.append(f"case('{dtype}-{m}x{n}x{k}', {dtype}, {m}, {n}, {k})\n")
    return "".join(lines)


def run(path, threads):
    env = dict(os.environ, TESSERA_THREADS=str(threads))
    out = subprocess.run([TESSERA, "run", path], env=env, capture_output=True, text=True, check=True).stdout
    return {name: float(ms) for name, ms in map(str.split, out.splitlines())}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    options = p.parse_args()
    best = {}
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "products.tsr"
        path.write_text(program())
        for _ in range(options.rounds):
            for threads in (1, options.threads):
                for name, ms in run(path, threads).items():
                    best[name, threads] = min(ms, best.get((name, threads), ms))
    for name in dict.fromkeys(name for name, _ in best):
        one, several = best[name, 1], best[name, options.threads]
        print(json.dumps({"name": name, "one_ms": round(one, 4), "ms": round(several, 4), "times": round(one / several, 3)}), flush=True)


main()
