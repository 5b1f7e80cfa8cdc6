#!/usr/bin/env python3
"""What a guided search finds against the best of all configs, on five kernels: bench/tuner.py [WORD ...]

One JSON object a line: {"kernel", "configs", "trials", "part", "found", "best", "over_best", "second_process"}. part is trials over configs (at most 0.25 asked),
found and best are milliseconds of the config that strategy="model" chose and of the fastest of all, each the median of processor times in rounds
over all configs (over_best at most 1.05 asked); second_process counts the trials of another process with the same records (0 asked).
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TESSERA = pathlib.Path(__file__).resolve().parent.parent / "build/tessera"
ROUNDS = 7

MADE = """import sys, time
def made(m: int, n: int):
    return (arange(m * n).to(f32) * 0.37).sin().reshape(m, n)
"""

# name: (space, the kernel's text, arguments)
KERNELS = {
    "gemm": ("dict(BM=[16, 32, 64, 128], BN=[16, 32, 64, 128], BK=[16, 32, 64])", """
def KERNEL(A: Tensor["M", "K", f32], B: Tensor["K", "N", f32], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK]), tile.load(B[k:k+BK, block_n:block_n+BN]), acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], acc)
""", "made(256, 256), made(256, 256), zeros((256, 256))"),
    "gemm_bias_relu": ("dict(BM=[8, 16, 32, 64], BN=[16, 32, 64, 128], BK=[16, 32, 128])", """
def KERNEL(A: Tensor["M", "K", bf16], B: Tensor["K", "N", bf16], bias: Tensor["N", f32], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK]), tile.load(B[k:k+BK, block_n:block_n+BN]), acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], maximum(acc + tile.load(bias[block_n:block_n+BN])[None, :], 0.0))
""", "made(96, 512).to(bf16), made(512, 256).to(bf16), made(1, 256).reshape(256), zeros((96, 256))"),
    "attention": ("dict(BM=[8, 16, 32, 64, 128], BN=[8, 16, 32, 64, 128], warps=[2, 4])", """
def KERNEL(Q: Tensor["S", "D", f32], K: Tensor["T", "D", f32], V: Tensor["T", "D", f32], O: Tensor["S", "D", f32]):
    q = tile.load(Q[block_m:block_m+BM, 0:D])
    top, sums, acc = tile.full((BM, 1), -INF, f32), tile.zeros((BM, 1), f32), tile.zeros((BM, D), f32)
    for j in range(0, T, BN):
        s = tile.dot(q, tile.transpose(tile.load(K[j:j+BN, 0:D])))
        now = maximum(top, s.max(dim=1, keepdim=True))
        p = exp(s - now)
        kept = exp(top - now)
        sums = sums * kept + p.sum(dim=1, keepdim=True)
        acc = tile.dot(p, tile.load(V[j:j+BN, 0:D]), acc * kept)
        top = now
    tile.store(O[block_m:block_m+BM, 0:D], acc / sums)
""", "made(512, 64), made(512, 64), made(512, 64), zeros((512, 64))"),
    "gelu": ("dict(BM=[1, 2, 4, 8, 16, 32], BN=[16, 32, 64, 128, 256, 512])", """
def KERNEL(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    v = tile.load(x[block_m:block_m+BM, block_n:block_n+BN])
    tile.store(y[block_m:block_m+BM, block_n:block_n+BN], v * 0.5 * (1.0 + erf(v * 0.70710678)))
""", "made(384, 512), zeros((384, 512))"),
    "turned": ("dict(BM=[4, 8, 16, 32, 64, 128], BN=[4, 8, 16, 32, 64, 128])", """
def KERNEL(x: Tensor["N", "M", f32], y: Tensor["M", "N", f32]):
    tile.store(y[block_m:block_m+BM, block_n:block_n+BN], tile.transpose(tile.load(x[block_n:block_n+BN, block_m:block_m+BM])))
""", "made(384, 384), zeros((384, 384))"),
}

ALL = """
@kernel
{text}
configs = SearchSpace({space}).configs()
times = [[] for _ in configs]
args = ({args},)
for r in range({rounds}):
    for i, c in enumerate(configs):
        f = {name}.with_schedule(c)
        if r == 0:
            f(*args)
        start, runs = time.process_time(), 0
        while runs < 2 or (runs < 20 and time.process_time() - start < 0.004):
            f(*args)
            runs += 1
        times[i].append((time.process_time() - start) / runs)
for c, t in zip(configs, times):
    print(repr(c.fields()) + "\\t" + repr(sorted(t)[len(t) // 2]))
"""

TUNED = """
@kernel.autotune(space={space}, strategy="model", budget_ms=1e6, cache=sys.argv[1])
{text}
args = ({args},)
{name}(*args)
"""


def run(d, text, *more, args=()):
    path = pathlib.Path(d) / "program.tsr"
    path.write_text(MADE + text)
    p = subprocess.run([TESSERA, "run", "--backend=cpu", *more, path, *args], capture_output=True, text=True,
                       env=dict(os.environ, TESSERA_THREADS="1", TESSERA_CACHE=d))
    if p.returncode:
        sys.exit(p.stderr)
    return p


def main():
    words = sys.argv[1:]
    for name, (space, text, args) in KERNELS.items():
        if words and not any(w in name for w in words):
            continue
        filled = dict(name=name, space=space, text=text.replace("KERNEL", name).strip(), args=args, rounds=ROUNDS)
        with tempfile.TemporaryDirectory() as d:
            tuned = [run(d, TUNED.format(**filled), "--autotune-trace", args=(f"{d}/records",)).stderr for _ in range(2)]
            times = dict(line.split("\t") for line in run(d, ALL.format(**filled)).stdout.splitlines())
        chosen = re.search(r"^best: (\{.*?\}) ", tuned[0], re.M)[1]
        trials = [len(re.findall(r": trial \d+ ", t)) for t in tuned]
        found, best = 1e3 * float(times[chosen]), 1e3 * min(map(float, times.values()))
        print(json.dumps({"kernel": name, "configs": len(times), "trials": trials[0], "part": round(trials[0] / len(times), 3), "found": round(found, 4),
                          "best": round(best, 4), "over_best": round(found / best, 3), "second_process": trials[1]}), flush=True)


if __name__ == "__main__":
    main()
