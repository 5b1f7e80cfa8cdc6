"""Simulated devices: the same program on any number of them, and what --stats says."""
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test


def run(ctx, n, *args):
    p = process.run([ctx.tessera, "run", "--sim-devices", n, *args], timeout=60, cwd=ctx.root)
    if p.returncode:
        raise Fail(f"on {n} devices: exit code {p.returncode}: {p.stderr[-600:]}")
    return p


def workflow(ctx):
    """The five steps of examples/workflow.tsr."""
    for n in (1, 2, 4):
        out = run(ctx, n, "examples/workflow.tsr").stdout
        if [line[:2] for line in out.splitlines() if re.match(r"\d\. ", line)] != ["1.", "2.", "3.", "4.", "5."]:
            raise Fail(f"on {n} devices the five headings are not there: {out}")
        if f"{n} devices" not in out or "trained: True" not in out or "accounted: True" not in out:
            raise Fail(f"on {n} devices: {out}")


SAME = """
@tessera.distribute
def f(x): return softmax(x @ x.T, axis=-1) @ x
with tessera.deterministic(seed=1):
    x = random.normal((288, 5))
    w = random.normal((5,))
    print(f(x).tolist(), dist.tensor(x, layout=shard(dim=0)).sum().item())
    for _ in range(5):
        d = dist.tensor(x, layout=shard(dim=0))
        value, g = value_and_grad(lambda w: ((d @ w - 1.0) ** 2).mean())(w)
        w = w - 0.1 * g
        print(value.item(), w.tolist())
"""


def same_bits(ctx):
    """In deterministic mode the bits of sums, losses and weights do not depend on the number of devices."""
    outs = {n: run(ctx, n, "-e", SAME).stdout for n in (1, 2, 4, 72)}
    for n, out in outs.items():
        if out != outs[1] or len(out) < 100:
            raise Fail(f"{n} devices print something else than one")


def stats(ctx):
    """--stats names the shards, and the profile has a line for each collective."""
    code = "@tessera.distribute\ndef layer(x): return x @ ones(3, 3)\nlayer(ones(4, 3))\n"
    err = run(ctx, 2, "--stats", "-e", code).stderr
    if "stats: distribute layer: shards=2 of 2" not in err:
        raise Fail(err)
    code = "@tessera.data_parallel\ndef loss(batch): return (batch * batch).mean()\nloss(ones(8, 3))\n"
    err = run(ctx, 4, "--stats", "-e", code).stderr
    if "data_parallel loss: shards=4 of 2" not in err or not re.search(r"all_reduce over dp \(4 ranks\): calls=1 bytes=\d+ collective_us=", err):
        raise Fail(err)


def without_devices(ctx):
    """A mesh of GPUs that are not there says how to have them."""
    p = process.run([ctx.tessera, "run", "-e", "dist.mesh(devices=['gpu:0', 'gpu:1'], axes=('dp',), shape=(2,))"], timeout=20)
    if p.returncode != 1 or "--sim-devices 1" not in p.stderr:
        raise Fail(p.stderr)


BUCKETS = """
@jit
def step(a, b, c):
    x, y = all_reduce(a * 2.0), all_reduce(b + 1.0)
    print("between")
    return x, y, all_reduce(x * c)
@jit
def two(a):
    print("one")
    print("two")
    return random.normal((3,)) + random.normal((3,)) + a
mesh = dist.mesh(devices=tessera.get_devices(), axes=("dp",), shape=(2,))
@tessera.distributed(out="each")
def main(mesh: Mesh):
    return step(ones(4), ones(2, 3), ones(4))[0].tolist(), two(ones(3)).shape
print(main(mesh=mesh))
"""


def buckets(ctx):
    """EFF-09: neighbouring independent sums are one in the schedule; a dependent one stays; prints stay in order; draws are not merged."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "p.tsr"
        path.write_text(BUCKETS)
        p = process.run([ctx.tessera, "inspect", "--sim-devices", 2, "--ir", "schedule", path], timeout=60)
        kept = process.run([ctx.tessera, "inspect", "--sim-devices", 2, "--no-pass=buckets", "--ir", "schedule", path], timeout=60)
    step, two = (p.stdout[p.stdout.index(f"graph @{name}("):].split("\n}\n")[0] for name in ("step", "two"))
    marks = re.findall(r"= all_reduce\(|print\(\) \{name=\"\w+|concat\(", step)
    if marks != ["concat(", "= all_reduce(", 'print() {name="between', "= all_reduce("]:
        raise Fail(f"{marks}\n{step}{p.stderr}")
    if not two.index('name="one') < two.index('name="two') or two.count("= random(") != 2:
        raise Fail(two)
    plain = kept.stdout[kept.stdout.index("graph @step("):].split("\n}\n")[0]
    if plain.count("= all_reduce(") != 3:
        raise Fail(plain + kept.stderr)


def tests(ctx):
    yield Test("dist/buckets", lambda: buckets(ctx), ("EFF-09",))
    for f, rows in ((workflow, ("GOAL-15",)), (same_bits, ("NUM-36", "DET-09", "NVL-07")), (stats, ("FUN-04", "PAR-01")),
                    (without_devices, ())):
        yield Test(f"dist/{f.__name__}", lambda f=f: f(ctx), rows)
