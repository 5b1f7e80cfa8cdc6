"""PyTorch (cuDNN, cudnn.benchmark) on the work of convs.tsr: convs_peers.py [WORD ...]."""
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
    x = torch.randn(*xs, device="cuda").bfloat16()
    w = (torch.randn(*ws, device="cuda") * 0.05).bfloat16()
    with torch.no_grad():
        report("conv nchw " + name, lambda: F.conv2d(x, w, stride=stride, padding=padding, groups=groups))
        x, w = x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last)
        report("conv nhwc " + name, lambda: F.conv2d(x, w, stride=stride, padding=padding, groups=groups))
        dy = torch.randn_like(F.conv2d(x, w, stride=stride, padding=padding, groups=groups)).to(memory_format=torch.channels_last)
    back = lambda mask: torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, mask)
    report("conv nhwc dx " + name, lambda: back([True, False, False]))
    report("conv nhwc dw " + name, lambda: back([False, True, False]))
