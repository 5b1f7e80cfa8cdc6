"""What a run tells about itself: --stats, --trace-shapes, --trace-fold, --rng; and `tessera inspect`."""
import re

from harness import process
from harness.test import Fail, Test


def ran(ctx, code, *options):
    """(standard output, standard error) of a program that must end well."""
    p = process.run([ctx.tessera, "run", *options, "-e", code])
    if why := process.died(p):
        raise Fail(why)
    if p.returncode:
        raise Fail(f"exit code {p.returncode}: {p.stderr[-300:]}")
    return p.stdout, p.stderr


def wanted(have, want):
    if have != want:
        raise Fail(f"wanted {want!r}, got {have!r}")


STAGED = """
@jit(static_argnums=(1,))
def scaled(x, n):
    return x * n
def plain(x, n):
    return x * n
"""


def stats(ctx, calls):
    out, err = ran(ctx, STAGED + calls, "--stats")
    return [line for line in err.splitlines() if line.startswith("stats: ")]


def stats_count_graphs(ctx):
    wanted(stats(ctx, "scaled(ones(3), 2)\nscaled(ones(3), 2)\n"), ["stats: scaled compiles=1 calls=2 kernels=0"])
    wanted(stats(ctx, "scaled(ones(3), 2)\nscaled(ones(3), 4)\n"), ["stats: scaled compiles=2 calls=2 kernels=0"])
    wanted(stats(ctx, "plain(ones(3), 2)\n"), [])


def one_graph_for_all_sizes(ctx):
    """A training step of a transformer: batches of 1, 7 and 8, lengths of 1 to 256. A net of convolutions: pictures of any multiples of 4."""
    for name, said in ("sizes", "stats: train compiles=1 calls=6 "), ("window_sizes", "stats: <lambda> compiles=1 calls=3 "):
        p = process.run([ctx.tessera, "run", "--stats", "--backend=cpu", ctx.root / f"tests/compiler/{name}.tsr"], timeout=60)
        if p.returncode or said not in p.stderr:
            raise Fail(f"{name}: exit code {p.returncode}: {p.stdout[-200:]} {p.stderr[-300:]}")


def stats_leave_the_output(ctx):
    call = "print(scaled(ones(3), 2).tolist(), plain(ones(3), 2).tolist())\n"
    if ran(ctx, STAGED + call, "--stats")[0] != ran(ctx, STAGED + call)[0]:
        raise Fail("--stats changes standard output")


CHECKPOINTED = """
w = eye(4) * 0.5
def layer(x):
    return (x @ w).tanh()
@tessera.checkpoint.policy("selective")
def model(x):
    x = layer(x)
    x = tessera.checkpoint_here(layer(x))
    x = layer(x)
    x = tessera.checkpoint_here(layer(x))
    return x
@tessera.checkpoint
def bare(x):
    return layer(layer(x))
def plain(x):
    return layer(layer(layer(x)))
"""


def memory_kept(ctx, function):
    """(lines, shapes, summary) of --trace-memory for one gradient."""
    out, err = ran(ctx, CHECKPOINTED + f"g = grad(lambda v: {function}(v).sum())(ones(2, 4))\n", "--trace-memory")
    saved = re.findall(r":(\d+) saved (\S+ ?\S*\]) (\d+) bytes", err)
    return [int(s[0]) for s in saved], {s[1:] for s in saved}, err.splitlines()[-1]


def memory_is_what_is_kept(ctx):
    wanted(memory_kept(ctx, "model"), ([8, 10], {("f32[2, 4]", "32")}, "memory: the backward pass keeps 2 values, 64 bytes"))
    wanted(memory_kept(ctx, "bare"), ([], set(), "memory: the backward pass keeps 0 values, 0 bytes"))
    wanted(memory_kept(ctx, "plain")[2], "memory: the backward pass keeps 3 values, 96 bytes")


def stats_after_a_failure(ctx):
    p = process.run([ctx.tessera, "run", "--stats", "-e", STAGED + "scaled(ones(3), 2)\n1 // 0\n"])
    if p.returncode != 1 or "stats: scaled compiles=1 calls=1 kernels=0" not in p.stderr:
        raise Fail(f"exit code {p.returncode}: {p.stderr}")


def kernels_are_timed(ctx):
    """A line for each kernel with its sizes, added up over calls; the dearest first."""
    code = """
@jit
def f(x):
    return tanh(x * 2.0 + 1.0)
@jit
def g(x):
    return (x @ x).sum()
for i in range(3):
    f(ones(300, 700))
    g(ones(400, 400))
"""
    _, err = ran(ctx, code, "--trace-kernels", "--backend=cpu")
    lines = err.splitlines()
    rows = [line.split(None, 9) for line in lines[1:-1]]
    share, found = [float(r[0]) for r in rows], {r[9].split("  ")[0]: r for r in rows}
    wanted(lines[0].split()[-1], "what")
    wanted(share, sorted(share, reverse=True))
    for what, megabytes in (("mul add tanh -> f32[300, 700]", "1.68"), ("matmul f32[400, 400], f32[400, 400] -> f32[400, 400]", "1.92")):
        wanted([found[what][k] for k in (1, 6)] if what in found else sorted(found), ["3", megabytes])
    if not 99 < sum(share) < 101 or any(float(r[4]) > float(r[2]) for r in rows):
        raise Fail(err)


def shapes_of_every_op(ctx):
    code = "x = ones((2, 3))\ny = x @ ones((3, 4))\nz = (y + 1.0).sum(axis=0)\n"
    _, err = ran(ctx, code, "--trace-shapes")
    wanted(err.splitlines(), ["<code>:1 full -> f32[2, 3]", "<code>:2 full -> f32[3, 4]",
                              "<code>:2 matmul f32[2, 3] f32[3, 4] -> f32[2, 4]",
                              "<code>:3 add f32[2, 4] f32[] -> f32[2, 4]", "<code>:3 sum f32[2, 4] -> f32[4]"])


def shapes_inside_graphs(ctx):
    code = "@jit\ndef f(x):\n    return (x * x).sum()\nx = ones((2, 3))\nf(x)\nf(x)\n"
    _, err = ran(ctx, code, "--trace-shapes")
    inside = [line for line in err.splitlines() if line.startswith("<code>:3 ")]
    wanted(inside, ["<code>:3 mul f32[2, 3] f32[2, 3] -> f32[2, 3]", "<code>:3 sum f32[2, 3] -> f32[]"] * 2)


FOLD = """
calls = 0
@tessera.fold
def tree_reduce(a, b):
    global calls
    calls += 1
    return a + b
print(tree_reduce(ones(8)).item(), calls)
"""


def levels_of_a_fold(ctx):
    out, err = ran(ctx, FOLD, "--trace-fold")
    wanted(out, "8.0 7\n")
    wanted(err.splitlines(), ["fold: level 1: 4 calls", "fold: level 2: 2 calls", "fold: level 3: 1 call"])
    wanted(ran(ctx, FOLD)[1], "")


def keys(ctx, code):
    _, err = ran(ctx, code, "--rng")
    return re.findall(r"random .* key ([0-9a-f]{16})", err)


def keys_are_unique(ctx):
    code = ("@jit\ndef f(x):\n    return x + random.normal((3,)) + random.uniform((3,))\n"
            "random.seed(3)\nfor i in range(4):\n    f(ones(3))\n    random.normal((2, 2))\nvmap(lambda x: random.normal((2,)) + x)(ones(3))\n")
    first, again = keys(ctx, code), keys(ctx, code)
    if first != again:
        raise Fail("two runs draw from other keys")
    if len(first) < 13 or len(set(first)) != len(first):
        raise Fail(f"{len(first)} random ops, {len(set(first))} keys")
    if set(first) & set(keys(ctx, code.replace("seed(3)", "seed(4)"))):
        raise Fail("another seed shares keys")


def inspect_op(ctx):
    p = process.run([ctx.tessera, "inspect", "--op", "fft"])
    if p.returncode or "adjoint: ifft·n" not in p.stdout:
        raise Fail(p.stdout + p.stderr)
    p = process.run([ctx.tessera, "inspect", "--op", "mat_mul"])
    if p.returncode != 1 or "did you mean 'matmul'?" not in p.stderr or p.stderr.count("\n") != 1:
        raise Fail(p.stdout + p.stderr)


def inspect_lists_every_op(ctx):
    names = [line.split()[0] for line in process.run([ctx.tessera, "inspect"]).stdout.splitlines()]
    for name in names:
        out = process.run([ctx.tessera, "inspect", "--op", name]).stdout
        linear = re.search(r"^laws: .*linear", out, re.M)
        if not out.startswith(name + ": ") or "adjoint: " not in out or (linear and "adjoint: none" in out):
            raise Fail(f"{name}: {out}")
    if len(names) < 100:
        raise Fail(f"only {len(names)} operations")


TESTS = [("stats-count-graphs", stats_count_graphs, ["FUN-17"]), ("one-graph-for-all-sizes", one_graph_for_all_sizes, []), ("stats-leave-the-output", stats_leave_the_output, []),
         ("stats-after-a-failure", stats_after_a_failure, []), ("kernels-are-timed", kernels_are_timed, []), ("shapes-of-every-op", shapes_of_every_op, ["TYP-27"]),
         ("shapes-inside-graphs", shapes_inside_graphs, ["TYP-27"]), ("levels-of-a-fold", levels_of_a_fold, ["FUN-15"]),
         ("memory-is-what-is-kept", memory_is_what_is_kept, ["AD-13"]), ("keys-are-unique", keys_are_unique, ["DET-10"]), ("inspect-op", inspect_op, ["AD-21"]),
         ("inspect-lists-every-op", inspect_lists_every_op, ["AD-21"])]


def tests(ctx):
    return [Test(f"watch/{name}", lambda f=f: f(ctx), tuple(rows)) for name, f, rows in TESTS]
