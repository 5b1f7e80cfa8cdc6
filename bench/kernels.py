#!/usr/bin/env python3
"""Kernels as programs write them, compiled, against the runtime's own operations and PyTorch: bench/kernels.py [--threads=N] [WORD ...]

One JSON object a line: {"name", "milliseconds", "per_second", "unit", "runtime", "ratio", "pytorch", "over_pytorch"}; runtime is what the
library's operation takes for the same work in the same process, taking turns, and ratio its time over the kernel's.  pytorch is what
PyTorch takes ($TESSERA_PYTHON's, else python3's; left out when it has none), in turns with the programs: of three rounds of each the best.  A call of a
kernel copies what it stores to, as tensors are values.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESSERA = pathlib.Path(__file__).resolve().parent.parent / "build/tessera"

KERNELS = """import time

@kernel.schedule(Schedule(block=(64, 64), block_k=32, warps=4, stages=2))
def gemm(A: Tensor["M", "K", f32], B: Tensor["K", "N", f32], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        a = tile.load(A[block_m:block_m+BM, k:k+BK])
        b = tile.load(B[k:k+BK, block_n:block_n+BN])
        acc = tile.dot(a, b, acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], acc)

@kernel
def saxpy(a: float, x: Tensor["N", f32], y: Tensor["N", f32]):
    i = tile.linear_id()
    if i < N:
        y[i] = a * x[i] + y[i]

@kernel
def gemm_naive(A: Tensor["M", "K", f32], B: Tensor["K", "N", f32], C: Tensor["M", "N", f32]):
    i = tile.linear_id()
    if i < M * N:
        acc = 0.0
        for k in range(K):
            acc += A[i // N, k] * B[k, i % N]
        C[i // N, i % N] = acc

@kernel
def gemm_tiled(A: Tensor["M", "K", f32], B: Tensor["K", "N", f32], C: Tensor["M", "N", f32]):
    TS = 16
    sa = tile.alloc_shared((16, 16), f32)
    sb = tile.alloc_shared((16, 17), f32)
    across = (N + TS - 1) // TS
    ty = tile.local_id() // TS
    tx = tile.local_id() % TS
    row = tile.group_id() // across * TS + ty
    col = tile.group_id() % across * TS + tx
    acc = 0.0
    for k0 in range(0, K, TS):
        sa[ty, tx] = A[row, k0 + tx] if row < M and k0 + tx < K else 0.0
        sb[ty, tx] = B[k0 + ty, col] if k0 + ty < K and col < N else 0.0
        tile.barrier()
        for k in range(TS):
            acc += sa[ty, k] * sb[k, tx]
        tile.barrier()
    if row < M and col < N:
        C[row, col] = acc

@kernel
def transpose(x: Tensor["M", "N", f32], y: Tensor["N", "M", f32]):
    s = tile.alloc_shared((32, 33), f32)
    across = (N + 31) // 32
    r0 = tile.group_id() // across * 32
    c0 = tile.group_id() % across * 32
    ty = tile.local_id() // 32
    tx = tile.local_id() % 32
    for r in range(0, 32, 8):
        if r0 + r + ty < M and c0 + tx < N:
            s[r + ty, tx] = x[r0 + r + ty, c0 + tx]
    tile.barrier()
    for r in range(0, 32, 8):
        if c0 + r + ty < N and r0 + tx < M:
            y[c0 + r + ty, r0 + tx] = s[tx, r + ty]

@kernel
def softmax_rows(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    row = tile.group_id()
    t = tile.local_id()
    m = -INF
    for c in range(t, N, 128):
        m = maximum(m, x[row, c])
    m = tile.block.reduce_max(m)
    s = 0.0
    for c in range(t, N, 128):
        s += exp(x[row, c] - m)
    s = tile.block.reduce_sum(s)
    for c in range(t, N, 128):
        y[row, c] = exp(x[row, c] - m) / s

"""

# name: work, its unit, data, the kernel's call, the runtime's way
ATTENTION = "q = made(8 * 2048, 64).reshape(1, 8, 2048, 64)\nk = made(8 * 2048, 64).reshape(1, 8, 2048, 64)\nv = k * 0.5"
ROWS = {
    "gemm blocks 512": (2 * 512 ** 3, "flop", "a = made(512, 512)\nb = made(512, 512)\nc = zeros((512, 512))", "gemm(a, b, c)", "a @ b"),
    "gemm blocks 1024": (2 * 1024 ** 3, "flop", "a = made(1024, 1024)\nb = made(1024, 1024)\nc = zeros((1024, 1024))", "gemm(a, b, c)", "a @ b"),
    "attention 1x8x2048x64": (4 * 8 * 2048 ** 2 * 64, "flop", ATTENTION, "r = flash_attention(q, k, v)", "softmax(q @ k.mT * 0.125, dim=-1) @ v"),
    "attention causal 1x8x2048x64": (2 * 8 * 2048 ** 2 * 64, "flop", ATTENTION, "r = flash_attention(q, k, v, causal=True)",
                                     "softmax(q @ k.mT * 0.125, dim=-1) @ v"),
    "gemm one element a lane 512": (2 * 512 ** 3, "flop", "a = made(512, 512)\nb = made(512, 512)\nc = zeros((512, 512))", "gemm_naive(a, b, c)",
                                    "a @ b"),
    "gemm shared 512": (2 * 512 ** 3, "flop", "a = made(512, 512)\nb = made(512, 512)\nc = zeros((512, 512))",
                        "gemm_tiled.launch(grid=(1024,), block=(256,))(a, b, c)", "a @ b"),
    "saxpy 4M": (12 << 22, "byte", "a = made(1 << 22, 1).reshape(1 << 22)\nc = zeros((1 << 22,))", "saxpy(2.0, a, c)", "a * 2.0 + c"),
    "transpose 2048": (8 << 22, "byte", "a = made(2048, 2048)\nc = zeros((2048, 2048))", "transpose.launch(grid=(4096,), block=(256,))(a, c)",
                       "a.T.contiguous()"),
    "softmax 2048": (8 << 22, "byte", "a = made(2048, 2048)\nc = zeros((2048, 2048))", "softmax_rows.launch(grid=(2048,), block=(128,))(a, c)",
                     "softmax(a, dim=-1)"),
}

# What PyTorch does for the same work, given q, k, v, a, b.
TORCH = {"attention 1x8x2048x64": "F.scaled_dot_product_attention(q, k, v)", "attention causal 1x8x2048x64": "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
         "gemm blocks 512": "a[:512, :512] @ b[:512, :512]", "gemm blocks 1024": "a @ b", "softmax 2048": "F.softmax(c, dim=-1)"}
PYTORCH = """import sys, time, torch
import torch.nn.functional as F
torch.set_num_threads(int(sys.argv[1]))
q, k, v, a, b, c = [torch.randn(s) for s in ((1, 8, 2048, 64),) * 3 + ((1024, 1024),) * 2 + ((2048, 2048),)]
best = 1e9
for _ in range(9):
    t = time.perf_counter()
    %s
    best = min(best, time.perf_counter() - t)
print(best)
"""


def pytorch(name, threads):
    """Seconds; None when there is no PyTorch, or nothing to compare with."""
    if name not in TORCH:
        return None
    ran = subprocess.run([os.environ.get("TESSERA_PYTHON", "python3"), "-c", PYTORCH % TORCH[name], threads], capture_output=True, text=True)
    return float(ran.stdout) if ran.returncode == 0 else None


def program(names):
    text = KERNELS + "def made(m: int, n: int):\n    return (arange(m * n).to(f32) * 0.37).sin().reshape(m, n)\n"
    for i, name in enumerate(names):
        _, _, data, kernel, runtime = ROWS[name]
        data = "\n".join("    " + line for line in data.splitlines())
        text += (f"def f{i}():\n{data}\n    own = 1e9\n    its = 1e9\n    for _ in range(9):\n        t = time.perf_counter()\n        {kernel}\n"
                 f"        own = min(own, time.perf_counter() - t)\n        t = time.perf_counter()\n        r = {runtime}\n        r.flatten()[0].item()\n"
                 f"        its = min(its, time.perf_counter() - t)\n    print({i}, own, its)\nf{i}()\n")
    return text


def main():
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    threads = next((a.split("=")[1] for a in sys.argv if a.startswith("--threads=")), None)
    names = [n for n in ROWS if not words or any(w in n for w in words)]
    env = dict(os.environ, **({"TESSERA_THREADS": threads} if threads else {}))
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "kernels.tsr"
        path.write_text(program(names))
        env = dict(env, TESSERA_CACHE=d)
        best = {}
        for _ in range(3):
            ran = subprocess.run([TESSERA, "run", "--backend=cpu", path], capture_output=True, text=True, env=env)
            if ran.returncode:
                sys.exit(ran.stderr)
            for i, own, its in map(str.split, ran.stdout.splitlines()):
                theirs = pytorch(names[int(i)], threads or str(os.cpu_count()))
                was = best.get(names[int(i)], (1e9, 1e9, None))
                best[names[int(i)]] = (min(was[0], float(own)), min(was[1], float(its)), theirs and min(theirs, was[2] or theirs))
    for name, (own, its, theirs) in best.items():
        row = {"name": name, "milliseconds": round(1e3 * own, 3), "per_second": f"{ROWS[name][0] / own:.3g}", "unit": ROWS[name][1],
               "runtime": round(1e3 * its, 3), "ratio": round(its / own, 3)}
        print(json.dumps(row | ({"pytorch": round(1e3 * theirs, 3), "over_pytorch": round(theirs / own, 3)} if theirs else {})))


if __name__ == "__main__":
    main()
