"""Kernels of GPUs without one: by the driver of the tests, whose kernels are this CPU's code, for how they are chosen, launched and fed; as PTX
for what they are made of."""
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import process, staged
from harness.test import Fail, Skip, Test

SHOW = staged.PRELUDE[:staged.PRELUDE.index("def compare")] + '''
def compare(name, f, cases):
    g = jit(f)
    for xs in cases:
        print(name, [list(x.shape) for x in xs], outcome(g, xs), outcome(f, xs))
'''

# Rows that are few and long, which several groups sum in parts; operands across memory; totals that are rounded once; sines far from zero.
SHAPES = '''
random.seed(11)
def show(name, *xs):
    print(name, [(str(x.dtype), list(x.shape), repr(x.tolist()) if x.size < 3000 else repr((x * 1.0).sum().item())) for x in xs])

below = jit(lambda x, w: ((x.to(f32) * 2.0).sum(axis=0) * w, x.max(axis=0), (x * x).to(x.dtype), (x.to(f32) ** 2).mean(axis=0)))
along = jit(lambda x: (x.sum(axis=-1), x.max(axis=-1), (x > 1).any(axis=-1), x.argmax(axis=-1)))
for n, m in [(1024, 3), (1025, 40), (5000, 5), (40000, 2), (3000, 1)]:
    for dt in [f32, bf16, int32]:
        x = (random.normal((n, m)) * 9).to(dt)
        show("parts", *below(x, random.normal((m,))), *along(x.T), *along(x.T.reshape(m, n) * 1), x.sum(axis=0), x.T.sum(axis=1))
z = random.normal((4, 3000, 3))
show("batches", z.sum(axis=1), z.sum(axis=(0, 1)), z.max(axis=1), jit(lambda z: z - z.mean(axis=1, keepdims=True))(z))
turned = jit(lambda x, y: (x.T + y, (x.T * 2.0).to(f32), exp(x.T) * y))
for n, m in [(64, 64), (70, 100), (16, 300), (15, 17), (130, 33)]:
    for dt in [f32, bf16, f64]:
        x, y = random.normal((n, m)).to(dt), random.normal((m, n)).to(dt)
        show("turned", *turned(x, y), x.T + y, x.T[1:, 1:] * y[1:, 1:], softmax(x.T, axis=-1))
for dt in [bf16, f16, fp8_e4m3, int8, bool]:
    x = (random.normal((9000,)) * 3).to(dt)
    show("totals", x.sum(), x[:5].sum(), x.max(), jit(lambda x: x.sum())(x))
x = tensor([2.0**20, 3e6, -1e10, 1e20, 3e38, 2.0**120, 1.5, float("inf"), float("nan")])
show("sines", sin(x), cos(x), tan(x), jit(lambda x: sin(x) * cos(x))(x))
'''

# What has kernels of its own there: totals of several parts, products of every way in which operands lie, sums of all axes, scalars.
CASES = '''
random.seed(7)
def show(name, *xs):
    print(name, [(str(x.dtype), list(x.shape), repr(x.tolist()) if x.size < 5000 else repr((x * 1.0).sum().item())) for x in xs])

for n in [0, 1, 255, 256, 257, 4096, 4097, 40000]:
    x = random.normal((n,))
    show("total", x.sum(), (x * x).sum(), x.sum() + 1.0)
for shape in [(3, 5), (70, 300), (1, 2000), (600, 9)]:
    x = random.normal(shape)
    show("rows", x.sum(axis=1), x.max(axis=1), x.sum(axis=0), x.min(axis=0), x.T.sum(axis=1), x.mean(), softmax(x), layernorm(x))
    show("maps", x + x.T.reshape(shape), x[::2] * 2, x.T + 1.0, (x > 0).sum(), x.to(f16) * 3, x.to(bf16).exp())
for (m, k, n) in [(1, 1, 1), (3, 40, 5), (130, 70, 65), (33, 600, 17), (1, 300, 64), (40, 0, 3)]:
    for dt in [f32, f64]:
        a, b = random.normal((m, k)).to(dt), random.normal((k, n)).to(dt)
        show("product", a @ b, b.T @ a.T, a @ b.T.reshape(n, k).T, a[::2] @ b, relu(a @ b + 1.0))
x, y = random.normal((3, 4, 5, 6)), random.normal((4, 6, 7))
show("batches", x @ y, x.permute(1, 0, 2, 3) @ y[:, None], x[0] @ y[0])
for dt in [fp8_e4m3, fp8_e5m2, f16, int8, uint8, bool]:
    x = (arange(700) % 17).reshape(7, 100).to(f32).to(dt)
    show("extremes", x.max(), x.min(axis=0), x.T.max(axis=0), jit(lambda x: where(x == x, x, x).min(axis=1))(x))
f = jit(lambda a, w: softmax(gelu(a @ w) * 0.5, axis=-1).sum(axis=0))
show("staged", f(random.normal((50, 300)), random.normal((300, 20))))
g = grad(lambda w: (tanh(random.normal((9, 8)) @ w) ** 2).sum())
random.seed(1)
show("grad", g(random.normal((8, 4))))

@kernel
def saxpy(alpha: float, x: Tensor["N", f32], y: Tensor["N", f32]):
    i = tile.linear_id()
    if i < N:
        y[i] = alpha * x[i] + y[i]

x, y = random.normal((1000,)), random.normal((1000,))
saxpy(2.0, x, y)
show("kernel", y)
z = y
saxpy(3.0, x[:500], y[:500])
show("kernel", y, z)
'''


def outputs(ctx, text, backend="cpu", more_env=()):
    """What a program prints on the host and on the fake GPU, and what the driver counted."""
    with tempfile.TemporaryDirectory() as d:
        path, log = pathlib.Path(d) / "program.tsr", pathlib.Path(d) / "log"
        path.write_text(text)
        env = {**process.fake_driver(ctx.tessera), "FAKE_CUDA_LOG": str(log), "FAKE_CUDA": "memory=2000", **dict(more_env)}
        runs = [process.run([ctx.tessera, "run", f"--backend={backend}", *more, path], env=env, timeout=300) for more in ((), ("--device", "gpu:0"))]
        for p in runs:
            if why := process.died(p):
                raise Fail(why)
        return [p.stdout.splitlines() for p in runs], dict(l.split() for l in log.read_text().splitlines())


BESIDE = '''
@kernel.schedule(Schedule(block=(16, 64)))
def doubled(A: Tensor["M", "N", f32], B: Tensor["M", "N", f32]):
    tile.store(B[block_m:block_m+BM, block_n:block_n+BN], tile.load(A[block_m:block_m+BM, block_n:block_n+BN]) * 2.0)

def both(x):
    y, z = zeros((128, 128)), zeros((128, 128))
    doubled(x, y)
    doubled(x + 1.0, z)
    return y, z

@jit
def apart(x):
    return both(x)

@jit
def beside(x):
    y, z = both(x)
    return concat([y.reshape(4, 32, 128), z.T.T.reshape(4, 32, 128)], axis=-1)

@jit
def turned(x):
    y, z = both(x)
    return concat([y.T, z.T], axis=0)

x = random.normal((128, 128))
y = FUNCTION(x)
print(sum([(v * v).sum().item() for v in (y if isinstance(y, tuple) else (y,))]))
'''


def beside(ctx):
    """What kernels of the program make is stored where the concat behind them has it, seen in another shape too: nothing is copied."""
    launches = {}
    for f in ("apart", "beside", "turned"):
        (here, there), counted = outputs(ctx, BESIDE.replace("FUNCTION", f))
        if here != there:
            raise Fail(f"{f}: {here} and {there}")
        launches[f] = int(counted["launch"])
    if launches["beside"] >= launches["apart"] or launches["turned"] <= launches["beside"]:      # one sum less; those that lie across are copied
        raise Fail(str(launches))


def same_bits(ctx, text, more_env=()):
    (here, there), counted = outputs(ctx, text, more_env=more_env)
    if not int(counted["launch"]):
        raise Fail("nothing ran on the GPU")
    if not here or len(here) != len(there):
        raise Fail(f"{len(here)} lines and {len(there)}")
    for a, b in zip(here, there):
        if a != b:
            raise Fail(f"host {a[:500]}\ngpu  {b[:500]}")


MOVES = '''
random.seed(1)
def show(*xs):
    for x in xs:
        print(x.dtype, x.shape, repr(x.tolist()) if x.size < 3000 else repr((x.to(f64) * (arange(x.size) % 7).reshape(x.shape)).sum().item()))

for dt in (f32, bf16, f64, int32, int8, uint8, f16, fp8_e4m3, c64):
    x = (random.normal((4, 6, 8)) * 20).to(dt)
    i = tensor([3, 0, -1, 3, 2])
    show(x[i], x.swapaxes(0, 2).reshape(8, 24), concat([x, x[:, 1:3]], dim=1), pad(x, ((1, 2), (0, 0), (3, 1))), x[i, tensor([1, 2, 3, 4, 5])],
         x[..., tensor([0, 3])], x.swapaxes(0, 1)[tensor([5, 5, 0])], flip(x, dim=-1).reshape(-1), x[i, 2:5, ::2], x[:0][tensor([], dtype=int32)])
for dt in (f32, bf16, f64, int32, f16, int64, int8, fp8_e5m2):
    x, v = (random.normal((5, 7)) * 10).to(dt), (random.normal((6, 7)) * 10).to(dt)
    i = tensor([3, 0, -1, 3, 2, 3])
    show(index_add(x, v, i), index_put(x, v, i), index_add(x, v[:, 0], i, tensor([1, 2, 3, 1, 5, 1])), index_put(x, v.T.reshape(6, 7), i), x)
    show(index_add(zeros((300, 1000), dtype=dt), (random.normal((500, 1000)) * 10).to(dt), random.randint(0, 300, (500,))))
    show(scatter_add(zeros((50, 100), dtype=dt), random.randint(0, 100, (50, 200)), (random.normal((50, 200)) * 10).to(dt), axis=1))
    try:
        index_add(x, v, i + 9)
    except IndexError as e:
        print(e)
show(concat([zeros((0, 3)), ones((2, 3))]))
a = arange(120).reshape(2, 3, 4, 5).to(f32)
show(a.transpose(3, 1, 2, 0).reshape(-1), a.transpose(1, 3, 0, 2).reshape(6, 20), a[:, ::2, :, ::-2].reshape(-1))
b = random.normal((2, 2, 3, 2, 3, 2, 2)).swapaxes(1, 5).swapaxes(0, 6).swapaxes(2, 4)
show(b.reshape(-1), b.swapaxes(3, 1).reshape(-1), random.normal((100, 300)).T.reshape(-1), random.normal((3, 70, 90)).mT.reshape(3, -1))

@jit
def loss(table, ids, labels):
    x = table[ids]
    return cross_entropy(x.reshape(-1, x.shape[-1]), labels)

table, ids, labels = random.normal((20, 9)), random.randint(0, 20, (4, 3)), random.randint(0, 9, (12,))
show(loss(table, ids, labels), jit(grad(loss))(table, ids, labels))
'''

# Bodies that are divided, columns by vectors, spaces that are walked in rounds, moves in tiles of all sizes.
DIVIDED = '''
random.seed(5)
def show(name, *xs):
    print(name, [(str(x.dtype), list(x.shape), repr((x.to(f64) * (arange(x.size) % 7).reshape(x.shape)).sum().item())) for x in xs])

@jit
def forward(x, w, b):
    h = x @ w + b
    return gelu(h, "tanh"), h, silu(gelu(x @ w + b))
@jit
def backward(h, dy):
    x = h.to(f32)
    y, back = vjp(lambda x: gelu(x, "tanh"), x)
    d = back(dy.to(f32))[0].to(h.dtype)
    return y.to(h.dtype), d, d.sum(axis=0), (d * y.to(h.dtype)).sum(axis=0)
for m, k, n in ((128, 64, 256), (130, 40, 72), (1, 8, 16)):
    for dt in (f32, bf16):
        show("forward", *forward(random.normal((m, k)).to(dt), random.normal((k, n)).to(dt), random.normal((n,)).to(dt)))
for shape in ((512, 256), (300, 77), (4097, 130), (2, 900), (0, 5)):
    for dt in (f32, bf16, f16, f64):
        x = random.normal(shape).to(dt)
        show("backward", *backward(x, random.normal(shape).to(dt)))
        if x.size:
            show("columns", softmax(x, axis=0), x.max(axis=0), jit(lambda x: softmax(x, axis=0).sum(axis=0))(x))

@jit
def norm(x, w, b, dy):
    y, back = vjp(lambda x, w, b: layernorm(x, weight=w, bias=b), x, w, b)
    return (y, *back(dy))
for shape in ((64, 128), (3, 50, 96), (2, 3, 4, 40)):
    n = shape[-1]
    show("norm", *norm(random.normal(shape), random.normal((n,)), random.normal((n,)), random.normal(shape)))

heads = jit(lambda x, y: (x.swapaxes(1, 2) * 2.0 + y, (x.swapaxes(1, 2) + y).sum(axis=-1), softmax(x.swapaxes(1, 2) + y, axis=-2), x.permute(3, 1, 2, 0) * 1.5))
drop = jit(lambda x: x.permute(2, 0, 3, 1) * where(random.uniform((4, 2, 3, 5)) < 0.5, 2.0, 0.0) + iota_like(x).permute(2, 0, 3, 1))
def iota_like(x):
    return arange(x.size).reshape(x.shape).to(f32)
for shape in ((2, 5, 3, 16), (3, 7, 2, 65), (1, 4, 6, 8), (2, 0, 3, 4)):
    x, y = random.normal(shape), random.normal((shape[0], shape[2], shape[1], shape[3]))
    show("rounds", *heads(x, y))
show("numbers", drop(random.normal((2, 5, 4, 3))))
for shape in ((3, 5, 7, 64), (9, 1, 3, 65), (40, 50, 3, 2), (70, 33, 12, 8)):
    for dt in (f32, bf16, int8):
        x = (random.normal(shape) * 3).to(dt)
        show("moves", *[permute(x, a).contiguous() for a in ((0, 2, 1, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1))], concat([x, x[..., :1]], axis=-1))
'''

# Chunks of 256, of one line or of several, with and without a rest, from both ends, along each axis.
SCANS = '''
random.seed(1)
def show(*xs):
    for x in xs:
        print(x.dtype, x.shape, repr(x.tolist()) if x.size < 3000 else repr((x.to(f64) * (arange(x.size) % 7).reshape(x.shape)).sum().item()))
for shape in ((5,), (1,), (0, 4), (700,), (3, 256), (3, 257), (2, 1025, 3), (40, 7), (4, 0), (70000,), (2, 80000), (66000, 2), (2, 600, 40)):
    for dt in (f32, f64, bf16, f16, int32, int64, int8, bool):
        x = (random.normal(shape) * 3).to(dt)
        for axis in range(len(shape)):
            show(cumsum(x, axis))
            if dt != bool:
                show(cumprod(x, axis), cummax(x, axis), cummin(x, axis), flip(cumsum(flip(x, axis), axis), axis))
            if dt == f32:
                show(grad(lambda x: (cumsum(x, axis) * x).sum())(x), cumsum(x.T, axis))
'''

# Blocks of 256 and of twice as many, with a rest; NaNs, zeros of both signs and equal elements; places, and what is made of them.
SORTS = '''
import math
random.seed(2)
def show(*xs):
    for x in xs:
        print(x.dtype, x.shape, repr(x.tolist()) if x.size < 3000 else repr((x.to(f64) * (arange(x.size) % 7).reshape(x.shape)).sum().item()))
for shape in ((5,), (1,), (0,), (3, 0), (700,), (4, 256), (3, 257), (2, 513), (5, 1000), (9000,), (2, 3, 300), (40000,)):
    for dt in (f32, f64, bf16, f16, int32, int64, int8, uint8, int16):
        x = (random.normal(shape) * 9).to(dt)
        if dt in (f32, f64, bf16, f16) and shape[-1] > 4:
            x[..., 1], x[..., 3], x[..., 2], x[..., 4] = math.nan, math.nan, -0.0, 0.0
        for down in (False, True):
            show(sort(x, descending=down), argsort(x, descending=down))
        if shape[-1] > 4:
            show(*topk(x, 4), *topk(x, shape[-1] // 5, largest=False), sort(x.T, axis=0), argsort(x.T, axis=0), median(x.to(f32)))
i = random.randint(0, 900, (70000,)).to(int32)
show(bincount(i, length=1000), index_add(arange(2000).to(int32).reshape(2, 1000)[1], i, (i * 7) % 900))
show(unique(random.randint(0, 50, (1000,))), grad(lambda x: (sort(x) * arange(300)).sum())(random.normal((300,))))
'''

# Kernels of several sizes, strides, paddings, groups; their derivatives; one and three axes.
CONVOLUTIONS = '''
random.seed(4)
def show(*xs):
    for x in xs:
        print(x.dtype, x.shape, repr(x.tolist()) if x.size < 3000 else repr((x.to(f64) * (arange(x.size) % 7).reshape(x.shape)).sum().item()))
for dt in (f32, f64, bf16):
    for shape, kernel, more in (((2, 3, 9, 8), (5, 3, 3, 3), {}), ((1, 4, 20, 20), (6, 4, 3, 3), {"padding": 1}), ((3, 4, 11, 7), (8, 2, 3, 2), {"stride": 2, "padding": 1, "groups": 2}),
                                ((2, 6, 6, 6), (4, 6, 1, 1), {}), ((1, 2, 16, 16), (3, 2, 3, 3), {"dilation": 2}), ((2, 70, 5, 5), (70, 1, 3, 3), {"groups": 70, "padding": 1}),
                                ((2, 3, 40, 37), (5, 3, 3, 3), {"padding": 1}), ((1, 3, 80, 70), (4, 3, 5, 3), {"stride": 2, "padding": 2}), ((64, 2, 12, 16), (3, 2, 1, 1), {}),
                                ((64, 4, 9, 8), (6, 2, 3, 3), {"groups": 2})):
        x, w = random.normal(shape).to(dt), random.normal(kernel).to(dt)
        show(conv2d(x, w, **more), *grad(lambda x, w: (conv2d(x, w, **more) ** 2).sum(), argnums=(0, 1))(x, w), jit(lambda x, w: relu(conv2d(x, w, **more)))(x, w))
    show(conv1d(random.normal((2, 3, 50)).to(dt), random.normal((4, 3, 5)).to(dt), padding=2), conv3d(random.normal((1, 2, 6, 5, 7)).to(dt), random.normal((3, 2, 2, 3, 2)).to(dt)))
'''

# Windows of all batches are more than an eighth of 32 MB, so they go some batches after the others; windows of eight axes are moved in many boxes.
PARTED = '''
random.seed(8)
for shape, kernel, more in (((12, 16, 40, 40), (6, 16, 3, 3), {"padding": 1}), ((11, 16, 60, 60), (8, 16, 5, 5), {"stride": 2, "padding": 2})):
    x, w = random.normal(shape), random.normal(kernel)
    for y in (conv2d(x, w, **more), *grad(lambda x, w: (conv2d(x, w, **more) ** 2).sum(), argnums=(0, 1))(x, w)):
        print(y.shape, (y.to(f64) * (arange(y.size) % 7).reshape(y.shape)).sum().item())
x, w = random.normal((2, 9, 5, 12, 12)), random.normal((3, 9, 3, 3, 3))
y = grad(lambda w: (conv3d(x, w, padding=1) ** 2).sum())(w)
print(y.shape, (y.to(f64) * (arange(y.size) % 7).reshape(y.shape)).sum().item())
'''

STAYS = '''
x = random.normal((64, 6, 128)).to(bf16)
i = tensor([3, 0, 1])
y = [x[i], x.swapaxes(0, 2).reshape(128, 384), concat([x, x], dim=1), pad(x, ((1, 2), (0, 0), (3, 1))), index_add(x, x[i], i), index_put(x, x[i], i), x.mT * 1.0,
     cumsum(x, 0), cumprod(x.to(f32), 1), cummax(x.mT.to(f64), -1), cumsum(flip(x, 0), 0),
     sort(x), argsort(x, axis=0), sort(x.to(f64).reshape(-1)),
     conv2d(x.to(f32)[None], ones((5, 64, 1, 3)).to("gpu:0"), padding=1)]
print(len(y))
'''


def stays(ctx):
    """Moves on a GPU bring nothing to the host."""
    _, counted = outputs(ctx, STAYS)
    if int(counted["launch"]) < 9 or int(counted["download"]):
        raise Fail(str(counted))


SEVERAL = '''
@kernel
def saxpy(alpha: float, x: Tensor["N", f32], y: Tensor["N", f32]):
    i = tile.linear_id()
    if i < N:
        y[i] = alpha * x[i] + y[i]

f = jit(lambda x, y: tanh(x * y + 1.0) * x)
apart = jit(lambda x, y: (tanh(x) * 2, tanh(y) * 3))
a, b, c = ones((4, 4)).to("gpu:0"), ones((4, 4)).to("gpu:1"), ones((4, 4))
for g in [lambda: f(a, b), lambda: a @ b, lambda: saxpy(2.0, a[0], b[0])]:
    try:
        print(g())
    except ValueError as e:
        print(str(e)[:5])
print([t.device for t in apart(a, b)], f(a, c).device, f(c, b).device)
saxpy(2.0, c[0], b[0])
print(b[0].tolist())
'''


def several(ctx):
    """What meets in a staged function or in a kernel lies on one GPU, or on the host (E0725)."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(SEVERAL)
        p = process.run([ctx.tessera, "run", path], env=process.fake_driver(ctx.tessera, "devices=2"), timeout=120)
    if p.stdout.splitlines() != ["E0725", "E0725", "E0725", "['gpu:0', 'gpu:1'] gpu:0 gpu:1", "[3.0, 3.0, 3.0, 3.0]"]:
        raise Fail(p.stdout + p.stderr)


FULL = '''
f = jit(lambda x, y: tanh(x * y + 1.0) * x)
h = jit(lambda x: (x @ x.T).sum(axis=0))
for i in range(3):
    for g in [lambda: f(x, y).sum(), lambda: h(x).sum(), lambda: (x.T.reshape(30, 40) + y).max(), lambda: (x @ y.T).sum()]:
        try:
            x, y = ones((30, 40)), full((30, 40), 2.0)
            print(g().item())
        except MemoryError as e:
            print(str(e)[:5])
'''


def full(ctx):
    """Where the device has no memory nothing is launched: E0744, which a program may catch, and what it computes afterwards is right."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(FULL)
        want = process.run([ctx.tessera, "run", path], timeout=120).stdout.splitlines()
        for how in ("oom-at=1", "oom-once=1", "oom-at=2", "oom-once=2"):
            p = process.run([ctx.tessera, "run", "--device", "gpu:0", path], env=process.fake_driver(ctx.tessera, how), timeout=120)
            said = p.stdout.splitlines()
            if why := process.died(p):
                raise Fail(f"{how}: {why}")
            if len(said) != len(want) or any(a not in (b, "E0744") for a, b in zip(said, want)):
                raise Fail(f"{how}: {said}{p.stderr}")


SEESAW = '''
@kernel.schedule(Schedule(block=(64,), warps=4))
def seesaw(x: Tensor["N", f32], y: Tensor["N", f32]):
    s = y[0]
    tile.store(y[block_m:block_m+BM], tile.load(x[block_m:block_m+BM]) + s)

seesaw(ones((64,)), ones((64,)))
'''


def all_have_read(ctx):
    """Each thread reads a scalar from memory that the kernel writes: nobody writes before all have it."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(SEESAW)
        text = ptx_of(ctx, path, "sm_80")[0]
    if not re.search(r"ld\.global\.f32[^;]*;(?:(?!st\.global)[\s\S])*?bar\.sync[\s\S]*?st\.global", text):
        raise Fail(text[:3000])


def random_functions(ctx, seed):
    keep = staged.PRELUDE
    staged.PRELUDE = SHOW
    try:
        text = staged.program(seed, 12)
    finally:
        staged.PRELUDE = keep
    same_bits(ctx, text)


def ptx_of(ctx, path, machine):
    p = process.run([ctx.tessera, "inspect", "--ir", "target", "--machine", machine, path], timeout=120)
    if why := process.died(p):
        raise Fail(why)
    return [m.split("\n# steps")[0] for m in re.split(r"(?=//\n// Generated by LLVM NVPTX)", p.stdout) if ".version" in m]


PRODUCTS = '''
@kernel.schedule(Schedule(block=(64, 64), block_k=64, warps=4))
def product(A: Tensor["M", "K", DT], B: Tensor["K", "N", DT], C: Tensor["M", "N", SUM]):
    acc = tile.zeros((BM, BN), SUM)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK]), tile.load(B[k:k+BK, block_n:block_n+BN]), acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], acc)

product(ones((128, 128)).to(DT), ones((128, 128)).to(DT), zeros((128, 128), dtype=SUM))
'''
UNITS = [("bf16", "f32", "sm_80", r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32 \{%f\d+,"),
         ("f16", "f32", "sm_80", r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32 "),
         ("int8", "int32", "sm_80", r"mma\.sync\.aligned\.m16n8k32\.row\.col\.s32\.s8\.s8\.s32 "),
         ("fp8_e4m3", "f32", "sm_90a", r"mma\.sync\.aligned\.m16n8k32\.row\.col\.f32\.e4m3\.e4m3\.f32 ")]


def units(ctx, dtype, sums, machine, pattern):
    """Products of narrow dtypes are the matrix units', their operands brought by asynchronous copies; those of f32 are not."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(PRODUCTS.replace("DT", dtype).replace("SUM", sums))
        text = ptx_of(ctx, path, machine)[0]
        if not re.search(pattern, text) or "ldmatrix.sync.aligned.m8n8.x4" not in text:
            raise Fail(text[:3000])
        if dtype != "int8" and not dtype.startswith("fp8") and "cp.async.cg.shared.global" not in text:
            raise Fail("no asynchronous copies")
        path.write_text(PRODUCTS.replace("DT", "f32").replace("SUM", "f32"))
        if "mma.sync" in ptx_of(ctx, path, machine)[0]:
            raise Fail("f32 is not a matrix unit's")


ATTENTION = '''
q, k, v = [random.normal((1, 2, 256, 64)).to(bf16) for _ in range(3)]
attend = flash_attention.with_schedule(Schedule(block_m=64, block_n=64, warps=4))
print(jit(lambda q, k, v: attend(q, k, v, causal=False))(q, k, v).shape)
'''


def registers(ctx):
    """Between its two products a kernel of attention keeps scores, their maxima and sums in registers: nothing of f32 goes through shared memory."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(ATTENTION)
        found = [text for text in ptx_of(ctx, path, "sm_80") if "mma.sync" in text]
        if len(found) != 1 or found[0].count("mma.sync") < 64 or "cp.async.cg.shared.global" not in found[0]:
            raise Fail(f"{len(found)} kernels with matrix units")
        if used := re.findall(r"(?:st|ld)\.shared\.(?:v4\.)?f32", found[0]):
            raise Fail(f"{len(used)} accesses of f32 in shared memory")


ROWS = '''
@jit
def norm(x: Tensor["M", 1024, bf16], g: Tensor[1024, f32]):
    return (softmax(x.to(f32), axis=-1) * g).to(bf16)
norm(ones((8, 1024)).to(bf16), ones(1024))
'''


def whole_rows(ctx):
    """A row that is reduced and used again is read once and written once, in vectors, and stays in registers."""
    ptxas = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(ROWS)
        text = ptx_of(ctx, path, "sm_90a")[0]
        plain = text[text.index("ld.global.v4"):]
        if len(re.findall(r"ld\.global\.v4\.u32", text)) != 4 or len(re.findall(r"st\.global\.v4\.u32", text)) != 4 or "bar.warp.sync" not in plain:
            raise Fail(text[:6000])
        if len(re.findall(r"cp\.async\.ca", text[:text.index("ld.global.v4")])) != 8:     # the row of all rows comes meanwhile
            raise Fail(text[:6000])
        if ptxas:
            (pathlib.Path(d) / "k.ptx").write_text(text)
            p = subprocess.run([ptxas, "-v", "-arch=sm_90a", f"{d}/k.ptx", "-o", f"{d}/k.cubin"], capture_output=True, text=True)
            if p.returncode or "0 bytes spill stores, 0 bytes spill loads" not in p.stderr:
                raise Fail(p.stderr)
        for columns, threads in ((4104, 160), (4352, 160), (2560, 160), (1032, 160)):       # 17, 17, 10 and 5 chunks, of 1, 1, 2 and 4 rows
            path.write_text(f"@jit\ndef f(x: Tensor['M', {columns}, bf16]):\n    return softmax(x, axis=-1)\nf(ones((4, {columns})).to(bf16))\n")
            if not re.search(rf"\.maxntid {threads}\b", text := ptx_of(ctx, path, "sm_90a")[0]):
                raise Fail(f"{columns}: {text[:2000]}")


def fast_rows(ctx):
    """Under fast numerics a thread keeps the vectors that it loads, nothing is turned, and exp is the chip's own; derivatives are fast, too."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text("with tessera.fast_math():\n" + "".join(f"    {line}\n" for line in ROWS.strip().splitlines()))
        text = ptx_of(ctx, path, "sm_90a")[0]
        plain = text[text.index("ld.global.v4"):]
        if len(re.findall(r"ld\.global\.v4\.u32", text)) != 4 or len(re.findall(r"st\.global\.v4\.[ub]32", text)) != 4:
            raise Fail(text[:6000])
        if "ex2.approx.ftz.f32" not in plain or re.search(r"(ld|st)\.shared\.[bu]16|fma\.rn", plain):
            raise Fail(plain[:6000])
        path.write_text("with tessera.fast_math():\n    @jit\n    def f(x):\n        return grad(lambda x: tanh(x).sum())(x)\n    f(ones(100))\n")
        graph = process.run([ctx.tessera, "inspect", "--ir", "graph", path]).stdout
        if not re.search(r"mul\(%\d+, %\d+\) \{fast=1\}", graph) or "{fast=1}" not in graph:
            raise Fail(graph)
        long = "    @jit\n    def f(x: Tensor['M', 50304, bf16]):\n        return softmax(x, axis=-1)\n    f(ones((4, 50304)).to(bf16))\n"
        meets = []
        for fast in ("True", "False"):
            path.write_text(f"with tessera.fast_math({fast}):\n{long}")
            meets.append(len(re.findall(r"bar\.sync", ptx_of(ctx, path, "sm_90a")[0])))
        if meets[0] >= meets[1]:                            # threads meet once for a sum over pieces, not once for each piece
            raise Fail(f"{meets} barriers")


def circular(ctx):
    """sin, cos and tan of f32 and bf16 are kernels of GPUs: lists of instructions, those of large arguments too."""
    with tempfile.TemporaryDirectory() as d:
        for op in ("sin", "cos", "tan"):
            for dtype in ("f32", "bf16"):
                path = pathlib.Path(d) / f"{op}_{dtype}.tsr"
                path.write_text(f"@export\ndef f(x: Tensor['N', {dtype}]):\n    return {op}(x)\n")
                p = process.run([ctx.tessera, "build", "--gpu=sm_90a", path, "-o", f"{path}b"], timeout=100)
                if p.returncode or not list(pathlib.Path(f"{path}b").glob("objects/gpu/*.fatbin")):
                    raise Fail(f"{op} of {dtype}: {p.stderr}")


# Lines along the last axis that are turned, and such that are too few for it.
LINES = '''
random.seed(2)
for dt in (f32, bf16, int32):
    for shape in ((40, 700), (3, 50, 300), (33, 1), (32, 5), (31, 5)):
        x = (random.normal(shape) * 3).to(dt)
        for f in (cumsum, cumprod, cummax, cummin):
            y, z = f(x, -1), f(x.T, -1)
            print(shape, (y.to(f64) * (arange(y.size) % 7).reshape(y.shape)).sum().item(), z.to(f64).sum().item())
x = random.normal((64, 500))
print(grad(lambda x: (cumsum(x, -1) ** 2).sum())(x).sum().item())
'''


def assembled(ctx, machine):
    """ptxas takes the PTX of all kernels of the corpus."""
    ptxas = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    if not ptxas:
        raise Skip("ptxas is not installed")
    made = 0
    with tempfile.TemporaryDirectory() as d:
        for path in sorted((ctx.shared / "corpus/kernel").glob("*.tsr")):
            for text in ptx_of(ctx, path, machine):
                (pathlib.Path(d) / "k.ptx").write_text(text)
                p = subprocess.run([ptxas, f"-arch={machine}", f"{d}/k.ptx", "-o", f"{d}/k.cubin"], capture_output=True, text=True)
                made += 1
                if p.returncode:
                    raise Fail(f"{path.name}: {p.stderr[:800]}")
    if made < 100:
        raise Fail(f"only {made} kernels")


def made(ctx, name, machine):
    """All kernels of a program have code for the chip."""
    if not ptx_of(ctx, ctx.root / f"tests/{name}.tsr", machine):
        raise Fail("no code")


# Products of whole numbers, whose sums are the same in any order.
PARTS = '''
random.seed(5)
for dt in (bf16, f16, int8):
    for m, n, k in ((128, 128, 4096), (130, 260, 1000), (200, 132, 700), (128, 136, 64)):
        x, y = random.randint(-3, 4, (m, k)).to(dt), random.randint(-3, 4, (k, n)).to(dt)
        for z in (x @ y, x[:, :k].contiguous() @ y, (x.T + zeros((1, 1), dtype=dt)).T @ y, x @ (y.T + zeros((1, 1), dtype=dt)).T):
            z = z.to(f64)
            print(dt, m, n, k, z.sum().item(), (z * arange(z.size).to(f64).reshape(z.shape)).sum().item())
'''


def parts(ctx):
    """Products whose steps are divided give the same sums, and there is a kernel more for each."""
    (_, plain), whole = outputs(ctx, PARTS)
    (here, there), divided = outputs(ctx, PARTS, more_env={"TESSERA_PARTS": "5"})
    if here != there or there != plain:
        raise Fail("\n".join(f"{a} | {b} | {c}" for a, b, c in zip(here, there, plain)))
    if int(divided["launch"]) < int(whole["launch"]) + 24:
        raise Fail(f"{divided['launch']} launches, {whole['launch']} undivided")


# What rows of the inventory ask of the instructions of one kernel each: patterns that its code has, on which machine, and such that it has not.
INSTRUCTIONS = {
    "numbers": ("KER-02", "sm_80", [r"%ctaid\.x", r"%tid\.x"], """
@kernel
def who(out: Tensor["N", int32]):
    i = tile.linear_id()
    if i < N:
        out[i] = tile.group_id() * 7 + tile.local_id()
who.launch(grid=2, block=64)(zeros(128, dtype=int32))
"""),
    "own_values": ("KER-07", "sm_80", [r"(?s)\A(?!.*\.local)"], """
@kernel
def mine(x: Tensor["N", f32], y: Tensor["N", f32]):
    m = tile.alloc_register(shape=(8,), dtype=f32)
    i = tile.linear_id()
    for k in range(8):
        m[k] = x[i * 8 + k] * 2.0 if i * 8 + k < N else 0.0
    s = 0.0
    for k in range(8):
        s += m[k] * m[7 - k]
    if i < N:
        y[i] = s
mine.launch(grid=1, block=32)(zeros(256), zeros(256))
"""),
    "stores": ("KER-10", "sm_80", [r"st\.global\.v4\.f32", r"ld\.global\.v4\.f32"], """
@kernel.schedule(Schedule(block=(64, 64)))
def st(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    tile.store(y[block_m:block_m+BM, block_n:block_n+BN], tile.load(x[block_m:block_m+BM, block_n:block_n+BN]) * 2.0)
st(zeros((128, 128)), zeros((128, 128)))
"""),
    "copies": ("KER-15", "sm_80", [r"cp\.async\.c[ag]\.shared\.global \[%r\d+\], \[%rd\d+\], 16, %r\d+", r"cp\.async\.wait_group 0"], """
@kernel
def cp(x: Tensor[64, 64, bf16], y: Tensor[64, 64, bf16]):
    buf = tile.alloc_shared((64, 64), bf16)
    tile.async_copy(src=x[0:64, 0:64], dst=buf, size=(64, 64), stage=0)
    tile.wait_async(stage=0)
    tile.store(y[0:64, 0:64], tile.load_shared(buf))
cp.launch(grid=1, block=128)(zeros((64, 64), dtype=bf16), zeros((64, 64), dtype=bf16))
"""),
    "fragments": ("KER-24", "sm_80", [r"ldmatrix\.sync\.aligned\.m8n8\.x4", r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32"], """
@kernel
def fr(A: Tile["M", "K", bf16], B: Tile["K", "N", bf16], C: Tile["M", "N", f32]):
    a_frag = tile.fragment.a(shape=(16, 16), dtype=bf16)
    b_frag = tile.fragment.b(shape=(16, 16), dtype=bf16)
    c_frag = tile.fragment.c(shape=(16, 16), dtype=f32)
    tile.load_matrix(a_frag, A, stride=16)
    tile.load_matrix(b_frag, B, stride=16)
    tile.mma(c_frag, a_frag, b_frag, c_frag)
    tile.store_matrix(C, c_frag, stride=16)
fr.launch(grid=1, block=32)(zeros((16, 16), dtype=bf16), zeros((16, 16), dtype=bf16), zeros((16, 16)))
"""),
    "mixed": ("KER-25", "sm_90a", [r"mma\.sync\.aligned\.m16n8k32\.row\.col\.f32\.e4m3\.e5m2\.f32"], """
@kernel.schedule(Schedule(block=(64, 64)))
def mx(A: Tensor["M", "K", fp8_e4m3], B: Tensor["K", "N", fp8_e5m2], C: Tensor["M", "N", f32]):
    c = tile.mma_mixed(tile.load(A[block_m:block_m+BM, 0:64]), tile.load(B[0:64, block_n:block_n+BN]), accumulate=f32, saturate=True, rounding="rte")
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], c)
mx(zeros((64, 64), dtype=fp8_e4m3), zeros((64, 64), dtype=fp8_e5m2), zeros((64, 64)))
"""),
    "batches": ("KER-29", "sm_80", [r"cp\.async\.c[ag]\.shared\.global", r"cp\.async\.commit_group", r"cp\.async\.wait_group 0"], """
@kernel
def cpa(src: Tensor["M", "N", f32], out: Tensor["M", "N", f32]):
    dst = tile.alloc_shared((64, 64), f32)
    tile.cp_async(dst, src[block_m:block_m+64, block_n:block_n+64])
    tile.cp_commit_group()
    tile.cp_wait_group(0)
    tile.barrier()
    tile.store(out[block_m:block_m+64, block_n:block_n+64], tile.load_shared(dst))
cpa(zeros((128, 128)), zeros((128, 128)))
"""),
    "vectors": ("KER-30", "sm_80", [r"ld\.global\.v4\.f32", r"ld\.global\.v2\.f32", r"st\.global\.v4\.f32", r"st\.global\.v2\.f32"], """
@kernel
def vec(src: Tensor["N", f32], dst: Tensor["N", f32], d2: Tensor["N", f32]):
    i = tile.linear_id() * 4
    if i < N:
        tile.store_vector(dst[i:i+4], tile.load_vector(src[i:i+4], width=4))
        tile.store_vector(d2[i:i+2], tile.load_vector(src[i:i+2], width=2))
vec.launch(grid=1, block=64)(zeros(256), zeros(256), zeros(256))
"""),
    "ahead": ("MEM-10", "sm_80", [r"cp\.async\.cg\.shared\.global", r"cp\.async\.commit_group", r"cp\.async\.wait_group 1", r"cp\.async\.wait_group 0"], """
@kernel.schedule(Schedule(block=(64, 64), warps=4))
def sums(x: Tensor["M", "N", f32], y: Tensor["M", f32]):
    acc = tile.zeros((BM,), f32)
    for j in range(0, N, BN):
        acc = acc + tile.load(x[block_m:block_m+BM, j:j+BN], prefetch=2).sum(dim=1)
    tile.store(y[block_m:block_m+BM], acc)
sums(zeros((128, 256)), zeros(128))
"""),
    "stages": ("KER-44", "sm_80", [r"cp\.async\.cg\.shared\.global", r"cp\.async\.wait_group 1", r"mma\.sync"], """
@kernel.schedule(Schedule(block=(64, 64), block_k=32))
def staged(A: Tensor["M", "K", bf16], B: Tensor["K", "N", bf16], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK], stages=3), tile.load(B[k:k+BK, block_n:block_n+BN], stages=3), acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], acc)
staged(zeros((128, 128), dtype=bf16), zeros((128, 128), dtype=bf16), zeros((128, 128)))
"""),
}
# Neighbours of neighbouring lanes, which lie apart from the vectors of half of them.
STENCIL = """
@kernel
def smoothed(x: Tensor["N", f32], y: Tensor["N", f32]):
    i = tile.linear_id()
    if 0 < i < N - 1:
        y[i] = x[i-1] + x[i] + x[i+1]
smoothed.launch(grid=1, block=64)(zeros(256), zeros(256))
"""


def instructions(ctx, machine, patterns, text):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(text)
        code, = ptx_of(ctx, path, machine)
        missing = [p for p in patterns if not re.search(p, code)]
        if missing:
            raise Fail(f"none of {missing}\n{code[:4000]}")
        path.write_text(STENCIL)
        if re.search(r"\.v[24]\.", ptx_of(ctx, path, machine)[0]):
            raise Fail("vectors that half of the lanes would have no use for")


def tests(ctx):
    for name, (row, *rest) in INSTRUCTIONS.items():
        yield Test(f"gpu_kernels/instructions-{name}", lambda rest=rest: instructions(ctx, *rest), (row,))
    for name in ("kernels/ker2_matmul", "kernels/own_share", "kernels/ker_warp", "stdlib/kernels_products"):
        for machine in ("sm_80", "sm_90a"):
            yield Test(f"gpu_kernels/made/{name}-{machine}", lambda name=name, machine=machine: made(ctx, name, machine))
    yield Test("gpu_kernels/cases", lambda: same_bits(ctx, CASES))
    yield Test("gpu_kernels/moves", lambda: same_bits(ctx, MOVES))
    yield Test("gpu_kernels/scans", lambda: same_bits(ctx, SCANS))
    yield Test("gpu_kernels/lines", lambda: same_bits(ctx, LINES))
    yield Test("gpu_kernels/parts", lambda: parts(ctx))
    yield Test("gpu_kernels/circular", lambda: circular(ctx))
    yield Test("gpu_kernels/sorts", lambda: same_bits(ctx, SORTS))
    yield Test("gpu_kernels/convolutions", lambda: same_bits(ctx, CONVOLUTIONS))
    yield Test("gpu_kernels/convolutions-in-parts", lambda: same_bits(ctx, PARTED, {"FAKE_CUDA": "memory=32"}))
    yield Test("gpu_kernels/divided", lambda: same_bits(ctx, DIVIDED))
    yield Test("gpu_kernels/moves-stay", lambda: stays(ctx))
    yield Test("gpu_kernels/shapes", lambda: same_bits(ctx, SHAPES))
    yield Test("gpu_kernels/beside", lambda: beside(ctx))
    yield Test("gpu_kernels/whole_rows", lambda: whole_rows(ctx))
    yield Test("gpu_kernels/fast_rows", lambda: fast_rows(ctx))
    yield Test("gpu_kernels/several", lambda: several(ctx))
    yield Test("gpu_kernels/full", lambda: full(ctx))
    yield Test("gpu_kernels/all_have_read", lambda: all_have_read(ctx))
    for seed in range(900, 904):
        yield Test(f"gpu_kernels/random-{seed}", lambda seed=seed: random_functions(ctx, seed))
    for unit in UNITS:
        yield Test(f"gpu_kernels/units-{unit[0]}", lambda unit=unit: units(ctx, *unit), ("CG-02",) if unit[0] == "bf16" else ())
    yield Test("gpu_kernels/registers", lambda: registers(ctx))
    yield Test("gpu_kernels/assembled", lambda: assembled(ctx, "sm_90a"))
