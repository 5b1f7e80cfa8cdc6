"""torch.compile on the work of norms.tsr, by the host's clock as there: python3 norms_peers.py. do_bench_us is what Triton's do_bench gives."""
import json

import torch
import torch.nn.functional as F
from peer_clock import median
from triton.testing import do_bench


def measure(work, f, moved, peer, rounds=7, each=10):
    t = median(f, rounds, each)
    events = do_bench(f, warmup=5, rep=20, return_mode="median") * 1e3
    print(json.dumps({"peer": peer, "work": work, "us": round(t * 1e6, 1), "do_bench_us": round(events, 1), "GBps": round(moved / t / 1e9, 2)}), flush=True)


for rows, cols in [(32768, 768), (16384, 4096), (8192, 8192), (4096, 50304)]:
    x, w = torch.randn(rows, cols, device="cuda").bfloat16(), torch.randn(cols, device="cuda").bfloat16()
    out, n = torch.empty_like(x), 2 * x.numel()
    torch._dynamo.reset()
    measure(f"copy {rows}x{cols}", lambda: out.copy_(x), 2 * n, "torch")
    for name, f, moved in [("softmax", lambda x: torch.softmax(x, -1), 2 * n), ("rmsnorm", lambda x: F.rms_norm(x, (cols,), w), 2 * n),
                           ("layernorm", lambda x: F.layer_norm(x, (cols,), w, w), 2 * n),
                           ("gelu_chain", lambda x: F.gelu(x, approximate="tanh") * 2 + x, 2 * n), ("rowsum", lambda x: x.float().sum(-1), n)]:
        c = torch.compile(f, dynamic=False)
        measure(f"{name} {rows}x{cols}", lambda: c(x), moved, "torch.compile")
    measure(f"transpose {rows}x{cols}", lambda: x.t().contiguous(), 2 * n, "torch")
p = torch.nn.Parameter(torch.randn(1 << 28, device="cuda"))
p.grad = torch.randn(1 << 28, device="cuda")
step = torch.optim.AdamW([p], fused=True).step
measure("adamw f32 2^28", step, 28 << 28, "torch fused", 4, 4)
