"""What profiles say of programs on a GPU: on the driver of the tests here, and by bench/gpu/programs.py on the driver that there is, which records it.

Each test is a function of how Tessera is called and of the environment in which it finds its driver."""
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test

STEP = '''
@jit(capture_graph=True)
def step(w, x, y):
    def loss(w):
        h = gelu(x @ w["a"] + w["b"])
        return ((h @ w["c"] - y) ** 2).mean()
    l, g = value_and_grad(loss)(w)
    return l, {k: w[k] - 1e-3 * g[k] for k in w}

random.seed(0)
w = {"a": random.normal((20, 30)), "b": zeros(30), "c": random.normal((30, 5))}
x, y = random.normal((16, 20)), random.normal((16, 5))
for i in range(CALLS):
    l, w = step(w, x, y)
    print(repr(l.item()), [repr((w[k] * 1.0).sum().item()) for k in w])
'''

NAMED = '''
def inner(x):
    return x * 2.0

def outer(x):
    return inner(x) + inner(x)

def plain(n):
    return n + 1

@jit
def staged(x):
    return outer(x)

for i in range(3):
    y = staged(outer(ones(40)))
    plain(3)
print(y.sum().item(), y.device)
'''


def prof(tessera, env, text, *argv):
    """What the program printed, and what its profile says."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(text)
        p = process.run([tessera, "prof", *argv, path], env=env, timeout=200, memory=None)
    if why := process.died(p) or (p.returncode and p.stderr[-600:]):
        raise Fail(why)
    return p.stdout, p.stderr


def one_launch(tessera, env):
    """The second call of a captured step is one launch of a graph, the third another, and the values are the host's."""
    for calls in (1, 2, 3):
        text = STEP.replace("CALLS", str(calls))
        here, _ = prof(tessera, {}, text)
        there, said = prof(tessera, env, text, "--device", "gpu:0")
        launched = re.search(r"^cudaGraphLaunch +(\d+) ", said, re.M)
        if here != there or (int(launched[1]) if launched else 0) != calls - 1:
            raise Fail(f"{calls} calls: {here} and {there}\n{said}")


def named_ranges(tessera, env):
    """--nvtx lists a range for each function with operations inside, and how often it was called."""
    out, said = prof(tessera, env, NAMED, "--nvtx", "--device", "gpu:0")
    listed = dict(re.findall(r"^(\w+) +(\d+) +[\d.]+$", said.split("range  ", 1)[1], re.M))
    if out != "640.0 gpu:0\n" or listed.get("staged") != "3" or int(listed.get("inner", 0)) < 6 or int(listed.get("outer", 0)) < 3 or "plain" in listed:
        raise Fail(f"{out}\n{said}")


ON_GPUS = {"gpu_runs/one_launch": (one_launch, ("CG-09",)), "gpu_runs/named_ranges": (named_ranges, ("PRF-04",))}


def tests(ctx):
    for name, (test, rows) in ON_GPUS.items():
        yield Test(name, lambda test=test: test(ctx.tessera, process.fake_driver(ctx.tessera)), rows)
