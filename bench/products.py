#!/usr/bin/env python3
"""Matrix products against NumPy's, PyTorch's and JAX's: bench/products.py [--python=PYTHON] [--threads=N] [--rounds=N] [WORD ...]

One JSON object a line: {"name", "gflops", "numpy", "torch", "jax", "ratio"}; the ratio is Tessera's speed over the best of the peers
that the given interpreter has (`python3 -m venv V && V/bin/pip install numpy torch jax`, then --python=V/bin/python).  With one
thread all count the processor time of their own process, with more what a clock says; they take turns, so a busy machine hurts them
alike, and medians count, as clocks of lent machines leap.  A last line has the geometric mean of the ratios and the least.  bench/gemm.c has the ratio to the machine's peak.
A WORD is a part of the names of the rows that are wanted; MxNxK or BATCHxMxNxK is a row of its own.
"""
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

TESSERA = pathlib.Path(__file__).resolve().parent.parent / "build/tessera"

# m, n, k; of BATCHES their number first
SIZES = [(1024, 1024, 1024), (2048, 2048, 2048), (512, 3072, 768), (256, 256, 256), (1, 4096, 4096), (1025, 1023, 1025), (257, 255, 257),
         (511, 3073, 769), (128, 128, 128), (64, 64, 64), (32, 32, 32), (16, 16, 16), (100, 100, 100), (33, 47, 65), (4, 4096, 1024),
         (16, 1024, 1024), (1000, 10, 784), (1024, 1, 1024), (1024, 1024, 1), (1024, 1024, 64), (64, 64, 4096)]
BATCHES = [(64, 256, 256, 32), (64, 256, 32, 256), (32, 64, 64, 64), (256, 16, 16, 16)]
LAYOUTS = {"nn": "a @ b", "nt": "a @ bt.T", "tn": "at.T @ b"}

MAKE = {"tessera": "def made(*s):\n    n = 1\n    for d in s: n *= d\n    return (arange(n).to(f32) * 0.37).sin().reshape(s)\n",
        "numpy": "import numpy as np\ndef made(*s): return np.sin(np.arange(np.prod(s)).astype(np.float32) * np.float32(0.37)).reshape(s)\n",
        "torch": "import numpy as np, torch\ntorch.set_num_threads(THREADS)\n"
                 "def made(*s): return torch.sin(torch.arange(int(np.prod(s)), dtype=torch.float32) * 0.37).reshape(s)\n",
        "jax": "import numpy as np, jax, jax.numpy as jnp\n"
               "def made(*s): return jnp.sin(jnp.arange(int(np.prod(s)), dtype=jnp.float32) * 0.37).reshape(s)\n"}
PEERS = ["numpy", "torch", "jax"]


def rows(words):
    more = [tuple(map(int, w.split("x"))) for w in words if re.fullmatch(r"\d+(x\d+){2,3}", w)]
    for m, n, k in SIZES + [s for s in more if len(s) == 3 and s not in SIZES]:
        for layout, product in LAYOUTS.items():
            yield f"{m}x{n}x{k} {layout}", 2 * m * n * k, f"a, b, at, bt = made({m}, {k}), made({k}, {n}), made({k}, {m}), made({n}, {k})", product
    for batch, m, n, k in BATCHES + [s for s in more if len(s) == 4 and s not in BATCHES]:
        yield f"{batch}x{m}x{n}x{k}", 2 * batch * m * n * k, f"a, b = made({batch}, {m}, {k}), made({batch}, {k}, {n})", "a @ b"


def program(who, chosen, threads):
    """Prints the number of each row and the seconds of one product, for rounds of about 4 ms. JAX has each in a jit of its own."""
    text = f"from time import {'process_time' if threads == 1 else 'perf_counter'} as now\n" + MAKE[who].replace("THREADS", str(threads))
    for i, (_, work, data, product) in enumerate(chosen):
        made, call, wait = "", product, ""
        if who == "jax":
            made, call, wait = f"f = jax.jit(lambda a, b, at, bt: {product})", "f(a, b, at, bt)", ".block_until_ready()"
        text += (f"def row{i}():\n    at = bt = None\n    {data}\n    {made or 'pass'}\n    r = {call}{wait}\n    n = 1\n"
                 f"    for i in range(16):\n        t = now()\n        for j in range(n): r = {call}{wait}\n        t = now() - t\n"
                 f"        if i >= 4: print({i}, t / n)\n        n = max(n, min(n * 20, int(n * 4e-3 / (t + 1e-9))))\nrow{i}()\n")
    return text


def measure(who, chosen, python, threads, times):
    """One process of a contestant: its times join those of each row."""
    one = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'} intra_op_parallelism_threads={threads}"
    env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=one)
    env.update({v: str(threads) for v in ("TESSERA_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")})
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / f"of_{who}{'.tsr' if who == 'tessera' else '.py'}"
        path.write_text(program(who, chosen, threads))
        command = [TESSERA, "run", path] if who == "tessera" else [python, path]
        p = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env)
    if p.returncode and who == "tessera":
        raise RuntimeError(p.stderr[-500:])
    if p.returncode:
        print(json.dumps({"peer": who, "error": p.stderr.strip()[-200:]}), flush=True)
    for line in p.stdout.splitlines():
        i, t = line.split()
        times[int(i)].setdefault(who, []).append(float(t))


def main(argv):
    python = next((a[9:] for a in argv if a.startswith("--python=")), sys.executable)
    threads = int(next((a[10:] for a in argv if a.startswith("--threads=")), 1))
    rounds = int(next((a[9:] for a in argv if a.startswith("--rounds=")), 3))
    words = [a for a in argv if not a.startswith("--")]
    chosen = [r for r in rows(words) if not words or any(w in r[0] for w in words)]
    times = [{} for _ in chosen]
    ratios = []
    for _ in range(rounds):
        for who in MAKE:
            measure(who, chosen, python, threads, times)
    for (name, work, _, _), taken in zip(chosen, times):
        t = {who: statistics.median(x) for who, x in taken.items()}
        speed = {w: round(work / t[w] * 1e-9, 1) for w in PEERS if w in t}
        ratio = min(t[w] for w in speed) / t["tessera"] if speed else None
        ratios += [ratio] if ratio else []
        print(json.dumps({"name": name, "gflops": round(work / t["tessera"] * 1e-9, 1), **speed, "ratio": ratio and round(ratio, 2)}))
    if ratios:
        print(json.dumps({"name": "all", "mean": round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 3), "least": round(min(ratios), 3)}))


if __name__ == "__main__":
    main(sys.argv[1:])
