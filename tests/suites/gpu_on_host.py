"""What is computed on the host of what belongs to a GPU: bench/gpu/on_host.py's expressions, and that they print what the host prints."""
import pathlib
import sys

from harness.test import Fail, Test
from suites.gpu import run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "gpu"))
import on_host

LINEAR = {"triangular_solve", "qr", "lu", "cholesky", "svd", "eigh", "fft"}
# The ops of each dtype that have no kernel for GPUs yet (docs/gpu.md has the list).
HOST = {
    "f32": LINEAR | {"argmax", "argmin", "mod", "index", "nonzero", "searchsorted", "conv"},
    "bf16": LINEAR | {"argmax", "argmin", "mod", "index", "nonzero", "searchsorted", "conv"},
    "int32": {"floordiv", "mod", "index", "nonzero", "searchsorted"},
    "uint8": {"argmax", "argmin", "floordiv", "mod", "index", "nonzero", "searchsorted", "index_add"},
    "int64": {"argmax", "argmin", "floordiv", "mod", "index", "nonzero", "searchsorted", "matmul"},
}


def expressions(dtype):
    named = on_host.ANY + (on_host.FLOATS if "f" in dtype else on_host.INTS)
    return [e for e in dict.fromkeys(named) if dtype != "bf16" or "linalg" not in e]


def on_the_host(ctx, dtype):
    text = on_host.program(expressions(dtype), dtype)
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
    if HOST[dtype] - ops - (LINEAR if dtype == "bf16" else set()):
        raise Fail(f"{sorted(HOST[dtype] - ops)} of {dtype} have a kernel now: they leave the list")


def draws(ctx):
    """Random numbers of each kind and dtype: made on the GPU, the host's bits, and in graphs that are put there again."""
    there = run(ctx, "run", "--stats", text=DRAWS.replace("WHERE", '"gpu:0"'))
    here = run(ctx, "run", text=DRAWS.replace("WHERE", '"cpu"'))
    if there.returncode or here.returncode or there.stdout != here.stdout or not there.stdout:
        raise Fail(there.stdout + there.stderr + here.stdout + here.stderr)
    if "on-the-host" in there.stderr or "graphs=3" not in there.stderr:
        raise Fail(there.stderr)


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


def tests(ctx):
    for dtype in HOST:
        yield Test(f"gpu_on_host/{dtype}", lambda dtype=dtype: on_the_host(ctx, dtype))
    yield Test("gpu_on_host/draws", lambda: draws(ctx))
