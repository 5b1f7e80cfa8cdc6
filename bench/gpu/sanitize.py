#!/usr/bin/env python3
"""compute-sanitizer over families of kernels: sanitize.py TESSERA [TOOL ...] (racecheck, synccheck, memcheck unless told).

Each tool first runs a program with a fault that it must find, then one small program of each family, which must be clean. Prints a JSON line for each tool, with the families that were not clean and what was said of them; exit code 1 when there is one,
or the planted fault was not found. Kernels are made before, by a run without the tool."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

RACE = """@kernel
def backwards(x: Tensor["N", f32], y: Tensor["N", f32]):
    s = tile.alloc_shared((256,), f32)
    i = tile.local_id()
    s[i] = x[i]
    y[i] = s[255 - i]
x, y = arange(256).to(f32), zeros(256)
backwards.launch(grid=(1,), block=(256,))(x, y)
print(y.sum().item())
"""
CUDA = """__global__ void k(float *y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = t;
    if (PLANT == 1) { if (t < 100) __syncthreads(); } else y[1 << 20] = t;
    y[t] = s[255 - t];
}
int main() { float *y; cudaMalloc(&y, 1024); k<<<1, 256>>>(y); return cudaDeviceSynchronize(); }
"""
CUDA_PLANTS = {"synccheck": 1, "memcheck": 2}        # what Tessera refuses to run, nvcc makes
MATRICES = "random.seed(1)\nx, w = random.normal((256, 192)).to(bf16), random.normal((192, 256)).to(bf16)\n"
FAMILIES = {
    "rows": "x = random.normal((70, 3000))\nprint(jit(lambda x: softmax(x, axis=-1))(x).sum().item(), jit(lambda x: (x - x.mean(axis=-1, keepdims=True)).sum(axis=0))(x)[3].item())",
    "rows in pieces": "x = random.normal((20, 20000)).to(bf16)\nprint(jit(lambda x: softmax(x, axis=-1))(x)[3, 5].item())",
    "columns, totals": "x = random.normal((3000, 200))\nprint(jit(lambda x: exp(x).sum(axis=0))(x)[3].item(), x.sum().item(), x.max(axis=0)[7].item(), argmax(x).item())",
    "turned": "x = random.normal((300, 500))\nprint((x.T + 1).reshape(-1)[7].item(), jit(lambda x: x.T * 2)(x)[3, 4].item())",
    "products by threads": "x, w = random.normal((130, 70)), random.normal((70, 90))\nprint(jit(lambda x, w: gelu(x @ w))(x, w)[3, 4].item())",
    "products by warpgroups": MATRICES + "print((x @ w)[3, 4].item(), (w.T @ x.T)[3, 4].item(), jit(lambda x, w: relu(x @ w))(x, w)[5, 6].item())",
    "ragged products": "x, w = random.normal((100, 75)).to(bf16), random.normal((75, 90)).to(bf16)\nprint((x @ w)[3, 4].item())",
    "products in parts": "x, w = random.normal((64, 16384)).to(bf16), random.normal((16384, 64)).to(bf16)\nprint((x @ w)[3, 4].item())",
    "products of few rows": "x, w = random.normal((4, 1024)).to(bf16), random.normal((1024, 512)).to(bf16)\nprint((x @ w)[3, 4].item(), (x[:1] @ w)[0, 4].item())",
    "products of fp8": "x, w = random.normal((256, 256)).to(fp8_e4m3), random.normal((256, 256)).to(fp8_e4m3)\nprint(matmul(x, w.T)[3, 4].item())",
    "products of f32, f64, tf32, int8": "x, w = random.normal((300, 260)), random.normal((260, 320))\nprint((x @ w)[3, 4].item(), (x[:, 1:] @ w[1:])[5, 6].item(), (x.to(f64) @ w.to(f64))[3, 4].item(), jit(lambda x, w: x @ w, compile_mode=\"fast\")(x, w)[3, 4].item(), ((x * 9).to(int8) @ (w * 9).to(int8))[3, 4].item())",
    "batches of products": "x, w = random.normal((8, 128, 96)).to(bf16), random.normal((8, 96, 128)).to(bf16)\nprint((x @ w)[3, 4, 5].item(), (x.to(f32) @ w.to(f32))[7, 5, 4].item())",
    "rows in passes": "x, w = random.normal((300, 1000)).to(bf16), random.normal((1000,)).to(bf16)\nprint(jit(lambda x, w: rms_norm(x, w))(x, w)[3, 4].item(), jit(lambda x: softmax(x, axis=-1))(random.normal((70, 4104)))[5, 6].item())",
    "long rows that stay": "x = random.normal((9, 20008))\nwith tessera.fast_math():\n    print(jit(lambda x: softmax(x, axis=-1))(x)[3, 4].item(), jit(lambda x: softmax(x, axis=-1))(x.to(bf16))[3, 4].item(), jit(lambda x: rms_norm(x))(x)[5, 6].item())",
    "rows that come": "x, w = random.normal((2300, 4096)).to(bf16), random.normal((4096,)).to(bf16)\nprint(jit(lambda x: softmax(x, axis=-1))(x)[3, 4].item(), jit(lambda x, w: layer_norm(x, w, w))(x, w)[2299, 6].item())",
    "long rows that come": "x, w = random.normal((250, 20008)).to(bf16), random.normal((20008,)).to(bf16)\nprint(jit(lambda x: softmax(x, axis=-1))(x)[3, 4].item(), jit(lambda x, w: rms_norm(x, w))(x, w)[5, 6].item())",
    "products in groups": "from tessera.stdlib import ragged_dot\nx, w = random.normal((300, 96)).to(bf16), random.normal((3, 96, 80)).to(bf16)\nprint(ragged_dot(x, w, tensor([100, 0, 200], dtype=int32))[3, 4].item(), grad(lambda w: ragged_dot(x, w, tensor([100, 0, 200], dtype=int32)).to(f32).sum())(w)[2, 3, 4].item())",
    "atomics": "@kernel\ndef count(x: Tensor[\"N\", int32], h: Tensor[16, int32], last: Tensor[\"N\", int32]):\n    i = tile.group_id() * 256 + tile.local_id()\n    if i < N:\n        last[i] = tile.atomic_add(h, x[i], 1)\nx, h, last = random.randint(0, 16, (1000,)), zeros(16, dtype=int32), zeros(1000, dtype=int32)\ncount.launch(grid=4, block=256)(x, h, last)\nprint(h.sum().item())",
    "norms backward": "x, w, b = random.normal((300, 768)).to(bf16), random.normal((768,)).to(bf16), random.normal((768,)).to(bf16)\nd = grad(lambda w, b: (layer_norm(x, w, b) * x).to(f32).sum(), argnums=(0, 1))\nprint(jit(d)(w, b)[0][3].item())",
    "loss": "x, y = random.normal((64, 3001)).to(bf16), random.randint(0, 3001, (64,))\nprint(jit(grad(lambda x: cross_entropy(x, y).to(f32)))(x)[3, 4].item())",
    "copies ahead": "@kernel\ndef row_sums(x: Tensor[\"M\", \"N\", f32], y: Tensor[\"M\", f32]):\n    acc = tile.zeros((256,), f32)\n    for c in range(0, N, 256):\n        acc = acc + tile.load(x[tile.group_id(), c:c+256], stages=4)\n"
                    "    g = tile.group_id()\n    tile.store(y[g:g+1], acc.sum(dim=0, keepdim=True))\nx, y = random.normal((40, 2050)), zeros(40)\nrow_sums.launch(grid=40, block=128)(x, y)\nprint(y[3].item())",
    "attention": "q = random.normal((1, 2, 256, 64)).to(bf16)\nf = jit(lambda q: flash_attention(q, q, q, causal=True))\nprint(f(q)[0, 1, 2, 3].item())",
    "attention backward": "q = random.normal((1, 2, 256, 64)).to(bf16)\nf = jit(lambda q: flash_attention(q, q, q, causal=True).sum())\nprint(grad(f)(q)[0, 1, 2, 3].item())",
    "scans": "x = random.normal((20, 5000))\nprint(cumsum(x, axis=1)[3, 4000].item(), cumsum(x, axis=0)[7, 8].item(), cummax(x, axis=1)[3, 4].item())",
    "sorts": "x = random.normal((5, 5000))\nprint(sort(x)[3, 4].item(), topk(x, 3)[1][2, 1].item(), unique((x * 3).to(int32)).shape)",
    "places": "x = random.normal((5, 5000))\nprint(nonzero(x > 1)[0].shape, x[x > 1].sum().item(), searchsorted(sort(x[0]), x[1])[4].item())",
    "gathers, sums by place": "x, i = random.normal((500, 64)), random.randint(0, 500, (900,))\nprint(x[i][7, 8].item(), index_add(x, x[i], i)[3, 4].item())",
    "convolutions": "x, k = random.normal((2, 3, 20, 20)), random.normal((4, 3, 3, 3))\nprint(conv2d(x, k, padding=1)[1, 2, 3, 4].item())",
    "convolutions by windows": "x, k = random.normal((2, 64, 20, 20)).to(bf16), random.normal((64, 64, 3, 3)).to(bf16)\nf = jit(lambda x, k: conv2d(x, k, padding=1, stride=2))\nd = jit(grad(lambda x, k: f(x, k).to(f32).sum(), argnums=(0, 1)))\n"
                               "print(f(x, k)[1, 2, 3, 4].item(), d(x, k)[0][1, 2, 3, 4].item(), d(x, k)[1][1, 2, 1, 0].item())",
    "convolutions of each channel": "x, k = random.normal((2, 64, 20, 20)).to(bf16), random.normal((64, 1, 5, 5)).to(bf16)\nprint(conv2d(x, k, padding=2, groups=64)[1, 2, 3, 4].item())",
    "selections": "x = random.normal((5, 60000))\nprint(topk(x, 100)[0][2, 99].item(), topk(x, 100)[1][3, 5].item(), sort(x)[4, 59999].item())",
    "counts, long sums": "x = random.randint(0, 900, (70000,))\nprint(bincount(x, minlength=1000)[7].item(), cumsum(random.normal((200000,)))[199999].item())",
    "random numbers": "x = random.normal((300, 70))\nprint(x[3, 4].item(), random.uniform((300, 70))[5, 6].item())",
    "lanes": "@kernel\ndef total(x: Tensor[\"N\", f32]) -> f32:\n    s = tile.alloc_shared((128,), f32)\n    v = 0.0\n    for i in tile.range(tile.linear_id(), N, tile.group_size()):\n        v += x[i]\n"
             "    s[tile.local_id()] = v\n    tile.barrier()\n    k = tile.group_size() // 2\n    while k > 0:\n        if tile.local_id() < k:\n            s[tile.local_id()] += s[tile.local_id() + k]\n"
             "        tile.barrier()\n        k //= 2\n    return s[0]\nprint(float(total.launch(grid=(1,), block=(128,))(arange(1000).to(f32))))",
    "adamw": "p = random.normal((300, 70))\no = optim.adamw(lr=1e-3)\nprint(jit(lambda p, g, s: o.update(p, g, s)[0])(p, p * 0.1, o.init(p))[3, 4].item())",
}


def run(command):
    p = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return p.stdout + p.stderr


def found(tool, text):
    """How many faults the tool counted, or None where it did not come that far."""
    m = re.search(r"RACECHECK SUMMARY: .*\((\d+) errors?, (\d+) warning", text) if tool == "racecheck" else re.search(r"ERROR SUMMARY: (\d+) error", text)
    if m:
        return sum(int(g) for g in m.groups())
    return 0 if "RACECHECK SUMMARY: 0 hazards" in text else None


def main():
    tessera, tools = sys.argv[1], sys.argv[2:] or ["racecheck", "synccheck", "memcheck"]
    bad = False
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(8) as pool:
        os.environ["TESSERA_CACHE"] = folder + "/cache"

        def program(name, text):
            path = pathlib.Path(folder) / (re.sub(r"\W+", "_", name) + ".tsr")
            path.write_text("import tessera.random as random\nrandom.seed(3)\n" + text + "\n")
            return [tessera, "run", "--device", "gpu:0", str(path)]

        def planted_fault(tool):
            if tool not in CUDA_PLANTS:
                return program("planted", RACE)
            source = pathlib.Path(folder) / "planted.cu"
            source.write_text(CUDA)
            subprocess.run(["nvcc", "-arch=native", f"-DPLANT={CUDA_PLANTS[tool]}", "-o", folder + "/planted", source], check=True)
            return [folder + "/planted"]

        for name, said in zip(FAMILIES, pool.map(lambda family: run(program(*family)), FAMILIES.items())):
            if "rror" in said:
                print(json.dumps({"family": name, "fails": said[-600:]}), flush=True)
        for tool in tools:
            sanitizer = ["compute-sanitizer", "--tool", tool] + (["--racecheck-report", "all"] if tool == "racecheck" else [])
            planted = found(tool, run(sanitizer + planted_fault(tool)))
            said = pool.map(lambda family: run(sanitizer + program(*family)), FAMILIES.items())
            unclean = {name: text[-1500:] for name, text in zip(FAMILIES, said) if found(tool, text) != 0}
            bad |= bool(unclean) or not planted
            print(json.dumps({"check": f"compute-sanitizer {tool}", "families": len(FAMILIES), "planted": planted, "not clean": unclean}), flush=True)
    return 1 if bad else 0


sys.exit(main())
