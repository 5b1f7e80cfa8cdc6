"""A training step through the compiler: one compile for all sizes, the same bits everywhere, objects byte for byte the same."""
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Skip, Test

STEP = """
import sys
SIZE, HEADS, VOCABULARY, LENGTH = 32, 4, 17, 256

def weight(n, m):
    return random.normal((n, m)) * n ** -0.5

def heads_of(x):
    batch, length, _ = x.shape
    return x.reshape(batch, length, HEADS, SIZE // HEADS).transpose(1, 2)

def block(x, p):
    batch, length, _ = x.shape
    q, k, v = split(layer_norm(x) * p["norm1"] @ p["qkv"], 3, axis=-1)
    scores = heads_of(q) @ heads_of(k).mT * (SIZE // HEADS) ** -0.5
    allowed = arange(length)[:, None] >= arange(length)[None, :]
    mixed = softmax(where(allowed, scores, -1e9), dim=-1) @ heads_of(v)
    x = x + mixed.transpose(1, 2).reshape(batch, length, SIZE) @ p["out"]
    return x + gelu(layer_norm(x) * p["norm2"] @ p["up"] + p["up_bias"]) @ p["down"]

def loss_of(params, ids):
    x = params["token"][ids[:, :-1]] + params["position"][:ids.shape[1] - 1]
    for p in params["blocks"]:
        x = block(x, p)
    logits = layer_norm(x) @ params["token"].T
    return cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))

@jit
def step(params, state, ids):
    loss, grads = value_and_grad(loss_of)(params, ids)
    params, state = adamw(lr=1e-2).update(params, grads, state)
    return loss, params, state

random.seed(3)
params = {"token": random.normal((VOCABULARY, SIZE)) * 0.1, "position": random.normal((LENGTH, SIZE)) * 0.1, "blocks": [
    {"norm1": ones(SIZE), "qkv": weight(SIZE, 3 * SIZE), "out": weight(SIZE, SIZE), "norm2": ones(SIZE), "up": weight(SIZE, 4 * SIZE),
     "up_bias": zeros(4 * SIZE), "down": weight(4 * SIZE, SIZE)} for _ in range(2)]}
state = adamw(lr=1e-2).init(params)
for batch, length in CALLS:
    loss, params, state = step(params, state, random.randint(0, VOCABULARY, (batch, length + 1)))
    print(batch, length, loss.item(), sum([p.sum() for p in tree_leaves(params)]).item())
"""

SIZES = [(8, 256), (7, 100), (1, 256), (8, 1), (1, 1), (7, 3), (1, 17), (7, 255), (1, 2)]
FEW = [(2, 100), (3, 33)]


def run(ctx, calls, *args, threads=2, cache=None, fill=None):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(STEP.replace("CALLS", repr(calls)))
        p = process.run([ctx.tessera, "run", "--stats", *args, path], cwd=d, timeout=100,
                        env={"TESSERA_THREADS": str(threads), **({} if cache is None else {"TESSERA_CACHE": str(cache)}),
                             **({} if fill is None else {"TESSERA_FILL": str(fill)})})
    if why := process.died(p):
        raise Fail(why)
    if p.returncode:
        raise Fail(f"exit {p.returncode}: {p.stderr[-800:]}")
    return p


def same(what, a, b):
    if a.stdout != b.stdout:
        raise Fail(f"{what}:\n{a.stdout}\nis not\n{b.stdout}")


def made(p):
    return int(re.search(r"made=(\d+)", p.stderr).group(1))


def one_compile_serves_all_sizes(ctx):
    """One graph, and for batches of 2 and more one set of kernels; short rows and axes of one element have kernels of their own.
    The losses are the evaluator's bits."""
    all_sizes = run(ctx, SIZES, "--backend=cpu")
    if not re.search(r"step compiles=1 calls=9\b", all_sizes.stderr):
        raise Fail(f"not one compile:\n{all_sizes.stderr}")
    batches = [(8, 200), (7, 200), (2, 201), (5, 250)]
    if made(run(ctx, batches, "--backend=cpu")) != made(run(ctx, batches[:1], "--backend=cpu")):
        raise Fail("kernels are made again for other batches and lengths")
    if made(run(ctx, SIZES + SIZES[::-1], "--backend=cpu")) != made(all_sizes):
        raise Fail("kernels are made again for sizes that were there")
    same("compiled and evaluated", all_sizes, run(ctx, SIZES, "--backend=eval"))


def threads_and_caches_change_nothing(ctx):
    """DET-07: the same bits with 1, 2, 3 and 7 threads, from a cold and from a warm cache."""
    with tempfile.TemporaryDirectory() as d:
        first = run(ctx, FEW, "--backend=cpu", threads=1, cache=d)
        for threads in (1, 2, 3, 7):
            same(f"1 thread and {threads}, warm", first, run(ctx, FEW, "--backend=cpu", threads=threads, cache=d))
    same("7 threads, no cache", first, run(ctx, FEW, "--backend=cpu", threads=7, cache=""))


PRODUCTS = """
def bits(x):                                            # which number stands where
    return (x.to(float64).reshape(-1) * arange(x.size).to(float64) % 7919).sum().item()

for m, n, k in [(1650, 70, 300), (70, 3700, 300), (1650, 33, 513), (33, 3701, 40), (1651, 1100, 260), (900, 300, 2000)]:
    for a_lies, b_lies in [(True, True), (True, False), (False, True), (False, False)]:
        a = random.normal((m, k)) if a_lies else random.normal((k, m)).T
        b = random.normal((k, n)) if b_lies else random.normal((n, k)).T
        fs = (lambda a, b: relu(a @ b), lambda a, b: softmax(a @ b, axis=-1))
        print(m, n, k, bits(a @ b), bits(a.to(float64) @ b.to(float64)), *[bits(jit(f)(a, b)) for f in fs])
"""


def shared_products_change_nothing(ctx):
    """Products whose rows or columns threads take block by block, of operands that lie in all ways: the bits of one thread."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "products.tsr"
        path.write_text(PRODUCTS)
        one, *others = [process.run([ctx.tessera, "run", path], env={"TESSERA_THREADS": str(n)}, timeout=100) for n in (1, 2, 3, 7)]
    if one.returncode or one.stdout.count("\n") != 24:
        raise Fail(f"exit {one.returncode}: {one.stderr[-400:]}")
    for p in others:
        same("1 thread and several", one, p)


def memory_as_it_comes_changes_nothing(ctx):
    """The same bits whatever stood in the memory that tensors get: 0, the bytes of NaN, and others."""
    first = run(ctx, FEW, "--backend=cpu", fill=0)
    for fill, backend in ((255, "cpu"), (127, "cpu"), (90, "auto"), (255, "eval")):
        same(f"filled with 0 and {fill}", first, run(ctx, FEW, f"--backend={backend}", fill=fill))


ROWS_OF_BATCHES = """
def network(x, w, v):                                   # x [B, S, D]
    q = layer_norm(x) @ w
    mixed = softmax(q @ q.mT * 0.25, axis=-1) @ x
    return (gelu(mixed @ v) @ v.T + x).mean(axis=1)

x, w, v = random.normal((13, 20, 24)), random.normal((24, 24)), random.normal((24, 50))
for f in (network, jit(network)):
    want = [f(x[i:i + 1], w, v)[0].tolist() for i in range(13)]
    for order in ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [12, 3, 7], [5, 5, 0, 1], [9]):
        print([want[i] for i in order] == f(x[tensor(order)], w, v).tolist())
"""


def places_in_batches_change_nothing(ctx):
    """An example gives the same bits alone, in batches of any size, and at any place in them."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "batches.tsr"
        path.write_text(ROWS_OF_BATCHES)
        for backend in ("cpu", "eval", "auto"):
            for threads in ("1", "3"):
                p = process.run([ctx.tessera, "run", f"--backend={backend}", path], env={"TESSERA_THREADS": threads}, timeout=100)
                if p.stdout != "True\n" * 8:
                    raise Fail(f"{backend}, {threads} threads: {p.stdout}{p.stderr[-400:]}")


def objects_are_the_same_bytes(ctx):
    """Two compilers that have not met give equal files."""
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        for folder, threads in ((a, 1), (b, 2)):
            run(ctx, FEW[:1], "--backend=cpu", threads=threads, cache=folder)
        read = [{p.relative_to(f): p.read_bytes() for p in pathlib.Path(f).rglob("*") if p.is_file()} for f in (a, b)]
        if len(read[0]) < 10 or read[0] != read[1]:
            raise Fail(f"{len(read[0])} and {len(read[1])} files, {sum(read[0].get(k) != v for k, v in read[1].items())} differ")


def tests(ctx):
    if "LLVM" not in process.run([ctx.tessera, "version"]).stdout:
        def skip():
            raise Skip("no LLVM in this build")
        yield Test("compiled/none", skip)
        return
    for f in (one_compile_serves_all_sizes, threads_and_caches_change_nothing, shared_products_change_nothing, memory_as_it_comes_changes_nothing,
              places_in_batches_change_nothing, objects_are_the_same_bytes):
        yield Test(f"compiled/{f.__name__.replace('_', '-')}", lambda f=f: f(ctx))
