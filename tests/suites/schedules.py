"""The Schedule IR of programs: `inspect --ir schedule` and `run --stats`, and that the values are those of the run op by op."""
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Skip, Test

COMPILED = """
def f(x):
    return (exp(x) * 2 + 1).sum(axis=-1)
DECORATOR
def g(x):
    return f(x)
print(g(arange(12.0).reshape((3, 4)) / 12))
"""

CUSTOM = """
DECORATOR
def apart(x):
    return exp(x) * 2 + 1
@jit
def around(x):
    y = sin(x) * 3 + 2
    return apart(y) * 2 - 1
print(around(arange(6.0)))
print(jit(apart)(arange(6.0)))
"""


FUSIONS = """
@tessera.fusion.horizontal
def two(x, y):
    return exp(x), tanh(y)
x, y = random.normal((300, 70)), random.normal((4000,))
a, b = two(x, y)
print(allclose(a, exp(x)), allclose(b, tanh(y)))
@tessera.fusion.auto
def dense(x, w, b):
    return gelu(layernorm(x) @ w + b)
w, c = random.normal((70, 90)), random.normal((90,))
print(allclose(dense(x, w, c), gelu(layernorm(x) @ w + c), atol=1e-5))
"""


def run(ctx, code, *args):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(code)
        p = process.run([ctx.tessera, *args, path], cwd=d)
    if why := process.died(p):
        raise Fail(why)
    if p.returncode:
        raise Fail(f"exit {p.returncode}: {p.stderr[-800:]}")
    return p


def kernels(text):
    return [int(n) for n in re.findall(r"kernels=(\d+)", text)]


def want(ok, what, p):
    if not ok:
        raise Fail(f"{what}\n{p.stdout}\n{p.stderr}")


SUMMED = """
def f(h, w, d):
    g = (d @ w) * exp(h) + tanh(h)
    return g, (g * 2.0).sum(axis=0), exp(h)

def along(h, w, d):
    g = (d @ w) * h
    return g, g.sum(axis=0), g.max(axis=-1)

def unstored(h, w, d):
    g = d @ w
    return g * h, (g * 3.0).sum(axis=0)

for k in (f, along, unstored):
    for m, n in ((300, 70), (64, 64), (7, 200), (1, 5)):
        h, w, d = random.normal((m, n)), random.normal((40, n)), random.normal((m, 40))
        print(k.__name__, m, n, [bool((a == b).all()) for a, b in zip(jit(k)(h, w, d), k(h, w, d))])
"""


def sums_leave_products(ctx):
    """Sums down the columns of what follows a product are a kernel of their own, of what is stored; the rest is done with the product."""
    text = run(ctx, SUMMED, "inspect", "--ir", "schedule").stdout
    first = re.search(r"graph @f\(.*?\n}", text, re.S)[0]
    nodes = [n.split("\n    }")[0] for n in first.split("= fused(")[1:]]
    if len(nodes) != 2 or "matmul" not in nodes[0] or "sum(" in nodes[0] or "sum(" not in nodes[1] or "matmul" in nodes[1]:
        raise Fail(first)
    for backend in ("cpu", "oracle"):
        p = run(ctx, SUMMED, "run", f"--backend={backend}")
        want(p.stdout.count("True, True") == 12 and "False" not in p.stdout, "the evaluator's bits", p)


def compiled_functions_count_kernels(ctx):
    """FUN-03: kernels of the compiled function, none of its twin, the same output."""
    staged = run(ctx, COMPILED.replace("DECORATOR", "@tessera.compile"), "run", "--stats", "--backend=cpu")
    plain = run(ctx, COMPILED.replace("DECORATOR", ""), "run", "--stats", "--backend=cpu")
    want(kernels(staged.stderr) == [1] and "kernels made=1 " in staged.stderr, "one kernel of g", staged)
    want(not kernels(plain.stderr) and "kernels made" not in plain.stderr, "no kernel of the undecorated twin", plain)
    want(staged.stdout == plain.stdout, "the same output", plain)


def custom_functions_stay_apart(ctx):
    """FUN-23: auto=off in the schedule, every op as it is written, the same values."""
    marked, plain = CUSTOM.replace("DECORATOR", "@tessera.custom"), CUSTOM.replace("DECORATOR", "")
    shown, free = run(ctx, marked, "inspect", "--ir", "schedule"), run(ctx, plain, "inspect", "--ir", "schedule")
    blocks = re.findall(r"^  auto=off \{\n(.*?)^  \}\n", shown.stdout, re.M | re.S)
    want(len(blocks) == 2 and not any("fused" in b for b in blocks), "two blocks without fused nodes", shown)
    want(all(re.findall(r"= (exp|mul|add)\(", b) == ["exp", "mul", "add"] for b in blocks), "the ops of the function in each", shown)
    want(shown.stdout.count("= fused(") == 2 and free.stdout.count("= fused(") == 2 and "auto=off" not in free.stdout,
         "what is around is fused", shown)
    for backend in ("cpu", "oracle", "eval"):
        a, b = (run(ctx, code, "run", f"--backend={backend}") for code in (marked, plain))
        want(a.stdout == b.stdout, "the same values", a)


def passes_come_before_fusion(ctx):
    """--pass with --ir schedule: what the passes leave is fused."""
    code = "@jit\ndef f(x):\n    return exp((x.T).T * 1.5) + 1\nf(ones(2, 3))\n"
    plain = run(ctx, code, "inspect", "--ir", "schedule")
    short = run(ctx, code, "inspect", "--ir", "schedule", "--pass=algebra")
    want(plain.stdout.count("permute(") == 2 and "permute(" not in short.stdout, "permutations before, none after algebra", short)
    want("= fused(" in short.stdout, "a fused node", short)


LIMITED = """
def net(x, ws):
    for w in ws:
        x = tanh(x @ w) * 0.5 + sin(x) * 0.1
    return (x * x).sum()
ws = [random.normal((32, 32)) * 0.2 for _ in range(12)]
x = random.normal((128, 32))
g = jit(grad(net, argnums=1))(x, ws)
print(tessera.debug.memory_report().peak)
print(sum([v.sum() for v in g]))
"""


def limited_functions_compute_again_and_are_fused(ctx):
    """AD-20: under a limit below what it takes, nodes are recomputed, kernels run, the peak is below, and the values are the same."""
    free = run(ctx, LIMITED, "run", "--backend=cpu")
    peak, value = free.stdout.splitlines()
    limit = int(peak) * 19 // 20
    for backend in ("cpu", "oracle", "eval"):
        ran = run(ctx, LIMITED, "run", f"--backend={backend}", "--stats", f"--memory-limit={limit}")
        want(int(ran.stdout.splitlines()[0]) <= limit, f"a peak of at most {limit}", ran)
        want(ran.stdout.splitlines()[1] == value, "the same value", ran)
        launches = re.search(r"launches=(\d+)", ran.stderr)
        want(backend == "eval" or (launches and int(launches.group(1)) > 0), "kernels that ran", ran)
    shown = run(ctx, LIMITED, "inspect", "--ir", "schedule", f"--memory-limit={limit}")
    want("recompute=" in shown.stdout and "= fused(" in shown.stdout, "recompute nodes and fused ones", shown)
    free = run(ctx, LIMITED, "inspect", "--ir", "schedule").stdout
    want(free.count("recompute=") < shown.stdout.count("recompute="), "fewer without a limit", shown)


LEVELS = {"graph": ("tessera.graph v1 hash=", "= exp("), "schedule": ("tessera.schedule v1 hash=", "= fused("),
          "tile": ("tessera.tile v1 hash=", "map exp"), "target": ("\t.text", ".globl")}


def a_file_at_four_levels(ctx):
    """IR-01: each level has its own text of the same file."""
    if "LLVM" not in process.run([ctx.tessera, "version"]).stdout:
        raise Skip("no LLVM in this build")
    code = "@jit\ndef f(x):\n    return (exp(x) * 2 + 1).sum(axis=-1)\nf(ones(2, 3))\n"
    shown = {level: run(ctx, code, "inspect", "--ir", level) for level in LEVELS}
    for level, (head, inside) in LEVELS.items():
        want(shown[level].stdout.startswith(head) and inside in shown[level].stdout, f"the text of {level}", shown[level])
    want(len({p.stdout for p in shown.values()}) == len(LEVELS), "four different texts", shown["target"])


def effects_keep_their_order(ctx):
    """A value that needs a later print is not fused with one that an earlier print shows."""
    code = """
def loud(x):
    print("second", x.shape)
    return sin(x)
@jit
def f(x):
    a = exp(x) + 1
    print("first", a.shape, a)
    return a * tessera.remat(loud)(x)
print(f(ones(3)))
"""
    texts = {run(ctx, code, "run", f"--backend={backend}").stdout for backend in ("cpu", "oracle", "eval")}
    if len(texts) != 1 or [line.split()[0] for line in texts.pop().splitlines()][:2] != ["first", "second"]:
        raise Fail(f"prints out of order: {texts}")


MODEL = """
from schedules_here import GEMM, ROWS

@kernel.schedule(GEMM)
def gemm(a: Tensor["M", "K", f32], b: Tensor["K", "N", f32], c: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(a[block_m:block_m+BM, k:k+BK]), tile.load(b[k:k+BK, block_n:block_n+BN]), acc)
    tile.store(c[block_m:block_m+BM, block_n:block_n+BN], acc)

@kernel.schedule(ROWS)
def scaled(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    i = tile.linear_id()
    if i < M * N:
        y[i // N, i % N] = tanh(x[i // N, i % N]) * 0.5

def layer(x, w):
    h, y = zeros((x.shape[0], w.shape[1])), zeros((x.shape[0], w.shape[1]))
    gemm(x, w, h)
    scaled(h, y)
    return y

random.seed(4)
with tessera.deterministic(seed=1):
    y = layer(random.normal((33, 50)), random.normal((50, 21)))
print(y.tolist())
"""
SCHEDULE_FILES = (
    "GEMM = Schedule(block=(16, 16), block_k=16, warps=1)\nROWS = Schedule(warps=1)\n",
    "GEMM = Schedule(block=(32, 64), block_k=32, warps=4, stages=3, vector=8)\nROWS = Schedule(block_m=128, warps=8, unroll=4)\n",
    "GEMM = Schedule(block=(64, 16), block_k=64, warps=8, swizzle=\"xor\")\nROWS = Schedule(block_m=32)\n",
)


def only_the_schedule_file(ctx):
    """GOAL-12: other schedules, in a file of their own, change what the kernels are and no bit of what the model gives."""
    said, tiles = set(), set()
    for text in SCHEDULE_FILES:
        with tempfile.TemporaryDirectory() as d:
            d = pathlib.Path(d)
            (d / "schedules_here.tsr").write_text(text)
            (d / "model.tsr").write_text(MODEL)
            for backend in ("cpu", "oracle"):
                p = process.run([ctx.tessera, "run", f"--backend={backend}", d / "model.tsr"], cwd=d)
                want(p.returncode == 0 and p.stdout, "it runs", p)
                said.add(p.stdout)
            tiles.add(process.run([ctx.tessera, "inspect", "--ir", "tile", d / "model.tsr"], cwd=d).stdout)
    if len(said) != 1 or len(tiles) != len(SCHEDULE_FILES):
        raise Fail(f"{len(said)} results, {len(tiles)} sets of kernels")


def tables_are_looked_up_inside(ctx):
    code = """
def f(w, p, i):
    return layer_norm(w[i] + p)
jit(f)(ones((5, 64)), ones(64), tensor([[1, 2], [3, 4]]))
"""
    p = run(ctx, code, "inspect", "--ir", "schedule")
    inside = re.search(r"fused\((?:(?!\n  })[\s\S])*index", p.stdout)
    want(inside and not re.search(r"^  %\d+.* = index", p.stdout, re.M), "an index inside of the one kernel", p)
    p = run(ctx, code, "run", "--backend=cpu", "--stats")
    want("launches=1 op-by-op=0" in p.stderr, "one launch", p)


def fusions_are_one_launch_each(ctx):
    """OPT-01, OPT-05: two operations beside each other, and a norm, a product and an activation, are one launch each, on any number of threads."""
    for threads in ("1", "3"):
        p = run(ctx, FUSIONS, "run", "--stats", "--backend=cpu", f"--threads={threads}")
        want(p.stdout == "True True\nTrue\n", "both results are right", p)
        want(" launches=2 op-by-op=0" in p.stderr and kernels(p.stderr) == [1, 1], "one launch each", p)


def losses_are_one_kernel(ctx):
    """A cross entropy reads its logits once for itself and its derivative: one kernel has all of the rows, and nothing is scattered."""
    code = ("@jit\ndef f(x, y):\n    return value_and_grad(lambda x: cross_entropy(x * 2.0, y))(x)\n"
            "print(f(ones((5, 70)), zeros((5,), dtype=int32))[1].shape)\n")
    p = run(ctx, code, "inspect", "--ir", "schedule")
    rows = re.findall(r"^  (%.*) = fused\((.*)\)", p.stdout, re.M)
    want("index_add" not in p.stdout and sum("f32[x_0, x_1]" in y for y, _ in rows) == 1, "one kernel that gives rows", p)


def results_go_past_the_caches(ctx):
    """A schedule may say that results go past the caches: what the kernel reads again does not, other vectors that lie as lines do are stored so."""
    code = "@jit\ndef f(x):\n    return exp(x) * 2.0 + 1.0\n@jit\ndef g(x):\n    return softmax(x, -1)\nx = ones((8, 300))\nf(x)\ng(x)\n"
    plain = run(ctx, code, "inspect", "--ir", "schedule").stdout
    past = re.sub(r"(block\(m=\d+, n=\d+\))", r"\1.past()", plain)
    for text, stores, moves in ((plain, 0, False), (past, 1, True)):
        for level in ("schedule", "tile", "target"):
            p = process.run([ctx.tessera, "opt", "--ir=" + level, "-"], stdin=text)
            if level == "schedule":
                want(p.stdout.count(".past()") == text.count(".past()"), "the schedule as it was", p)
            elif level == "tile":
                found = re.findall(r"store %y0.*", p.stdout)
                want(len(found) == 3 and sum("i=1" in s for s in found) == stores, f"{stores} of 3 stores past the caches", p)
            else:
                want(p.returncode == 0 and bool(re.search(r"\bv?movntp", p.stdout)) == moves, f"stores past the caches: {moves}", p)


def rows_are_asked_for_while_nothing_is_stored(ctx):
    """Of results that go past the caches: the next rows are asked for in a pass that computes, not in the one that stores, if that is cheap."""
    code = "@jit\ndef f(x):\n    m = x - x.mean(-1, keepdims=True)\n    return FX\nf(ones((8, 300)))\n"
    for result, asks in (("m", 0), ("m * (m * m).mean(-1, keepdims=True)", 1)):
        text = run(ctx, code.replace("FX", result), "inspect", "--ir", "schedule").stdout
        p = process.run([ctx.tessera, "opt", "--ir=tile", "-"], stdin=re.sub(r"(block\(m=\d+, n=\d+\))", r"\1.past()", text))
        passes = p.stdout.split(" for ")[1:]
        where = [bool(re.search(r"load %x0.*\bi=\d", s)) for s in passes]
        want(len(where) == 2 + asks and sum(where) == asks and not where[-1], f"{asks} passes ask ahead, the last one does not: {where}", p)


def what_is_kept_lies_beside(ctx):
    """Of rows that are lines: what is kept has memory of its own, so all results go past the caches, and the pass that computes most asks ahead."""
    text = run(ctx, "@jit\ndef f(x):\n    return softmax(x, -1)\nf(ones((8, 300)))\n", "inspect", "--ir", "schedule").stdout
    p = process.run([ctx.tessera, "opt", "--ir=tile", "-"], stdin=re.sub(r"(block\(m=\d+, n=\d+\))", r"\1.past().beside()", text))
    passes = p.stdout.split(" for ")[1:]
    want(len(passes) == 3 and re.search(r"store %y0\S* .*i=1", passes[2]) and "store %y0" not in passes[1] and "store %" in passes[1], "the result's own", p)
    want([bool(re.search(r"load %x0.*\bi=\d", s)) for s in passes] == [False, True, False], "the second pass asks ahead", p)


def rows_are_done_in_turn(ctx):
    """All passes are one loop over pieces, each over rows of another turn; what is kept has its place, which results need not have."""
    text = run(ctx, "@jit\ndef f(x):\n    return softmax(x, -1)\nf(ones((8, 300)))\n", "inspect", "--ir", "schedule").stdout
    named = re.sub(r"rows.block\(m=\d+, n=\d+\)", "rows.block(m=2, n=256).past().turns(5)", text)
    p = process.run([ctx.tessera, "opt", "--ir=schedule", "-"], stdin=named)
    want(p.stdout.count(".past().turns(5)") == 1, "the schedule as it was", p)
    p = process.run([ctx.tessera, "opt", "--ir=tile", "-"], stdin=named)
    loops = [s for s in re.split(r" for ", p.stdout) if "load %x0" in s]
    want("grid((n0+9)//10)" in p.stdout and p.stdout.count(" alloc ") == 1, "groups of ten rows, one buffer", p)
    want(len(loops) == 1 and loops[0].count("load %x0") == 2 and all(s in loops[0] for s in ("reduce max", "reduce sum", "map exp", "store %y0")), "one loop", p)
    for bad in (".turns(0)", ".turns(x)", ".turns(5).past()", ".turns(5"):
        p = process.run([ctx.tessera, "opt", "--ir=tile", "-"], stdin=named.replace(".past().turns(5)", bad))
        want(p.returncode != 0 and "is no schedule" in p.stderr, f"{bad} is refused", p)
    code = ("x = random.normal((701, 3001))\nfor t in [f32, f64]:\n    y = x.to(t)\n"
            "    for f in (lambda x: softmax(x, -1), lambda x: (layer_norm(x), x.max(-1), tanh(x)), lambda x: (x - x.mean(-1, keepdims=True)).std(-1)):\n"
            "        a, b = f(y), jit(f, compile_mode='optimize')(y)\n"
            "        print(all(bool((p == q).all()) for p, q in zip(a, b)) if isinstance(a, tuple) else bool((a == b).all()))\n")
    for flags in (["--threads=1"], ["--threads=2"], ["--threads=7"], ["--threads=2", "--no-pass=turns"]):
        p = run(ctx, code, "run", *flags)
        want(p.stdout == "True\n" * 6, "the evaluator's bits", p)


def columns_stay_near(ctx):
    """Of columns that several passes go over: the first copies them to memory of the group, where what is kept of them takes their place."""
    text = run(ctx, "@jit\ndef f(x):\n    return softmax(x, 0)\nf(ones((300, 64)))\n", "inspect", "--ir", "schedule").stdout
    p = process.run([ctx.tessera, "opt", "--ir=tile", "-"], stdin=re.sub(r"rows.block\(m=\d+, n=\d+\)", "columns.block(m=64, n=256).past().near()", text))
    passes = p.stdout.split(" for ")[1:]
    want(len(passes) == 3 and [s.count("load %x0") for s in passes] == [1, 0, 0] and p.stdout.count(" alloc ") == 1, "it is loaded once", p)
    want([len(re.findall(r"store %\d", s)) for s in passes] == [1, 1, 0] and re.search(r"store %y0\S* .*i=1", passes[2]), "one place for both", p)
    code = ("x = random.normal((700, 12300))\nfor f in (lambda x: softmax(x, 0), lambda x: ((x - x.mean(0)) * rsqrt(x.var(0) + 1e-5), tanh(x) - x.max(0))):\n"
            "    y, z = f(x), jit(f, compile_mode='optimize')(x)\n    print(all(bool((a == b).all()) for a, b in zip(y, z)) if isinstance(y, tuple) else bool((y == z).all()))\n")
    for threads in ("1", "2"):
        p = run(ctx, code, "run", f"--threads={threads}")
        want(p.stdout == "True\nTrue\n", "the evaluator's bits", p)


def softmax_takes_the_machines_own(ctx):
    """AVX-512 has one instruction for x 2^n, and one for the greater of two; what it says of NaN is mended."""
    if "avx512dq" not in pathlib.Path("/proc/cpuinfo").read_text():
        raise Skip("this CPU has no AVX-512")
    p = run(ctx, "@jit\ndef f(x):\n    return softmax(x, -1)\nf(ones((8, 300)))\n", "inspect", "--ir", "target")
    want("vscalefps" in p.stdout and "vrangeps" in p.stdout and "vpslld" not in p.stdout, "vscalefps and vrangeps", p)
    code = ("from math import nan, inf\ns = tensor([0.0, -0.0, nan, 1.0, -1.0, inf, -inf, 1e-40])\n"
            "a, b = s.reshape(8, 1, 1).broadcast_to(8, 8, 16).reshape(8, 128), s.reshape(1, 8, 1).broadcast_to(8, 8, 16).reshape(8, 128)\n"
            "same = lambda x, y: bool(((x == y) & (1.0 / x == 1.0 / y) | isnan(x) & isnan(y)).all())\n"
            "for t in [f32, f64]:\n    for f in [maximum, minimum]:\n        x, y = a.to(t), b.to(t)\n"
            "        print(same(jit(lambda x, y: f(x, y) * 1.0)(x, y), f(x, y)))\n"
            "    x = arange(4096).to(t) * (200.0 if t == f32 else 1500.0) / 4096.0 - (106.0 if t == f32 else 750.0)\n"
            "    print(same(jit(lambda x: exp(x) * 1.0)(x), exp(x)))\n")
    p = run(ctx, code, "run", "--backend=cpu")
    want(p.stdout == "True\n" * 6, "the bits of the loops", p)


def equal_sizes_are_one(ctx):
    """Halves of a row are written as two sizes, which the graph's conditions say are equal: what takes both is one kernel, as if they were one."""
    code = """
@jit
def f(x):
    a, b = x[..., :64], x[..., 64:]
    return concat([a * 0.5 - b * 0.25, b * 0.5 + a * 0.25], -1)
@jit
def g(x):
    n = x.shape[-1] // 2
    a, b = x[..., :n], x[..., n:]
    return (a * b + exp(a)).sum(-1)
x = arange(6 * 128).to(f32).reshape(6, 128) * 0.01
y, a, b = f(x), x[:, :64], x[:, 64:]
print((y[:, :64] == a * 0.5 - b * 0.25).all().item(), (y[:, 64:] == b * 0.5 + a * 0.25).all().item(), (g(x) == (a * b + exp(a)).sum(-1)).all().item())
"""
    p = run(ctx, code, "inspect", "--ir", "schedule")
    want(len(re.findall(r"^  %.* = fused", p.stdout, re.M)) == 2 and not re.search(r"^  %\d+\S* .*= (mul|sub|add|exp|sum)\(", p.stdout, re.M), "a kernel each", p)
    p = run(ctx, code, "run", "--backend=cpu")
    want(p.stdout == "True True True\n", "the same bits", p)


SLICES = """
H, S, D = 8, 40, 16
def heads(x):
    return x.reshape(2, S, H, D).transpose(1, 2)
def attention(w):
    q, k, v = [heads(x) for x in split(w, 3, axis=-1)]
    return (softmax(q @ k.mT * 0.25, dim=-1) @ v).transpose(1, 2).reshape(2, S, H * D)
@jit
def f(w):
    return value_and_grad(lambda w: (attention(w) ** 2).sum())(w)
random.seed(0)
value, slopes = f(random.normal((2, S, 3 * H * D)))
print(value.item(), [float(slopes.to(f64).sum()), slopes.max().item(), slopes.min().item()], slopes[1, 3, ::37].tolist())
"""


def slices_go_through_all(ctx):
    """The products of attention and what is between them are one node each way; the bits are those of node by node on any number of threads."""
    apart = run(ctx, SLICES, "run", "--backend=cpu", "--no-pass=slices")
    for threads in ("1", "2", "3", "7"):
        p = run(ctx, SLICES, "run", "--backend=cpu", f"--threads={threads}")
        want(p.stdout == apart.stdout and p.returncode == 0, "the same bits", p)
    for flag, nodes in ((), 2), (("--no-pass=slices",), 0):
        p = run(ctx, SLICES, "inspect", "--ir", "schedule", *flag)
        want(p.stdout.count("steps.slices") == nodes, f"{nodes} nodes of slices", p)
    alone = SLICES + "jit(lambda x, y: x @ y)(random.normal((4, 64, 32)), random.normal((4, 32, 64)))\n"
    p = run(ctx, alone, "inspect", "--ir", "schedule", "--mode=fast-math")
    products = re.findall(r"= matmul\(.*\) \{(.*)\}", p.stdout)
    want(products.count("fast=1 kind=1") == len(products) - 1 == 6 and products.count("fast=1") == 1, "fast products say that slices go through them", p)


def slices_run(ctx):
    """Once their kernels are there, slices go through attention and no product is done by itself; one slice alone has nothing to go through."""
    code = """
q, k, v = [random.normal((LEAD, 256, 32)) for _ in range(3)]
@jit
def attend(q, k, v):
    return softmax(q @ k.mT, dim=-1) @ v
for i in range(CALLS):
    attend(q, k, v)
"""
    products = {}
    for lead in 1, 6:
        for calls in 3, 6:
            p = run(ctx, code.replace("LEAD", str(lead)).replace("CALLS", str(calls)), "prof", "--backend=cpu", "--threads=2")
            products[lead, calls] = sum(map(int, re.findall(r"^matmul +(\d+) ", p.stderr, re.M)))
    want(products[1, 6] == 2 * products[1, 3] > 0 and products[6, 6] == products[6, 3] <= 4, f"products by themselves: {products}", p)


TESTS = [
    ("slices-go-through-all", slices_go_through_all, []),
    ("slices-run", slices_run, []),
    ("sums-leave-products", sums_leave_products, []),
    ("equal-sizes-are-one", equal_sizes_are_one, []),
    ("softmax-takes-the-machines-own", softmax_takes_the_machines_own, []),
    ("what-is-kept-lies-beside", what_is_kept_lies_beside, []),
    ("columns-stay-near", columns_stay_near, []),
    ("rows-are-done-in-turn", rows_are_done_in_turn, []),
    ("rows-are-asked-for-while-nothing-is-stored", rows_are_asked_for_while_nothing_is_stored, []),
    ("losses-are-one-kernel", losses_are_one_kernel, []),
    ("results-go-past-the-caches", results_go_past_the_caches, []),
    ("a-file-at-four-levels", a_file_at_four_levels, ["IR-01"]),
    ("effects-keep-their-order", effects_keep_their_order, []),
    ("limited-functions-compute-again-and-are-fused", limited_functions_compute_again_and_are_fused, ["AD-20"]),
    ("fusions-are-one-launch-each", fusions_are_one_launch_each, ["OPT-01", "OPT-05"]),
    ("tables-inside", tables_are_looked_up_inside, []),
    ("compiled-functions-count-kernels", compiled_functions_count_kernels, ["FUN-03"]),
    ("custom-functions-stay-apart", custom_functions_stay_apart, ["FUN-23"]),
    ("passes-come-before-fusion", passes_come_before_fusion, []),
    ("only-the-schedule-file", only_the_schedule_file, ["GOAL-12"]),
]


def tests(ctx):
    for name, fn, rows in TESTS:
        yield Test(f"schedules/{name}", lambda f=fn: f(ctx), rows)
