"""Convolutions of GPUs that read windows where the image lies: on the driver of the tests, to the host's bits, and as PTX for what they are made of."""
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import process
from harness.test import Fail, Test

from . import gpu_kernels

# Of whole numbers, whose sums are the same in any order. Strides that lines are and are not multiples of, dilation, few channels, images either way, a row of places.
WINDOWS = '''
random.seed(21)
def whole(shape, dt):
    return (random.uniform(shape) * 7.0 - 3.0).to(int32).to(dt)

def last(x):
    order = (0, *range(2, x.ndim), 1)
    return (x.permute(*order) * 1.0).permute(0, x.ndim - 1, *range(1, x.ndim - 1))

def show(name, y):
    print(name, y.shape, y.dtype, (y.to(f64) * ((arange(y.size) % 97).to(f64) + 1.0).reshape(y.shape)).sum().item(), y.reshape(-1)[-9:].tolist())

for name, xs, ws, more in [
        ("plain", (2, 16, 8, 8), (24, 16, 3, 3), {"padding": 1}), ("small", (3, 16, 7, 9), (8, 16, 3, 3), {}), ("wide", (1, 72, 8, 40), (72, 72, 3, 3), {"padding": 1}),
        ("stride", (2, 40, 12, 10), (16, 40, 3, 3), {"stride": 2, "padding": 1}), ("odd", (4, 16, 9, 11), (16, 16, 3, 3), {"stride": 2, "padding": 1}),
        ("few", (4, 3, 20, 20), (8, 3, 7, 7), {"stride": 2, "padding": 3}), ("one", (2, 72, 8, 8), (8, 72, 1, 1), {}), ("picks", (2, 16, 8, 8), (8, 16, 1, 1), {"stride": 2}),
        ("apart", (2, 16, 14, 14), (8, 16, 3, 3), {"padding": 2, "dilation": 2}), ("line", (3, 24, 50), (16, 24, 5), {"padding": 2, "stride": 2}),
        ("picture", (2, 3, 21, 30), (16, 3, 3, 3), {"padding": 1}), ("thin", (3, 5, 18, 11), (10, 5, 4, 3), {"stride": 2}), ("uneven", (2, 12, 9, 8), (10, 12, 3, 3), {"padding": 1}),
        ("groups", (2, 96, 9, 8), (96, 32, 3, 3), {"padding": 1}), ("groups stride", (2, 64, 12, 10), (32, 16, 3, 3), {"padding": 1, "stride": 2}),
        ("deep", (2, 16, 4, 8, 8), (24, 16, 3, 3, 3), {"padding": 1}), ("deep stride", (2, 8, 6, 6, 10), (16, 8, 3, 3, 3), {"padding": 1, "stride": 2}),
        ("deep few", (2, 3, 5, 12, 10), (8, 3, 3, 5, 5), {"padding": 2}), ("flat", (1, 16, 5, 8, 8), (8, 16, 2, 1, 1), {}), ("three", (16, 8, 9, 9), (8, 8, 3, 3), {"stride": 3}), ("holes", (2, 16, 10, 13), (8, 16, 2, 1), {"stride": 3})]:
    for dt in (bf16, f16):
        f = lambda x, w: (conv1d, conv2d, conv3d)[len(xs) - 3](x, w, groups=xs[1] // ws[1], **more)
        x, w = whole(xs, dt), whole(ws, dt)
        y = f(x, w)
        dy = whole(y.shape, dt)
        show(name, y)
        show(name + " last", f(last(x), last(w)))
        show(name + " staged", jit(lambda x, w: relu(f(x, w) + 1.0))(last(x), w))
        for a, b, c in ((x, w, dy), (last(x), last(w), last(dy))):
            for d in vjp(f, a, b)[1](c):
                show(name + " derivative", d)
'''

# All channels, of f32: the host's sums, of any numbers.
DIRECT = '''
random.seed(23)
for xs, ws, more in [((2, 16, 9, 14), (24, 16, 3, 3), {"padding": 1}), ((1, 9, 40, 37), (64, 9, 3, 3), {"padding": 1}), ((3, 3, 30, 31), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
                     ((2, 30, 40), (20, 30, 9), {"padding": 4, "dilation": 2}), ((2, 5, 6, 7, 9), (8, 5, 3, 3, 3), {"padding": 1}),
                     ((2, 4, 7, 7, 7), (8, 4, 3, 2, 3), {"padding": 1, "stride": 2}), ((1, 2, 19, 20), (130, 2, 5, 5), {})]:
    f = lambda x, w: (conv1d, conv2d, conv3d)[len(xs) - 3](x, w, **more)
    x, w = random.normal(xs), random.normal(ws)
    y, pull = vjp(f, x, w)
    order = (0, *range(2, x.ndim), 1)
    for z in (y, *pull(y), jit(f)((x.permute(*order) * 1.0).permute(0, x.ndim - 1, *range(1, x.ndim - 1)), w)):
        print(z.shape, z.dtype, (z.to(f64) * ((arange(z.size) % 97).to(f64) + 1.0).reshape(z.shape)).sum().item(), z.reshape(-1)[-9:].tolist())
'''

# Each channel, or few, for itself: the host's sums, of any numbers.
CHANNELS = '''
random.seed(22)
for xs, ws, more in [((2, 12, 9, 14), (12, 1, 3, 3), {"padding": 1}), ((3, 40, 17, 70), (40, 1, 7, 7), {"padding": 3}), ((2, 9, 11, 10), (9, 1, 3, 3), {"stride": 2, "padding": 1}),
                     ((2, 70, 40), (70, 1, 5), {"padding": 4, "dilation": 2}), ((1, 16, 6, 5), (16, 1, 2, 3), {}), ((2, 8, 10, 9), (24, 1, 3, 3), {"padding": 1}),
                     ((2, 32, 9, 8), (32, 8, 3, 3), {"padding": 1, "stride": 2}), ((2, 6, 8, 7), (12, 3, 3, 2), {}), ((2, 8, 5, 7, 6), (8, 1, 3, 3, 3), {"padding": 1}),
                     ((1, 128, 5, 6), (64, 32, 3, 3), {"padding": 1})]:
    for dt in (f32, bf16, f64):
        f = lambda x, w: (conv1d, conv2d, conv3d)[len(xs) - 3](x, w, groups=xs[1] // ws[1], **more)
        x, w = random.normal(xs).to(dt), random.normal(ws).to(dt)
        y, pull = vjp(f, x, w)
        for z in (y, *pull(y), jit(f)((x.permute(0, *range(2, x.ndim), 1) * 1.0).permute(0, x.ndim - 1, *range(1, x.ndim - 1)), w)):
            print(z.shape, z.dtype, (z.to(f64) * ((arange(z.size) % 97).to(f64) + 1.0).reshape(z.shape)).sum().item(), z.reshape(-1)[-9:].tolist())
'''

# Under policies operands go to what units take, and sums stay f32. Of whole numbers; nothing is left to the host.
POLICIES = '''
random.seed(24)
whole = lambda shape: (random.uniform(shape) * 7.0 - 3.0).to(int32).to(f32)
for xs, ws, more in [((2, 16, 8, 8), (24, 16, 3, 3), {"padding": 1}), ((2, 40, 12, 10), (16, 40, 3, 3), {"stride": 2, "padding": 1}), ((2, 3, 20, 20), (8, 3, 7, 7), {"stride": 2}),
                     ((2, 8, 4, 8, 8), (24, 8, 3, 3, 3), {"padding": 1}), ((2, 32, 9, 8), (32, 8, 3, 3), {})]:
    for dt in (tf32, bf16, f16):
        with numerics(compute=dt):
            f = lambda x, w: (conv1d, conv2d, conv3d)[len(xs) - 3](x, w, groups=xs[1] // ws[1], **more)
            y, pull = vjp(f, whole(xs), whole(ws))
            for z in (y, *pull(whole(y.shape))):
                print(z.shape, z.dtype, (z.to(f64) * ((arange(z.size) % 97).to(f64) + 1.0).reshape(z.shape)).sum().item(), z.reshape(-1)[-9:].tolist())
'''

MADE = '''
for c, stride in ((128, 1), (128, 2), (32, 1)):
    x, w = [zeros(s, dtype=bf16).permute(0, 3, 1, 2) for s in ((64, 28, 28, c), (c, 3, 3, c))]
    f = lambda x, w: conv2d(x, w, stride=stride, padding=1)
    y = f(x, w)
    vjp(f, x, w)[1](y)
'''
SAVE = '#!/bin/sh\nfor a; do case $a in *.ptx) cp "$a" "$SAVED/$$.ptx";; esac; done\nwhile [ "$1" != -o ]; do shift; done\nprintf cubin >"$2"\n'


def texts(ctx, text):
    """The kernels that a program has an H100 assemble."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "program.tsr").write_text(text)
        (d / "ptxas").write_text(SAVE)
        (d / "ptxas").chmod(0o755)
        (d / "saved").mkdir()
        env = {**process.fake_driver(ctx.tessera, "chip=90,memory=4000"), "TESSERA_PTXAS": str(d / "ptxas"), "SAVED": str(d / "saved"), "TESSERA_CACHE": ""}
        p = process.run([ctx.tessera, "run", "--device", "gpu:0", d / "program.tsr"], env=env, timeout=120)
        if why := process.died(p) or (p.returncode and p.stderr[-600:]):
            raise Fail(why)
        return [f.read_text() for f in sorted((d / "saved").iterdir())]


def made(ctx):
    """A convolution and both derivatives, with strides too, are wgmma of boxes of four axes that tensor copies bring; ptxas spills nothing."""
    windows = [t for t in texts(ctx, MADE) if "wgmma" in t or "mma.sync" in t]
    for t in windows:
        if len(re.findall(r"cp\.async\.bulk\.tensor\.4d\.shared", t)) < 2 or "mma.sync" in t:
            raise Fail(t[:2000])
    if len(windows) < 9:
        raise Fail(f"{len(windows)} kernels")
    ptxas = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    for t in windows if ptxas else []:
        with tempfile.TemporaryDirectory() as d:
            (pathlib.Path(d) / "k.ptx").write_text(t)
            p = subprocess.run([ptxas, "-v", "-arch=sm_90a", f"{d}/k.ptx", "-o", f"{d}/k.cubin"], capture_output=True, text=True)
            if p.returncode or not re.search(r" 0 bytes spill stores", p.stderr) or "serializ" in p.stderr:
                raise Fail(p.stderr[:1000])


# One matrix for all batches, on either side, and for some of them.
SAME = '''
x, w = zeros((64, 64, 3136), dtype=bf16), zeros((256, 64), dtype=bf16)
y = w @ x
y = x.mT @ w.T
y = zeros((3, 1, 64, 256), dtype=bf16) @ zeros((3, 4, 256, 128), dtype=bf16)
'''


def same_for_batches(ctx):
    """Tensor copies take no axis whose steps are 0: of an operand that is the same for all batches they bring the first one's blocks."""
    made = texts(ctx, SAME)
    if any("mma.sync" in t for t in made) or sum("wgmma" in t for t in made) < 3:
        raise Fail([("wgmma" in t, "mma.sync" in t) for t in made])


def tests(ctx):
    yield Test("gpu_convolutions/windows", lambda: gpu_kernels.same_bits(ctx, WINDOWS, {"TESSERA_WINDOWS": "1"}))
    yield Test("gpu_convolutions/channels", lambda: gpu_kernels.same_bits(ctx, CHANNELS))
    yield Test("gpu_convolutions/policies", lambda: gpu_kernels.same_bits(ctx, POLICIES, {"TESSERA_WINDOWS": "1"}))
    yield Test("gpu_convolutions/direct", lambda: gpu_kernels.same_bits(ctx, DIRECT))
    yield Test("gpu_convolutions/made", lambda: made(ctx))
    yield Test("gpu_convolutions/same_for_batches", lambda: same_for_batches(ctx))
