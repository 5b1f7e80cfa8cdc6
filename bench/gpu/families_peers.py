"""PyTorch (CUB, cuDNN) on the work of families.tsr: families_peers.py [WORD ...]."""
import json, sys
import torch, torch.nn.functional as F
from peer_clock import median

N, ROWS, COLUMNS = 1 << 24, 4096, 4096
CONVOLUTIONS = {
    "conv2d 64x64x56x56 3x3": ((64, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    "conv2d 64x256x14x14 3x3": ((64, 256, 14, 14), (256, 256, 3, 3), 1, 1),
    "conv2d 64x3x224x224 7x7 s2": ((64, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    "conv1d 16x512x3000 3": ((16, 512, 3000), (512, 512, 3), 1, 1),
    "conv3d 8x32x16x56x56 3x3x3": ((8, 32, 16, 56, 56), (32, 32, 3, 3, 3), 1, 1),
}
CONV = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
torch.backends.cudnn.benchmark = True


def make(name):
    g = lambda *s: torch.randn(*s, device="cuda")
    for work, (xs, ws, stride, padding) in CONVOLUTIONS.items():
        if name.startswith(work):
            x, w = g(*xs).bfloat16().requires_grad_(), (g(*ws) * 0.05).bfloat16().requires_grad_()
            f = lambda: CONV[len(xs)](x, w, stride=stride, padding=padding)
            if name == work:
                return lambda: f().detach()
            y = f()
            return lambda: torch.autograd.grad(y, (x, w), y.detach(), retain_graph=True)
    x, flat = g(ROWS, COLUMNS), g(N)
    few = (torch.rand(N, device="cuda") * 1024).int()
    ids = (torch.rand(1 << 16, device="cuda") * 50257).int()
    table, rows, long = g(50257, 768), g(1 << 16, 768), g(256, 50257)
    return {
        "sort 16M f32": lambda: torch.sort(flat)[0],
        "sort rows 4096": lambda: torch.sort(x, dim=-1)[0],
        "argsort 16M int32": lambda: torch.argsort(few, stable=True),
        "topk 16M 100": lambda: torch.topk(flat, 100)[0],
        "topk rows 50257 50": lambda: torch.topk(long, 50)[0],
        "cumsum 16M": lambda: torch.cumsum(flat, 0),
        "cumsum rows": lambda: torch.cumsum(x, -1),
        "cumsum columns": lambda: torch.cumsum(x, 0),
        "gather 64K of 50257 x 768": lambda: table[ids],
        "embedding gradient": lambda: torch.zeros_like(table).index_add_(0, ids, rows),
        "bincount 16M of 1024": lambda: torch.bincount(few, minlength=1024),
        "argmax rows": lambda: torch.argmax(x, -1),
        "argmax 16M": lambda: torch.argmax(flat),
        "sum 16M": lambda: flat.sum(),
        "max columns": lambda: x.amax(0),
        "random uniform 16M": lambda: torch.rand(N, device="cuda") + flat[:1],
        "random normal 16M": lambda: torch.randn(N, device="cuda") + flat[:1],
    }[name]


NAMES = ["sort 16M f32", "sort rows 4096", "argsort 16M int32", "topk 16M 100", "topk rows 50257 50", "cumsum 16M", "cumsum rows", "cumsum columns", "gather 64K of 50257 x 768",
         "embedding gradient", "bincount 16M of 1024", "argmax rows", "argmax 16M", "sum 16M", "max columns", "random uniform 16M", "random normal 16M"]
NAMES += list(CONVOLUTIONS) + [work + " derivatives" for work in CONVOLUTIONS]

for name in NAMES:
    if len(sys.argv) < 2 or any(w in name for w in sys.argv[1:]):
        print(json.dumps({"work": name, "peer": "torch", "us": round(median(make(name)) * 1e6, 1)}), flush=True)
