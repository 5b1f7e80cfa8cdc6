#!/usr/bin/env python3
"""Matrix products against NumPy's and PyTorch's: bench/products.py [--python=PYTHON] [--threads=N] [WORD ...]

One JSON object a line: {"name", "gflops", "numpy", "torch", "ratio"}; the ratio is Tessera's speed over the best of the peers
that the given interpreter has (`python3 -m venv V && V/bin/pip install numpy torch`, then --python=V/bin/python).  All
count the processor time of their own process, with as many threads as asked for, and take turns, so a busy machine hurts them
alike.  bench/gemm.c has the ratio to the machine's peak.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESSERA = pathlib.Path(__file__).resolve().parent.parent / "build/tessera"

# m, n, k; of BATCHES their number first
SIZES = [(1024, 1024, 1024), (2048, 2048, 2048), (512, 3072, 768), (256, 256, 256), (1, 4096, 4096), (1025, 1023, 1025), (257, 255, 257),
         (511, 3073, 769), (128, 128, 128), (64, 64, 64), (100, 100, 100), (33, 47, 65), (4, 4096, 1024), (16, 1024, 1024), (1000, 10, 784),
         (1024, 1, 1024), (1024, 1024, 64), (64, 64, 4096)]
BATCHES = [(64, 256, 256, 32), (32, 64, 64, 64)]
LAYOUTS = {"nn": "a @ b", "nt": "a @ bt.T", "tn": "at.T @ b"}

MAKE = {"tessera": "def made(*s):\n    n = 1\n    for d in s: n *= d\n    return (arange(n).to(f32) * 0.37).sin().reshape(s)\n",
        "numpy": "import numpy as np\ndef made(*s): return np.sin(np.arange(np.prod(s)).astype(np.float32) * np.float32(0.37)).reshape(s)\n",
        "torch": "import torch\ntorch.set_num_threads(THREADS)\n"
                 "def made(*s): return torch.sin(torch.arange(int(np.prod(s)), dtype=torch.float32) * 0.37).reshape(s)\n"}


def rows():
    for m, n, k in SIZES:
        for layout, product in LAYOUTS.items():
            yield f"{m}x{n}x{k} {layout}", 2 * m * n * k, f"a, b, at, bt = made({m}, {k}), made({k}, {n}), made({k}, {m}), made({n}, {k})", product
    for batch, m, n, k in BATCHES:
        yield f"{batch} of {m}x{n}x{k}", 2 * batch * m * n * k, f"a, b = made({batch}, {m}, {k}), made({batch}, {k}, {n})", "a @ b"


def program(who, chosen, threads):
    text = "from time import process_time as now\n" + ("import numpy as np\n" if who == "torch" else "") + MAKE[who].replace("THREADS", str(threads))
    for i, (_, work, data, product) in enumerate(chosen):
        repeat = max(1, int(2e8 / work))
        text += (f"def f():\n    {data}\n    r = {product}\n    best = 1e9\n    for i in range(8):\n        t = now()\n"
                 f"        for j in range({repeat}): r = {product}\n        best = min(best, (now() - t) / {repeat})\n    print({i}, best)\nf()\n")
    return text


def main(argv):
    python = next((a[9:] for a in argv if a.startswith("--python=")), sys.executable)
    threads = int(next((a[10:] for a in argv if a.startswith("--threads=")), 1))
    words = [a for a in argv if not a.startswith("--")]
    chosen = [r for r in rows() if not words or any(w in r[0] for w in words)]
    env = dict(os.environ, **{v: str(threads) for v in ("TESSERA_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")})
    best = [{} for _ in chosen]
    with tempfile.TemporaryDirectory() as d:
        for turn in range(2):
            for who in MAKE:
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
                    best[int(i)][who] = min(best[int(i)].get(who, 1e9), float(t))
    for (name, work, _, _), t in zip(chosen, best):
        peers = [t[w] for w in ("numpy", "torch") if w in t]
        speed = {w: round(work / t[w] * 1e-9, 1) for w in ("numpy", "torch") if w in t}
        print(json.dumps({"name": name, "gflops": round(work / t["tessera"] * 1e-9, 1), **speed,
                          "ratio": round(min(peers) / t["tessera"], 2) if peers else None}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
