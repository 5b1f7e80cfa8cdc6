#!/usr/bin/env python3
"""What a guided search finds against the best of all configs, on eleven kernels: bench/tuner.py [WORD ...]

One JSON object a line: {"kernel", "configs", "trials", "part", "found", "best", "over_best", "second_process"}. part is trials over configs (at most 0.25 asked),
found and best are milliseconds of the config that strategy="model" chose and of the fastest of all (over_best at most 1.05 asked): all configs are measured in
rounds, then the one that was chosen and the fastest three once more in turn, since of so many the least median is partly luck; medians of processor times. second_process counts the trials of another process with the same records (0 asked).
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
    "softmax": ("dict(BM=[1, 2, 4, 8, 16, 32], BN=[16, 32, 64, 128, 256, 512])", """
def KERNEL(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    top, sums = tile.full((BM, 1), -INF, f32), tile.zeros((BM, 1), f32)
    for j in range(0, N, BN):
        v = tile.load(x[block_m:block_m+BM, j:j+BN])
        if j + BN > N:
            v = where((arange(BN) + j < N)[None, :], v, -INF)
        now = maximum(top, v.max(dim=1, keepdim=True))
        sums = sums * exp(top - now) + exp(v - now).sum(dim=1, keepdim=True)
        top = now
    for j in range(0, N, BN):
        tile.store(y[block_m:block_m+BM, j:j+BN], exp(tile.load(x[block_m:block_m+BM, j:j+BN]) - top) / sums)
""", "made(300, 700), zeros((300, 700))"),
    "colsum": ("dict(BM=[4, 8, 16, 32, 64, 128], BN=[8, 16, 32, 64, 128, 256])", """
def KERNEL(x: Tensor["M", "N", f32], y: Tensor["N", f32]):
    acc = tile.zeros((BN,), f32)
    for i in range(0, M, BM):
        acc = acc + tile.load(x[i:i+BM, block_n:block_n+BN]).sum(dim=0)
    tile.store(y[block_n:block_n+BN], acc)
""", "made(500, 600), zeros(600)"),
    "int8gemm": ("dict(BM=[16, 32, 64, 128], BN=[16, 32, 64, 128], BK=[32, 64, 128])", """
def KERNEL(A: Tensor["M", "K", int8], B: Tensor["K", "N", int8], s: Tensor["N", f32], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), int32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK]), tile.load(B[k:k+BK, block_n:block_n+BN]), acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], tile.cast(acc, f32) * tile.load(s[block_n:block_n+BN])[None, :])
""", "(made(200, 300) * 100).to(int8), (made(300, 260) * 100).to(int8), made(1, 260).reshape(260), zeros((200, 260))"),
    "ntgemm": ("dict(BM=[8, 16, 32, 64], BN=[16, 32, 64, 128], BK=[16, 64, 256], warps=[2, 4])", """
def KERNEL(A: Tensor["M", "K", f32], B: Tensor["N", "K", f32], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK]), tile.load(B[block_n:block_n+BN, k:k+BK]).T, acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], acc)
""", "made(64, 768), made(300, 768), zeros((64, 300))"),
    "stencil": ("dict(BM=[2, 4, 8, 16, 32, 64], BN=[8, 16, 32, 64, 128, 256])", """
def KERNEL(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    c = tile.load(x[block_m:block_m+BM, block_n:block_n+BN])
    u = tile.load(x[block_m-1:block_m-1+BM, block_n:block_n+BN])
    d = tile.load(x[block_m+1:block_m+1+BM, block_n:block_n+BN])
    l = tile.load(x[block_m:block_m+BM, block_n-1:block_n-1+BN])
    r = tile.load(x[block_m:block_m+BM, block_n+1:block_n+1+BN])
    tile.store(y[block_m:block_m+BM, block_n:block_n+BN], c + 0.1 * (u + d + l + r - 4.0 * c))
""", "made(400, 500), zeros((400, 500))"),
    "layernorm": ("dict(BM=[1, 2, 4, 8, 16, 32, 64], warps=[1, 2, 4, 8])", """
def KERNEL(x: Tensor["M", "N", bf16], w: Tensor["N", f32], y: Tensor["M", "N", bf16]):
    v = tile.cast(tile.load(x[block_m:block_m+BM, 0:N]), f32)
    m = v.mean(dim=1, keepdim=True)
    c = v - m
    s = tile.rsqrt((c * c).mean(dim=1, keepdim=True) + 1e-5)
    tile.store(y[block_m:block_m+BM, 0:N], tile.cast(c * s * tile.load(w[0:N])[None, :], bf16))
""", "made(512, 384).to(bf16), made(1, 384).reshape(384), zeros((512, 384), bf16)"),
}

ALL = """
@kernel
{text}
configs = SearchSpace({space}).configs()
args = ({args},)

def took(c):
    f = {name}.with_schedule(c)
    start, runs = time.process_time(), 0
    while runs < 2 or (runs < 20 and time.process_time() - start < 0.004):
        f(*args)
        runs += 1
    return 1e3 * (time.process_time() - start) / runs

def medians(some, rounds):
    times = [[took(c) for c in some] for _ in range(rounds)]
    return [sorted(t)[rounds // 2] for t in zip(*times)]

for c in configs:
    {name}.with_schedule(c)(*args)
chosen = [i for i, c in enumerate(configs) if repr(c.fields()) == sys.argv[1]][0]
first = medians(configs, {rounds})
fastest = [i for _, i in sorted([(t, i) for i, t in enumerate(first)])[:3]]
again = medians([configs[i] for i in [chosen] + fastest], 4 * {rounds})
print(len(configs), again[0], min(again))
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
            chosen = re.search(r"^best: (\{.*?\}) ", tuned[0], re.M)[1]
            configs, found, best = map(float, run(d, ALL.format(**filled), args=(chosen,)).stdout.split())
        trials = [len(re.findall(r": trial \d+ ", t)) for t in tuned]
        print(json.dumps({"kernel": name, "configs": int(configs), "trials": trials[0], "part": round(trials[0] / configs, 3), "found": round(found, 4),
                          "best": round(best, 4), "over_best": round(found / best, 3), "second_process": trials[1]}), flush=True)


if __name__ == "__main__":
    main()
