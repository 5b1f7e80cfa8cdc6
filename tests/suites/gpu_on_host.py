"""What is computed on the host of what belongs to a GPU: bench/gpu/on_host.py's expressions, and that they print what the host prints."""
import pathlib
import re
import sys

from harness import process
from harness.test import Fail, Test
from suites.gpu import run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "gpu"))
import on_host
import random_products
import views

PARTS = 3               # programs of a dtype
LINEAR = {"triangular_solve", "qr", "lu", "cholesky", "svd", "eigh", "fft"}
# The ops of each dtype that have no kernel for GPUs yet (docs/gpu.md has the list).
HOST = {
    "f32": LINEAR,
    "bf16": LINEAR,
    "int32": set(),
    "uint8": {"index_add"},
    "int64": {"matmul"},
}


def expressions(dtype):
    named = on_host.ANY + (on_host.FLOATS if "f" in dtype else on_host.INTS)
    return [e for e in dict.fromkeys(named) if dtype != "bf16" or "linalg" not in e]


def on_the_host(ctx, dtype, part):
    text = on_host.program(expressions(dtype)[part::PARTS], dtype)
    p = run(ctx, "run", "--stats", text=text, how="memory=512")
    here = run(ctx, "run", text=text.replace('"gpu:0"', '"cpu"'))
    if p.returncode or here.returncode:
        raise Fail(p.stderr + here.stderr)
    for a, b in zip(p.stdout.splitlines(), here.stdout.splitlines()):
        if a != b:
            raise Fail(f"gpu: {a}\ncpu: {b}")
    said = [l for l in p.stderr.splitlines() if "on-the-host" in l]
    ops = {w.split("=")[0] for l in said for w in l.split("on-the-host")[1].split()}
    if ops - HOST[dtype]:
        raise Fail(f"{sorted(ops - HOST[dtype])} of {dtype} went to the host")


def random_views(ctx, seed):
    """Views of every dtype, empty ones and numbers among them: bench/gpu/views.py."""
    text = views.program(seed)
    there, here = run(ctx, "run", text=text.replace("WHERE", '"gpu:0"')), run(ctx, "run", text=text.replace("WHERE", '"cpu"'))
    if there.stdout != here.stdout or not here.stdout or there.returncode != here.returncode:
        raise Fail("\n".join(f"cpu {a}\ngpu {b}" for a, b in zip(here.stdout.splitlines(), there.stdout.splitlines()) if a != b)[:2000] + there.stderr[-500:])


def nasty(ctx):
    """tests/tensor/nasty_compiled.tsr with its staged functions on the GPU of the tests."""
    path = pathlib.Path(__file__).resolve().parent.parent / "tensor/nasty_compiled.tsr"
    p = process.run([ctx.tessera, "run", path], env={**process.fake_driver(ctx.tessera, "memory=512"), "NASTY_DEVICE": "gpu:0"})
    if process.died(p) or p.returncode or p.stdout.splitlines()[-1:] != ["[]"]:
        raise Fail(p.stdout + p.stderr)


def draws(ctx):
    """Random numbers of each kind and dtype: made on the GPU, the host's bits, and in graphs that are put there again."""
    there = run(ctx, "run", "--stats", text=DRAWS.replace("WHERE", '"gpu:0"'))
    here = run(ctx, "run", text=DRAWS.replace("WHERE", '"cpu"'))
    if there.returncode or here.returncode or there.stdout != here.stdout or not there.stdout:
        raise Fail(there.stdout + there.stderr + here.stdout + here.stderr)
    if "on-the-host" in there.stderr or "graphs=3" not in there.stderr:
        raise Fail(there.stderr)


LONG = """
@kernel
def long(x: Tensor["N", f32], y: Tensor["N", f32], w: tuple):
    i = tile.linear_id()
    if i < N:
        s = 0.0
        for v in w:
            s = sin(s * v + x[i]) + cos(s)
        y[i] = s
x = ones(10).to("gpu:0")
for _ in range(3):
    y = zeros(10).to("gpu:0")
    long(x, y, tuple([float(i % 7) for i in range(4000)]))
print(y[0].item() == y[9].item(), y.device)
"""


def own_kernel(ctx):
    """A kernel of the program that a GPU was chosen for and the host does: --stats says which, how often and why."""
    p = run(ctx, "run", "--stats", text=LONG)
    if p.stdout != "True gpu:0\n" or not re.search(r"^stats: gpu on-the-host kernel long=3: \d+ nodes: too many for one kernel$", p.stderr, re.M):
        raise Fail(p.stdout + p.stderr)


DRAWS = """import tessera.random as random
random.seed(7)
with device(WHERE):
    for dt in [f32, bf16, f16]:
        print(random.normal((100001,)).to(dt).sum().item(), random.normal((1001,), dtype=dt)[-7:], random.uniform((3001,), dtype=dt)[-5:])
    z = random.normal((300000,))
    print(random.uniform((3001,), dtype=f64)[-5:], z.sum().item(), z.max().item(), z.min().item(), (z * z).sum().item(), z[299990:])
    for dt in [int8, uint8, int16, int32, int64]:
        print(random.randint(5, 100, (1000,), dtype=dt)[-9:], random.randint(0, 7, (3, 5), dtype=dt))
    print(random.randint(0, 2**62, (7,), dtype=int64), [random.bernoulli(p, (2000,)).sum() for p in (0.3, 0.0, 1.0)], random.bits((10,)), random.permutation(20))
    f = vmap(lambda k: random.normal((50,), key=k))
    print(f(tensor([[1, 2], [3, 4], [2000000000, 4000000000]], dtype=uint32)).sum(axis=1), random.normal((0,)).shape, random.normal(()))
    @jit
    def g(x):
        return (x + random.normal(x.shape)) * random.uniform(x.shape)
    x = ones((100, 7))
    for i in range(4):
        print(g(x).sum().item(), dropout(x, 0.4).sum().item())
"""


SEARCHES = """x = (sin(arange(100000) * 0.37) * 3.0).to(WHERE)
for sh in [(100000,), (100, 1000), (10, 20, 500), (1, 1, 100000), (100000, 1), (2, 5, 10, 10, 100)]:
    y = x.reshape(*sh)
    m = nonzero(y > 1.0)
    print(m.shape, m.sum(axis=0), m[-3:], nonzero(y > 5.0).shape, nonzero(y < 5.0)[-1])
print(x[x > 1.5].sum(), x[x > 1.5].shape, x[:300][x[:300] != 0.0][:5], nonzero(x[:257]).shape, nonzero(x[:1]), nonzero(x[:0]).shape)
y = x.reshape(1000, 100)
print(y[y[:, 0] > 0].shape, y[y[:, 0] > 0].sum(), y[:, y[0] > 0].shape, nonzero((y.T > 2.9)).sum(axis=0), unique((x * 10).to(int32)), unique(x[:1000]).shape)
for dt in [bool, int8, int64, uint8, uint64, bf16, f16, f64]:
    print(dt, nonzero(x[:3000].to(int8).to(dt)).sum(), nonzero(x[:3000].to(int8).to(dt)).shape)
e = sort(x[:1000])
for dt in [f32, f64, bf16, int32, int64]:
    q = e.to(dt)
    print(dt, searchsorted(q, x[50:5000].to(dt)).sum(), searchsorted(q, x[50:5000].to(dt), right=True).sum(), searchsorted(q, 0), searchsorted(q, 1, right=True), searchsorted(q, x[:9].to(dt).reshape(3, 3)))
z = tensor([1.0, 2.0, 2.0, -0.0, 0.0, float("nan"), float("inf"), float("nan")]).to(WHERE)
print(searchsorted(sort(z), z), searchsorted(sort(z), z, right=True), searchsorted(sort(y[:5], axis=1), y[:5, :4]), searchsorted(sort(z), z.to(f64)), searchsorted(z[:0], z))
print(bincount((x.to(int32) + 3) * 1), topk(x, 5), median(x))
"""

EXTREMES = """x = (sin(arange(100003) * 0.37) * 3.0).to(WHERE)
for dt in [f32, f64, bf16, f16, int32, int64, int8, uint8, bool]:
    y = x.to(int8).to(dt)
    print(dt, y.argmax(), y.argmin(), (y == y).argmax(), argmax(y[:7]), argmax(y[:2]), argmin(y[:1]), argmax(y[5:100000:3]), argmax(y[1:].reshape(2, 50001)), argmax(y.reshape(1, 100003), axis=1), argmax(y.reshape(100003, 1), axis=0, keepdims=True))
z = x + 0.0
z[77777] = float("nan")
print(z.argmax(), z.argmin(), z[:77777].argmax(), z.max(), (x * 0.0).argmax(), (x * -0.0).argmin(), z.reshape(-1, 1).sum(axis=0), x.reshape(1, -1, 1).sum(), x.reshape(1, -1, 1).max(), x.reshape(1, -1, 1).prod(axis=(0, 1)))
for n in [16384, 20000, 36864, 65536 + 1024]:       # by rows
    for dt in [f32, bf16, int32, int8]:
        y = (x[:n].repeat(1) * 40.0).to(dt)
        print(n, dt, y.argmax(), y.argmin(), (y * 0).argmax(), y[1:].argmax())
    y = x[:n] * 1.0
    y[n - 3], y[n // 3], y[n // 3 + 1] = NAN, NAN, NAN
    print(y.argmax(), y.argmin())
@jit
def f(x): return x.argmax(), (x * 2).argmin(), x.reshape(1, 100003, 1).sum()
for i in range(3): print(f(x + i))
y = x[:100000].reshape(100, 1000)
c = (arange(5) * 3).to(WHERE)
print(y[:, c].sum(), y.T[c].sum(), y[:, c, None].shape, y[::2, c][-1], y.reshape(10, 10, 1000)[:, c % 10][2, 1], bincount(c), bincount(c, weights=c * 0.5), index_add(zeros(20), 1.0, c), index_put(zeros(20), 1.0, c), arange(100)[c])
print(one_hot(c, 20).sum(axis=0), vmap(lambda r: r[c])(y).sum(), grad(lambda t: (t[:, c] ** 2).sum())(y).sum())
"""

STRIDED = """random.seed(4)
def show(*xs):
    for x in xs:
        print(x.dtype, x.shape, repr(x.tolist()) if x.size < 300 else repr((x.to(f64) * (arange(x.size).to(x.device) % 7).reshape(x.shape)).sum().item()))
for dt in (f32, f64, bf16):
    for shape, kernel, more in (((2, 3, 9, 8), (5, 3, 3, 3), {"stride": 2}), ((1, 4, 20, 20), (6, 4, 3, 3), {"padding": 1, "stride": 3}), ((3, 4, 11, 7), (8, 2, 3, 2), {"stride": 2, "padding": 1, "groups": 2}),
                                ((2, 6, 6, 6), (4, 6, 1, 1), {"stride": 2}), ((1, 2, 17, 16), (3, 2, 3, 3), {"dilation": 2, "stride": 2}), ((2, 70, 5, 5), (70, 1, 3, 3), {"groups": 70, "padding": 1, "stride": 2}), ((2, 3, 9, 9), (4, 3, 2, 2), {"stride": 4}), ((2, 3, 12, 9), (4, 3, 5, 5), {"stride": 3, "dilation": 2, "padding": 4})):
        x, w = random.normal(shape).to(dt).to(WHERE), random.normal(kernel).to(dt).to(WHERE)
        show(conv2d(x, w, **more), *grad(lambda x, w: (conv2d(x, w, **more) ** 2).sum(), argnums=(0, 1))(x, w), jit(lambda x, w: relu(conv2d(x, w, **more)))(x, w))
        f = jit(grad(lambda x, w: (conv2d(x, w, **more) ** 2).sum(), argnums=(0, 1)))
        for i in range(3): show(*f(x, w))
    x, w = random.normal((2, 3, 7, 6)).to(dt).to(WHERE), random.normal((3, 4, 3, 3)).to(dt).to(WHERE)
    show(conv_transpose2d(x, w, stride=2), conv_transpose2d(x, w, stride=3, padding=1), *grad(lambda x, w: (conv_transpose2d(x, w, stride=2) ** 2).sum(), argnums=(0, 1))(x, w))
    show(grad(lambda x: (conv1d(x, ones((4, 3, 5), dtype=dt).to(WHERE), padding=2, stride=2) ** 2).sum())(random.normal((2, 3, 50)).to(dt).to(WHERE)))
"""

SPREAD_AXES = """random.seed(3)
for dt in [f32, bf16, f64, int32]:
    x = (random.normal((6, 5, 17, 40)) * 9.0).to(dt).to(WHERE)
    for ax in [(0, 2, 3), (0, 2), (1, 3), (0, 3), (0, 1, 3), (0, 1), (2, 3), (0, 1, 2, 3)]:
        print(dt, ax, x.sum(axis=ax), x.max(axis=ax), x.mean(axis=ax, keepdims=True).shape, x.T.sum(axis=ax), (x[:, ::2] > 0).any(axis=ax).sum(), x[:, :1].sum(axis=ax))
    y = x.reshape(2, 3, 5, 17, 40)
    print(y.sum(axis=(0, 2, 4)), y.sum(axis=(1, 3)), y.prod(axis=(0, 2, 4)).shape, x.var(axis=(0, 2, 3)), x[:, :, :0].sum(axis=(0, 2)))
for dt in [f32, f64]:
    a, b = random.normal((2, 3, 2, 7, 9)).to(dt).to(WHERE), random.normal((2, 3, 1, 9, 4)).to(dt).to(WHERE)
    print(a @ b, (b.mT @ a.mT).sum(), (a @ b[0, 0]).sum(), (a[0, 0] @ b).sum(), grad(lambda a, b: ((a @ b) ** 2).sum(), argnums=1)(a, b))
@jit
def f(x, w): return (x * w).sum(axis=(0, 2, 3)), (x - x.mean(axis=(0, 2, 3), keepdims=True)).max(axis=(1, 3))
x = random.normal((6, 5, 17, 40)).to(WHERE)
for i in range(3): print(f(x, x + i))
"""

# Of sums all of whose steps underflow below zero, and of no steps.
SIGNS = """for dt, s in [(f32, 1e-30), (f64, 1e-200)]:
    for m, n, k in [(1, 1, 1), (4, 4, 3), (4, 4, 256), (4, 5, 300), (70, 70, 65), (64, 64, 32), (3, 3, 0), (300, 200, 70), (8, 8, 1000)]:
        a, b = full((m, k), -s, dtype=dt).to(WHERE), full((k, n), s, dtype=dt).to(WHERE)
        print(dt, m, n, k, [(y[0, 0].item(), y[m - 1, n - 1].item()) for y in (a @ b, (a.T.contiguous()).T @ b, a @ b.T.contiguous().T, (a @ b) * 1.0)])
"""

# On a chip that has warpgroups, whose kernels the driver of the tests does not run: products of f32 that go to tf32, and their launches. Tensor copies
# round operands; the right one is copied before where it lies by its columns; what else uses a rounded operand gets it.
ROUNDED = {"nt(a, b)": 1, "nn(a, w)": 2, "(lambda: a @ b.T)()": 1, "follows(a, b)": 1, "shown(a, b)": 2, "nt(a[:, 1:], b[:, 1:])": 3}
ROUNDING = """a, b, w = [zeros(s).to("gpu:0") for s in ((256, 512), (384, 512), (512, 384))]
nt, nn, shown = jit(lambda a, b: a @ b.T), jit(lambda a, b: a @ b), jit(lambda a, b: (a @ b.T, relu(a)))
follows = jit(lambda a, b: relu(a @ b.T + 1.0))
with tessera.numerics(compute=tf32, accumulate=f32):
    CALL
"""


def rounded(ctx):
    for call, launches in ROUNDED.items():
        p = run(ctx, "run", "--stats", text=ROUNDING.replace("CALL", call), how="chip=90,memory=512")
        if p.returncode or f"gpu launches={launches} " not in p.stderr:
            raise Fail(f"{call}: {launches} launches, not {re.findall('gpu launches=.*', p.stderr)} {p.stderr[-300:]}")


def of_no_steps(ctx):
    """Products of bytes over no steps on a chip with warpgroups, where operands that lie across are copied, end."""
    p = run(ctx, "run", text='a, b = zeros((4, 300, 0), dtype=int8).to("gpu:0"), zeros((1, 0, 127), dtype=int8).to("gpu:0")\nprint((a @ b).shape, (a.mT.contiguous().mT @ b).shape)',
            how="chip=90,memory=512")
    if p.returncode or p.stdout != "(4, 300, 127) (4, 300, 127)\n":
        raise Fail(p.stdout + p.stderr)


def products(ctx, seed):
    """Random products, what follows them, and how their operands lie: bench/gpu/random_products.py."""
    same(ctx, random_products.program(seed, 24), random_products.HOST)


DIVISIONS = """x = (arange(1000) - 500).reshape(20, 50).to(WHERE)
d = (arange(1000) % 7 + 1).reshape(20, 50).to(WHERE)
for dt in [int8, int16, int32, int64, uint8, uint32]:
    a, b = x.to(dt), d.to(dt)
    print(a % 30, a // 7, (a % b).sum(), (a // b)[3], (a // b[0]).sum(), 100 // b[0, :4], a // tensor(3, dtype=dt).to(WHERE))
@jit
def f(x, d): return (x % 30) // 4 + x % d
for i in range(3): print(f(x, d + i).sum())
for e in (lambda: x % 0, lambda: x // (d - 1), lambda: x % (d * 0), lambda: f(x, d - 1)):
    try: print(e())
    except ZeroDivisionError as err: print(err)
print((x % 3 == 0).sum(), f(x, d).sum(), (x[:0] % d[:0]).shape, (-128 * ones((2,), dtype=int8)).to(WHERE) // (-1 * ones((2,), dtype=int8)).to(WHERE))
"""


def same(ctx, text, hosts=()):
    """A program prints on a GPU what it prints on the host, and nothing but `hosts` is computed there."""
    there, here = run(ctx, "run", "--stats", text=text.replace("WHERE", '"gpu:0"'), how="memory=512"), run(ctx, "run", text=text.replace("WHERE", '"cpu"'))
    if there.returncode or here.returncode or there.stdout != here.stdout or not there.stdout:
        raise Fail(there.stdout + there.stderr + here.stdout + here.stderr)
    ops = {w.split("=")[0] for l in there.stderr.splitlines() if "on-the-host" in l for w in l.split("on-the-host")[1].split()}
    if ops - set(hosts):
        raise Fail(f"{sorted(ops)} went to the host")


def tests(ctx):
    for dtype in HOST:
        for part in range(PARTS):
            yield Test(f"gpu_on_host/{dtype}_{part}", lambda dtype=dtype, part=part: on_the_host(ctx, dtype, part))
    yield Test("gpu_on_host/own_kernel", lambda: own_kernel(ctx))
    yield Test("gpu_on_host/draws", lambda: draws(ctx))
    yield Test("gpu_on_host/nasty", lambda: nasty(ctx))
    yield Test("gpu_on_host/searches", lambda: same(ctx, SEARCHES, ["searchsorted"]))                  # of an empty tensor
    yield Test("gpu_on_host/extremes", lambda: same(ctx, EXTREMES, ["argmin"]))                        # of one element
    for seed in (1, 2, 7):
        yield Test(f"gpu_on_host/products_{seed}", lambda seed=seed: products(ctx, seed))
    yield Test("gpu_on_host/signs", lambda: same(ctx, SIGNS))
    yield Test("gpu_on_host/rounded", lambda: rounded(ctx))
    yield Test("gpu_on_host/no_steps", lambda: of_no_steps(ctx))
    yield Test("gpu_on_host/divisions", lambda: same(ctx, DIVISIONS))
    yield Test("gpu_on_host/strided_convolutions", lambda: same(ctx, STRIDED))
    for seed in (7, 12, 41, 58):
        yield Test(f"gpu_on_host/views_{seed}", lambda seed=seed: random_views(ctx, seed))
    yield Test("gpu_on_host/spread_axes", lambda: same(ctx, SPREAD_AXES, ["sum"]))                     # of empty tensors
