#!/usr/bin/env python3
"""Chains, softmax, norms and sums of 4096 x 4096 f32 against a copy, PyTorch and JAX: bench/rows.py [--python=PYTHON] [--rounds=N] [WORD ...]

One JSON object a line: {"name", "ms", "torch", "jax", "over_copy", "ratio"}.  over_copy is the time over that of x + 0.0 for as
many bytes; ratio is Tessera's speed over the better peer's that the interpreter has.  One thread, processor time, medians, processes in turns.
Peers take new memory for each result, whose pages the system clears first; Tessera takes what it had.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESSERA = pathlib.Path(__file__).resolve().parent.parent / "build/tessera"

# name: matrices that are read and written, what Tessera, PyTorch and JAX compute
ROWS = {
    "copy": (2, "x + 0.0", "x + 0.0", "x + 0.0"),
    "chain": (3, "gelu(x * 1.5 + y) * y", "F.gelu(x * 1.5 + y) * y", "jax.nn.gelu(x * 1.5 + y, approximate=False) * y"),
    "products": (3, *("(x * 1.5 + y) * y - 2.0",) * 3),
    "softmax": (2, "softmax(x, -1)", "torch.softmax(x, -1)", "jax.nn.softmax(x, -1)"),
    "softmax of columns": (2, "softmax(x, 0)", "torch.softmax(x, 0)", "jax.nn.softmax(x, 0)"),
    "layer norm": (2, "layer_norm(x)", "F.layer_norm(x, (4096,))", "(x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)"),
    "RMS norm": (2, "x * rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)", "F.rms_norm(x, (4096,))",
                 "x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)"),
    "sum of rows": (1, *("x.sum(-1)",) * 3),
    "sum of columns": (1, *("x.sum(0)",) * 3),
    "sum": (1, *("x.sum()",) * 3),
}
HEAD = {
    "tessera": "x, y = random.normal((4096, 4096)), random.normal((4096, 4096))\ndef made(f): return jit(f, compile_mode='optimize')\n"
               "def wait(r): r.flatten()[0].item()\n",
    "torch": "import torch, torch.nn.functional as F\ntorch.set_num_threads(1)\nx, y = torch.randn(4096, 4096), torch.randn(4096, 4096)\n"
             "def made(f): return f\ndef wait(r): pass\n",
    "jax": "import jax\nx, y = (jax.random.normal(jax.random.key(i), (4096, 4096)) for i in (0, 1))\ndef made(f): return jax.jit(f)\n"
           "def wait(r): r.block_until_ready()\n",
}
MEASURE = """from time import process_time as now
def measure(name, f):
    g, times = made(f), []
    wait(g(x, y))
    for i in range(9):
        t = now()
        wait(g(x, y))
        times.append(now() - t)
    times.sort()
    print(name, times[4])
"""


def measure(who, names, python, best):
    """One process of a contestant: its medians join those of each row."""
    column = 1 + list(HEAD).index(who)
    text = HEAD[who] + MEASURE + "".join(f"measure({i}, lambda x, y: {ROWS[n][column]})\n" for i, n in enumerate(names))
    one = {v: "1" for v in ("TESSERA_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", **one)
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / f"of_{who}{'.tsr' if who == 'tessera' else '.py'}"
        path.write_text(text)
        p = subprocess.run([str(TESSERA), "run", path] if who == "tessera" else [python, path], capture_output=True, text=True, env=env)
    if p.returncode:
        print(json.dumps({"peer": who, "error": p.stderr.strip()[-200:]}), flush=True)
    for line in p.stdout.splitlines():
        i, t = line.split()
        row = best[names[int(i)]]
        row[who] = min(row.get(who, 1e9), float(t) * 1e3)


def main(argv):
    python = next((a[9:] for a in argv if a.startswith("--python=")), sys.executable)
    rounds = int(next((a[9:] for a in argv if a.startswith("--rounds=")), 2))
    words = [a for a in argv if not a.startswith("--")]
    names = [n for n in ROWS if n == "copy" or not words or any(w in n for w in words)]
    best = {n: {} for n in names}
    for _ in range(rounds):
        for who in HEAD:
            measure(who, names, python, best)
    each = best["copy"]["tessera"] / 2
    for name, t in best.items():
        peers = {w: t[w] for w in ("torch", "jax") if w in t}
        print(json.dumps({"name": name, "ms": round(t["tessera"], 2), **{w: round(v, 2) for w, v in peers.items()},
                          "over_copy": round(t["tessera"] / each / ROWS[name][0], 2),
                          "ratio": round(min(peers.values()) / t["tessera"], 2) if peers else None}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
