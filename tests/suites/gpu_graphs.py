"""Staged functions that are called again on a GPU: one launch of what the call before put there, with the values that it has now."""
import pathlib
import re
import tempfile

from harness import process, staged
from harness.test import Fail, Test

from . import gpu_kernels
from .gpu_runs import STEP


def run(ctx, text, *argv, how="memory=500", stats=True):
    """The program on the fake GPU: what it prints, its statistics, and what the driver counted."""
    with tempfile.TemporaryDirectory() as d:
        path, log = pathlib.Path(d) / "program.tsr", pathlib.Path(d) / "log"
        path.write_text(text)
        argv = argv or ("run", "--stats")
        p = process.run([ctx.tessera, *argv, "--device", "gpu:0", path], env={**process.fake_driver(ctx.tessera, how), "FAKE_CUDA_LOG": str(log)}, timeout=200)
        if why := process.died(p) or (p.returncode and p.stderr):
            raise Fail(why)
        return p.stdout, p.stderr, {k: int(v) for k, v in map(str.split, log.read_text().splitlines())}


def second_call(ctx):
    """The first call launches each kernel; the second is one launch, which the profile shows; operands that are results of the call before change its addresses."""
    for calls in (1, 2, 9):
        text = STEP.replace("CALLS", str(calls))
        gpu_kernels.same_bits(ctx, text)
        _, _, counted = run(ctx, text)
        if counted["graph"] != calls - 1 or counted["update"] > 1:          # two sets of addresses, in turns
            raise Fail(f"{calls} calls: {counted}")
    _, said, _ = run(ctx, STEP.replace("CALLS", "2"), "prof")
    if not re.search(r"^cudaGraphLaunch +1 ", said, re.M):
        raise Fail(said)
    if run(ctx, STEP.replace("CALLS", "3"), "run", "--no-pass=capture")[2]["graph"]:
        raise Fail("--no-pass=capture")


# Results that live on, that are operands, views or zeros; sizes that change; several functions in turns; numbers that change; random numbers; dtypes.
CASES = '''
random.seed(3)
def show(*xs):
    print([(str(x.dtype), list(x.shape), repr(x.tolist()) if x.size < 200 else repr((x.to(f64) * (arange(x.size) % 7).reshape(x.shape)).sum().item())) for x in xs])

kept = []
f = jit(lambda x, y: (tanh(x @ y), x.T, x, zeros(x.shape), softmax(x + 1.0, axis=-1)[:, :3], (x * 2.0).sum()))
for i in range(6):
    for n in (4, 9, 40):
        x, y = random.normal((n, n)), random.normal((n, n))
        kept.append(f(x, y))
        kept.append(f(x.T, y[:]))
        kept.append(f(x, x))
for k in kept:
    show(*k)

g = jit(lambda x, rate: x - rate * tanh(x))
x = random.normal((300,))
for i in range(9):
    x = g(x, 0.1 * i)
    show(x)

class Net(Module):
    def __init__(self):
        self.table = random.normal((11, 8))
        self.scale = ones(8)
    def __call__(self, x):
        return dropout(layernorm(x @ self.table, weight=self.scale), 0.5)

net = Net()
h = jit(lambda net, x: net(x).sum(axis=0))
for i in range(5):
    show(h(net, random.normal((7, 11))))
    net.scale = net.scale * 1.5

state = zeros((3, 4))
@jit
def count(s, x):
    s = s + x.sum(axis=0)
    return s, s * 2.0
for i in range(5):
    state, twice = count(state, random.normal((6, 3, 4)))
    show(state, twice)
    if i == 2:
        state[1, 2] = 7.0
show(state)

outer = full((8,), 2.0)
@jit
def uses(x): return x * outer + outer.sum()
for i in range(5):
    if i == 3:
        outer = full((8,), 3.0)
    show(uses(ones(8) * i))

for dt in (bf16, f16, f64, int32, int8):
    k = jit(lambda x: (x.to(f32) * 2.0, x.max(axis=0), concat([x, x[:1]]), pad(x, ((1, 0), (0, 2)))))
    for i in range(4):
        show(*k((random.normal((5, 6)) * 9).to(dt)))
s = jit(lambda xs: scan(lambda c, x: (c + tanh(x), c * 2.0), zeros(4), xs))
for i in range(4):
    c, ys = s(random.normal((6, 4)))
    show(c, ys)
'''

MOVED = '''
random.seed(4)
f = jit(lambda x, w: relu(conv2d(x, w, padding=1)))
for i in range(6):
    x, w = random.normal((2, 3, 9, 8)), random.normal((5, 3, 3, 3))
    print(repr(f(x, w).sum().item()))
g = jit(lambda x: (sort(x), cumsum(x, -1), concat([x, x])))
for i in range(6):
    print([repr(y.sum().item()) for y in g(random.normal((3, 400)))])
'''

# Places that index tensors say are found on the GPU: blocks and single elements, several operands, batch axes, duplicates in order, negative ones.
INDEXED = '''
random.seed(1)
def show(*xs):
    print([(str(x.dtype), list(x.shape), repr((x.to(f64) * (arange(x.size) % 7).reshape(x.shape)).sum().item())) for x in xs])
def put_of(x, i, v):
    x = x * 1
    x[i] = v
    return x
gather, two, put = jit(lambda x, i: x[i]), jit(lambda x, i, j: x[i, j]), jit(put_of)
grad_of = jit(grad(lambda x, i, c: (x[i] * c).sum()))
along = jit(lambda x, i: take_along(x, i, -1))
loss = jit(grad(lambda x, t: cross_entropy(x, t)))
for n in range(4):
    for dt in (f32, bf16, f64, int32, int8):
        x = (random.normal((50, 24)) * 9).to(dt)
        i, j = random.randint(-50, 50, (300,)).to(int64 if n % 2 else int32), random.randint(-24, 24, (7, 1)).to(int32)
        show(gather(x, i), gather(x.T, j), two(x, i[:60].reshape(1, 60), j), gather(x, i.reshape(20, 15)[::2, ::3]), put(x, i, (random.normal((300, 24)) * 5).to(dt)))
        show(along(x, random.randint(0, 24, (50, 3))), put(x[:, 0], i, (random.normal((300,)) * 5).to(dt)))
        if dt in (f32, bf16, f64):
            c = random.normal((300, 24)).to(dt)
            show(grad_of(x, i, c), grad_of(x[:, 0], i, c[:, 0]), grad_of(x[:, :5], i, c[:, :5]), loss(x, random.randint(0, 24, (50,))))
'''

OUTSIDE = '''
x = arange(12, dtype=f32).reshape(4, 3)
good, bad = tensor([1, -1, 3]) + 0, tensor([1, -9, 7]) + 0
f = jit(lambda x, i: x[i] * 2.0)
for i in (good, good, good, bad, good, bad, good):
    try:
        print(f(x, i).tolist())
    except IndexError as e:
        print(str(e).split(" (")[0])
try:
    x[bad]
except IndexError as e:
    print(e)
'''

# What the host decides, shows or computes is done anew each time.
HOST = '''
random.seed(3)
@jit
def branch(x): return cond(x.sum() > 0, lambda x: x * 2.0, lambda x: x - 1.0, x)
@jit
def loop(x):
    while (x < 100.0).all():
        x = x * 2.0
    return x
@jit
def says(x):
    print("sum", x.sum().item() if False else x.sum())
    return x + 1.0
@jit
def ranks(x): return nonzero(x > 0) * 2
@jit
def solves(a): return cholesky(a @ a.T + eye(4)) * 2.0
@jit
def asserts(x):
    assert x.sum() < 100.0, "too large"
    return x + 1.0
for i in range(5):
    x = random.normal((4,))
    print(branch(x).tolist(), loop(abs(x) + 0.01 * (i + 1)).tolist(), says(x).tolist(), ranks(x).tolist(), solves(random.normal((4, 4))).tolist())
    try:
        print(asserts(x * (1000.0 if i == 3 else 1.0) ** 2 * sign(x)).tolist())
    except AssertionError as e:
        print(e)
'''


def same_values(ctx, text, graphs):
    gpu_kernels.same_bits(ctx, text)
    _, said, counted = run(ctx, text)
    if (counted["graph"] < graphs) if graphs else counted["graph"]:
        raise Fail(f"{counted}\n{said}")


MEMORY = '''
@jit
def f(x):
    h = [tanh(x * float(i)) for i in range(6)]
    return (h[0] @ h[1] + h[2] @ h[3]) @ (h[4] + h[5])
x = random.normal((256, 256))
for i in range(20):
    x = f(x) * 1e-3
print(repr(x.sum().item()))
'''


def memory(ctx):
    """The memory of values within is taken for the time of the launch; where it is not there in one piece, the graph runs as before."""
    _, said, counted = run(ctx, MEMORY)
    if counted["graph"] != 19 or counted["alloc"] > 5:
        raise Fail(f"{counted}\n{said}")
    want = run(ctx, MEMORY, "run", "--no-pass=capture")[0]
    for how in ("memory=500", "memory=9", "memory=6", "memory=5", "memory=4"):
        if (out := run(ctx, MEMORY, how=how)[0]) != want:
            raise Fail(f"{how}: {out}")
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(MEMORY)
        for how in [f"oom-once={n}" for n in range(1, 5)] + [f"oom-at={n}" for n in range(1, 5)]:
            p = process.run([ctx.tessera, "run", "--device", "gpu:0", path], env=process.fake_driver(ctx.tessera, how), timeout=60)
            if process.died(p) or (p.returncode and "E0744" not in p.stderr) or (not p.returncode and p.stdout != want):
                raise Fail(f"{how}: {p.stdout}{p.stderr}")


WRONG = '''
@jit
def f(x): return tanh(x @ x) + 1.0
x = ones((30, 30))
for i in range(4):
    x = f(x)
print(x.sum().item())
'''


def tells_where(ctx):
    """An error that shows later names the function whose kernels it may come from."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(WRONG)
        p = process.run([ctx.tessera, "run", "--device", "gpu:0", path], env=process.fake_driver(ctx.tessera, "fail-at=1:700"), timeout=60)
    if "E0745" not in p.stderr or not re.search(r"\bf \(.*program\.tsr:6\)", p.stderr):
        raise Fail(p.stderr)


def random_functions(ctx, seed):
    """Each called four times with operands of its own."""
    keep = staged.PRELUDE
    staged.PRELUDE = gpu_kernels.SHOW.replace("for xs in cases:", "for xs in [*cases, *[[x * 1 for x in xs] for xs in cases], *cases]:")
    try:
        gpu_kernels.same_bits(ctx, staged.program(seed, 10))
    finally:
        staged.PRELUDE = keep


def wrong_indices(ctx):
    """An index out of range is told when the host looks, with its number and its size, and not twice."""
    for argv in (("run", "--stats"), ("run", "--no-pass=capture")):
        out, _, counted = run(ctx, OUTSIDE, *argv)
        lines = out.splitlines()
        want = [i in (3, 5, 7) for i in range(8)]
        if [line == "index -9 is out of range for axis 0 of size 4" for line in lines] != want or len({line for line, w in zip(lines, want) if not w}) != 1:
            raise Fail(f"{argv}: {out}")
        if counted["graph"] != (6 if "--stats" in argv else 0):
            raise Fail(f"{counted}")
    try:
        run(ctx, "".join(OUTSIDE.splitlines(True)[:4]) + "f(x, good)\nf(x, good)\nprint('end', flush=True)\nf(x, bad)\n")
        raise Fail("nobody told at the end of the program")
    except Fail as e:
        if "IndexError: index -9 is out of range for axis 0 of size 4 (" not in str(e):
            raise


MODEL = '''
from tessera.models import GPT2
def loss_of(model, ids):
    logits = model(ids[:, :-1])
    return cross_entropy(logits.reshape(-1, logits.shape[-1]).to(f32), ids[:, 1:].reshape(-1))
optimizer = adamw(cosine_schedule(1e-3, 10, end=1e-4), betas=(0.9, 0.95), weight_decay=0.1)
@jit(capture_graph=True)
def step(model, state, ids):
    loss, grads = value_and_grad(loss_of)(model, ids)
    grads, size = clip_by_global_norm(grads, 1.0)
    model, state = optimizer.update(model, grads, state)
    return loss, size, model, state
random.seed(0)
model = GPT2(layers=1, heads=2, width=32, vocabulary=96, context=16, precision="bf16", attention="plain")
state = optimizer.init(model)
for i in range(4):
    loss, size, model, state = step(model, state, random.randint(0, 96, (2, 17)).to(int32))
    print(loss.item(), size.item())
'''


def training_step(ctx):
    """A language model's step, embedding, picked logits and optimiser included, is one launch from its second call on."""
    out, said, counted = run(ctx, MODEL)
    if counted["graph"] < 3 or "not-captured" in "".join(line for line in said.splitlines() if " step " in line):
        raise Fail(f"{counted}\n{said}")
    if run(ctx, MODEL, "run", "--no-pass=capture")[0] != out:
        raise Fail(out)


def tests(ctx):
    yield Test("gpu_graphs/second_call", lambda: second_call(ctx), ("CG-09",))
    yield Test("gpu_graphs/cases", lambda: same_values(ctx, CASES, 60))
    yield Test("gpu_graphs/moved", lambda: same_values(ctx, MOVED, 10))
    yield Test("gpu_graphs/indexed", lambda: same_values(ctx, INDEXED, 70))
    yield Test("gpu_graphs/wrong_indices", lambda: wrong_indices(ctx))
    yield Test("gpu_graphs/training_step", lambda: training_step(ctx))
    yield Test("gpu_graphs/host", lambda: same_values(ctx, HOST, 0))
    yield Test("gpu_graphs/memory", lambda: memory(ctx))
    yield Test("gpu_graphs/tells_where", lambda: tells_where(ctx))
    for seed in range(940, 943):
        yield Test(f"gpu_graphs/random-{seed}", lambda seed=seed: random_functions(ctx, seed))
