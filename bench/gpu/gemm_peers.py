"""PyTorch (cuBLAS, cuBLASLt, torch.compile) on the work of gemm.tsr, measured in the same way: python3 gemm_peers.py [SECTION ...]

do_bench_us is what Triton's do_bench gives, by CUDA events around each call."""
import json, sys

import torch
import torch.nn.functional as F
from peer_clock import median
from triton.testing import do_bench

DEV = "cuda"
buf, room = torch.zeros(1 << 25, device=DEV), torch.zeros(1 << 25, device=DEV)
one = torch.ones((), device=DEV)


def clear():
    torch.add(buf, 1.0, out=room)


def measure(work, f, flops, peer="cublas"):
    def both():
        clear()
        f()

    each = max(3, min(200, int(2e-3 / (flops / 6e14 + 4e-6))))
    few = max(3, min(60, int(6e-3 / (flops / 6e14 + 4e-6))))
    hot, cold = median(f, each=each), median(both, each=few) - median(clear, each=few)
    events = do_bench(f, warmup=5, rep=20, return_mode="median") * 1e3
    print(json.dumps({"peer": peer, "work": work, "us": round(hot * 1e6, 1), "cold_us": round(cold * 1e6, 1), "do_bench_us": round(events, 1),
                      "TFLOPs": round(flops / hot / 1e12, 1)}), flush=True)


def product(name, layout, m, n, k, dt=torch.bfloat16):
    a = torch.randn(*((k, m) if layout == "tn" else (m, k)), device=DEV).to(dt)
    b = torch.randn(*((n, k) if layout == "nt" else (k, n)), device=DEV).to(dt)
    f = {"nn": lambda: a @ b, "nt": lambda: a @ b.t(), "tn": lambda: a.t() @ b}[layout]
    measure(f"{name} {layout} {m}x{n}x{k}", f, 2 * m * n * k)


GEMM = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 8192, 8192),
        (8192, 4096, 14336), (8192, 28672, 4096), (4096, 768, 3072), (32768, 768, 768), (32768, 3072, 768),
        (32768, 50304, 768), (1, 4096, 4096), (16, 4096, 14336), (64, 8192, 8192), (128, 14336, 4096)]
THIN = [(m, n, k) for m in (1, 8, 16, 32, 64) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (1024, 8192))]


def shapes(layout):
    for m, n, k in GEMM:
        product("bf16", layout, m, n, k)


def thin():
    for layout in ("nt", "nn"):
        for m, n, k in THIN:
            product("bf16", layout, m, n, k)


def small():
    for m, n, k in [(1000, 1096, 1032), (128, 4096, 4096), (768, 768, 65536), (512, 512, 512), (2000, 3000, 1000)]:
        product("bf16", "nt", m, n, k)


def fp8():
    for m, n, k in [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 14336)]:
        a = torch.randn(m, k, device=DEV).to(torch.float8_e4m3fn)
        b = torch.randn(n, k, device=DEV).to(torch.float8_e4m3fn).t()
        for name, fast in (("e4m3", False), ("e4m3 fast", True)):
            f = lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)
            measure(f"{name} nt {m}x{n}x{k}", f, 2 * m * n * k, "cublaslt")


def wide():
    torch.backends.cuda.matmul.allow_tf32 = True
    product("tf32", "nt", 4096, 4096, 4096, torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = False
    for layout in ("nn", "nt", "tn"):
        product("f32", layout, 4096, 4096, 4096, torch.float32)


def types():
    product("f16", "nt", 4096, 4096, 4096, torch.float16)
    a, b = (torch.randint(-100, 100, (4096, 4096), device=DEV).to(torch.int8) for _ in range(2))
    measure("int8 nt 4096x4096x4096", lambda: torch._int_mm(a, b.t()), 2 * 4096 ** 3)
    product("f64", "nt", 2048, 2048, 2048, torch.float64)


BATCHES = [(64, 512, 512, 512), (96, 1024, 1024, 64), (96, 1024, 64, 1024), (8, 1024, 4096, 1024), (256, 128, 128, 128)]


def batches():
    for layout in ("nn", "nt"):
        for b, m, n, k in BATCHES:
            x = torch.randn(b, m, k, device=DEV).bfloat16()
            y = torch.randn(*((b, n, k) if layout == "nt" else (b, k, n)), device=DEV).bfloat16()
            z = y.mT if layout == "nt" else y
            measure(f"bf16 {layout} {b}x{m}x{n}x{k}", lambda: x @ z, 2 * b * m * n * k)


def gelus():
    x, w, b = (torch.randn(*s, device=DEV).bfloat16() for s in ((32768, 768), (3072, 768), (3072,)))
    f = torch.compile(lambda: F.gelu(F.linear(x, w, b), approximate="tanh"), mode="max-autotune-no-cudagraphs")
    measure("gelu 32768x3072x768", f, 2 * 32768 * 3072 * 768, "torch.compile")


SECTIONS = {"nt": lambda: shapes("nt"), "nn": lambda: shapes("nn"), "tn": lambda: shapes("tn"), "thin": thin, "small": small, "fp8": fp8,
            "gelu": gelus, "wide": wide, "types": types, "batches": batches}
for name in sys.argv[1:] or SECTIONS:
    SECTIONS[name]()
