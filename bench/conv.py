#!/usr/bin/env python3
"""Convolutions and their derivatives against PyTorch: bench/conv.py [--python=PYTHON] [WORD ...]

One JSON object a line: {"name", "ms", "torch", "ratio"}: medians of processor time on one thread, f32; ratio is Tessera's speed over PyTorch's.
"dx" and "dw" are the derivatives by the input and the kernel alone.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESSERA = pathlib.Path(__file__).resolve().parent.parent / "build/tessera"

# name: x, w, stride, padding, groups
CASES = {
    "3x3, 16 to 32, 64 x 64": ((8, 16, 64, 64), (32, 16, 3, 3), 1, 1, 1),
    "3x3, 64 to 64, 56 x 56": ((4, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    "3x3, 256 to 256, 14 x 14": ((4, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1),
    "3x3, 64 to 16, 14 x 14": ((32, 64, 14, 14), (16, 64, 3, 3), 1, 1, 1),
    "1x1, 64 to 256, 56 x 56": ((4, 64, 56, 56), (256, 64, 1, 1), 1, 0, 1),
    "7x7 by 2, 3 to 64, 224 x 224": ((4, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
    "3x3 each of 64, 56 x 56": ((8, 64, 56, 56), (64, 1, 3, 3), 1, 1, 64),
    "3x3 by 2 each of 64, 112 x 112": ((2, 64, 112, 112), (64, 1, 3, 3), 2, 1, 64),
    "5x5 each of 240, 14 x 14": ((8, 240, 14, 14), (240, 1, 5, 5), 1, 2, 240),
    "7x7 each of 96, 56 x 56": ((2, 96, 56, 56), (96, 1, 7, 7), 1, 3, 96),
    "7x7 each of 384, 14 x 14": ((4, 384, 14, 14), (384, 1, 7, 7), 1, 3, 384),
    "3x3 of 32 groups of 4, 56 x 56": ((4, 128, 56, 56), (128, 4, 3, 3), 1, 1, 32),
    "3x3, 512 to 512, 7 x 7": ((4, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1),
    "1x1, 512 to 2048, 7 x 7": ((4, 512, 7, 7), (2048, 512, 1, 1), 1, 0, 1),
    "5x5, 1 to 32, 28 x 28": ((64, 1, 28, 28), (32, 1, 5, 5), 1, 0, 1),
}
HEAD = {
    "tessera": "def normal(s): return random.normal(s)\ndef wait(y): y[0, 0, 0, 0].item()\n"
               "def made(x, w, s, p, g):\n    f = lambda x, w: conv2d(x, w, stride=s, padding=p, groups=g)\n    y = f(x, w)\n"
               "    return [jit(f)] + [jit(lambda x, w, i=i: vjp(f, x, w)[1](y)[i]) for i in (0, 1)]\n",
    "torch": "import torch, torch.nn.functional as F, torch.nn.grad as G\ntorch.set_num_threads(1)\ndef normal(s): return torch.randn(s)\n"
             "def wait(y): pass\ndef made(x, w, s, p, g):\n    y = F.conv2d(x, w, None, s, p, 1, g)\n"
             "    return [lambda x, w: F.conv2d(x, w, None, s, p, 1, g), lambda x, w: G.conv2d_input(x.shape, w, y, s, p, 1, g),\n"
             "            lambda x, w: G.conv2d_weight(x, w.shape, y, s, p, 1, g)]\n",
}
MEASURE = """from time import process_time as now
def measure(name, x, w, s, p, g):
    x, w = normal(x), normal(w)
    for i, f in enumerate(made(x, w, s, p, g)):
        times = []
        wait(f(x, w))
        for k in range(7):
            t = now()
            wait(f(x, w))
            times.append(now() - t)
        times.sort()
        print(name, i, times[3])
"""


def measure(who, names, interpreter):
    text = HEAD[who] + MEASURE + "".join("measure({}, {}, {}, {}, {}, {})\n".format(i, *CASES[n]) for i, n in enumerate(names))
    env = dict(os.environ, **{v: "1" for v in ("TESSERA_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")})
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / ("conv.tsr" if who == "tessera" else "conv.py")
        path.write_text(text)
        out = subprocess.run([*interpreter, str(path)], env=env, capture_output=True, text=True)
    return {(int(a), int(b)): float(c) for a, b, c in (line.split() for line in out.stdout.splitlines())}


def main():
    python = next((a[9:] for a in sys.argv[1:] if a.startswith("--python=")), sys.executable)
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    names = [n for n in CASES if not words or any(w in n for w in words)]
    ours, torch = measure("tessera", names, [str(TESSERA)]), measure("torch", names, [python])
    for (i, k), t in ours.items():
        line = {"name": names[i] + ("", " dx", " dw")[k], "ms": round(1e3 * t, 3)}
        if (i, k) in torch:
            line.update(torch=round(1e3 * torch[i, k], 3), ratio=round(torch[i, k] / t, 2))
        print(json.dumps(line))


main()
