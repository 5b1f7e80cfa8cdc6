"""What PyTorch reaches on the same work, as rows.tsr and products.tsr print it: python3 bench/gpu/peers.py"""
import json
import torch
from peer_clock import times

def measure(name, f, what, amount, rounds=5, each=10):
    best = times(f, rounds, each)[0]
    unit = 1e9 if what == "GBps" else 1e12
    print(json.dumps({"peer": "torch " + torch.__version__, "work": name, "us": round(best * 1e6, 1),
                      what: round(amount / best / unit, 2)}), flush=True)

for rows, cols in [(4096, 4096), (8192, 8192), (65536, 1024), (32768, 768)]:
    for dt, name, size in [(torch.float32, "f32", 4), (torch.bfloat16, "bf16", 2)]:
        x = torch.randn(rows, cols, device="cuda").to(dt)
        n = rows * cols * size
        y = torch.empty_like(x)
        measure(f"copy {rows}x{cols} {name}", lambda: y.copy_(x), "GBps", 2 * n)
        measure(f"softmax {rows}x{cols} {name}", lambda: torch.softmax(x, -1), "GBps", 2 * n)
        measure(f"row_sum {rows}x{cols} {name}", lambda: x.sum(-1), "GBps", n)
        measure(f"column_sum {rows}x{cols} {name}", lambda: x.sum(0), "GBps", n)
        measure(f"total {rows}x{cols} {name}", lambda: x.sum(), "GBps", n)
for n in [1024, 4096, 8192]:
    a = torch.randn(n, n, device="cuda").bfloat16()
    measure(f"bf16 nn {n}", lambda: a @ a, "TFLOPs", 2 * n ** 3, each=5)
    measure(f"bf16 nt {n}", lambda: a @ a.T, "TFLOPs", 2 * n ** 3, each=5)
for n in [1024, 2048, 4096]:
    a = torch.randn(n, n, device="cuda")
    measure(f"f32 nn {n}", lambda: a @ a, "TFLOPs", 2 * n ** 3, each=5)
