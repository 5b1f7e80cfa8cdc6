"""PyTorch (cuDNN, cudnn.benchmark) on the work of convs.tsr: convs_peers.py [WORD ...]. Of f32 without tf32, as Tessera's are, where the name doesn't say tf32."""
import json, pathlib, sys
import torch, torch.nn.functional as F
from peer_clock import median

torch.backends.cudnn.benchmark = True
text = (pathlib.Path(__file__).parent / "convs.tsr").read_text()
LAYERS = eval("{" + text.split("LAYERS = {")[1].split("\n", 1)[1].split("\n}")[0] + "}")


def report(work, f):
    print(json.dumps({"work": work, "peer": "torch", "us": round(median(f) * 1e6, 1)}), flush=True)


for name, (xs, ws, stride, padding, groups) in LAYERS.items():
    if len(sys.argv) > 1 and not any(w in name for w in sys.argv[1:]):
        continue
    torch.backends.cudnn.allow_tf32 = name.endswith("tf32")
    dt = torch.float32 if name.endswith("f32") else torch.bfloat16
    n = len(xs) - 2
    last = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d}[n]
    conv = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    f = lambda: conv(x, w, stride=stride, padding=padding, groups=groups)
    x = torch.randn(*xs, device="cuda").to(dt)
    w = (torch.randn(*ws, device="cuda") * 0.05).to(dt)
    with torch.no_grad():
        report("conv nchw " + name, f)
        x, w = x.to(memory_format=last), w.to(memory_format=last)
        report("conv nhwc " + name, f)
        dy = torch.randn_like(f()).to(memory_format=last)
    back = lambda mask: torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * n, [padding] * n, [1] * n, False, [0] * n, groups, mask)
    report("conv nhwc dx " + name, lambda: back([True, False, False]))
    report("conv nhwc dw " + name, lambda: back([False, True, False]))
