import json, time, torch
import torch.nn.functional as F
def measure(name, f, flops, rounds=5):
    f(); torch.cuda.synchronize()
    each = max(3, min(200, int(2e-3 / (flops / 6e14 + 4e-6))))
    ts = []
    for _ in range(rounds):
        t = time.perf_counter()
        for _ in range(each): f()
        torch.cuda.synchronize()
        ts.append((time.perf_counter() - t) / each)
    s = sorted(ts)[len(ts) // 2]
    print(json.dumps({"peer": "torch", "work": name, "us": round(s * 1e6, 1), "TFLOPs": round(flops / s / 1e12, 1)}), flush=True)
R = lambda *s: torch.randn(*s, device="cuda").bfloat16()
GEMM = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 8192, 8192),
        (8192, 4096, 14336), (8192, 28672, 4096), (4096, 768, 3072), (32768, 768, 768), (32768, 3072, 768),
        (32768, 50304, 768), (1, 4096, 4096), (16, 4096, 14336), (64, 8192, 8192), (128, 14336, 4096)]
for m, n, k in GEMM:
    a, b = R(m, k), R(n, k)
    measure(f"nt {m}x{n}x{k}", lambda: a @ b.T, 2 * m * n * k)
a = R(8192, 8192)
measure("nn 8192", lambda: a @ a, 2 * 8192 ** 3)
measure("tn 8192", lambda: a.T @ a, 2 * 8192 ** 3)
x, w, b = R(32768, 768), R(3072, 768), R(3072)
measure("gelu 32768x3072x768 eager", lambda: F.gelu(F.linear(x, w, b), approximate="tanh"), 2 * 32768 * 3072 * 768)
for n in [4096, 8192]:
    a = torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    measure(f"e4m3 {n}", lambda: torch._scaled_mm(a, a.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=False), 2 * n ** 3)
