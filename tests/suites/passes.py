"""The compiler's passes on the command line: passes of programs, switching off, dumps, every level as text, verifying."""
import pathlib
import random
import re
import tempfile

from harness import planned, process, staged
from harness.test import Fail, Test

PROGRAM = '''
@tessera.compiler.graph_pass
class RenameExp(GraphPass):
    """Exponentials under a vendor's name."""

    def run(self, graph):
        for node in graph.nodes:
            if node.op == "exp":
                node.op = "vendor_exp"
        return graph

@jit
def f(x, w):
    return softmax(x @ w, axis=-1) + (1.0 + 2.0)

@jit
def g(x):
    return (x.exp() - x.exp()).T.T

x = random.normal((4, 6))
print(f(x, x.T).sum().item(), g(x).sum().item())
'''


def run(ctx, *argv, text=PROGRAM, code=0, env=None):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "model.tsr"
        path.write_text(text)
        p = process.run([ctx.tessera, *argv, path], env=env, cwd=d)
    if why := process.died(p):
        raise Fail(why)
    if p.returncode != code:
        raise Fail(f"exit {p.returncode} of {argv}: {p.stderr[-800:]}")
    return p


def must(condition, what):
    if not condition:
        raise Fail(what)


def user_pass(ctx):
    """A pass written in .tsr shows in --ir graph, is listed, and is disabled by name."""
    shown = run(ctx, "inspect", "--ir", "graph").stdout
    must('name="vendor_exp"' in shown, "the pass did not run")
    off = run(ctx, "inspect", "--ir", "graph", "--no-pass", "RenameExp").stdout
    must("vendor_exp" not in off and "= exp(" in off, "--no-pass did not disable it")
    listed = run(ctx, "inspect", "--passes").stdout
    must(re.search(r"^RenameExp +on +graph +Exponentials under a vendor's name\.$", listed, re.M), listed)
    must(run(ctx, "run").stdout == run(ctx, "run", "--no-pass=RenameExp").stdout, "the values changed")


def every_pass_off(ctx):
    """Each pass off in turn: the same output. An unknown name is said."""
    listed = [l.split()[0] for l in run(ctx, "inspect", "--passes").stdout.splitlines()]
    must({"fold", "cse", "dce", "fuse", "tile.fold"} <= set(listed), listed)
    want = run(ctx, "run").stdout
    for name in listed:
        for backend in ("cpu", "eval"):
            must(run(ctx, "run", f"--backend={backend}", f"--no-pass={name}").stdout == want, f"without {name}")
    must("fused(" not in run(ctx, "inspect", "--ir", "schedule", "--no-pass=fuse").stdout, "fuse ran")
    for verb in (["inspect", "--ir", "graph"], ["run"]):
        wrong = run(ctx, *verb, "--no-pass=fuze,RenameExp,cse", code=1)
        must("error: --no-pass: there is no pass 'fuze'; did you mean 'fuse'?" in wrong.stderr, "a name that no pass has")
        must("RenameExp'" not in wrong.stderr and wrong.stdout, "the program's own pass, or what it printed")


def lowering(ctx):
    """Three sections, and for every op that computes the line of the program that it came from."""
    out = run(ctx, "inspect", "--lowering").stdout
    one = out.split("# ---- graph ----\n")[1]
    parts = re.split(r"# ---- (\w+) ----\n", one)
    must(parts[1::2] == ["schedule", "tile"], parts[1::2])
    for level, text in zip(("graph", "schedule", "tile"), parts[0::2]):
        must(text.startswith(f"tessera.{level} v1 hash="), level)
        ops = [l for l in text.splitlines() if re.search(r" = (fused|call|matmul|(map )?(exp|sub|add|div)|(reduce )?(max|sum))\b", l)]
        must(len(ops) >= 3, text)
        for l in ops:
            must(re.search(r"  # .*\.tsr>?:\d+$|  # .*\.tsr:\d+$", l), f"no line of the program at {level}: {l}")
    line = f"model.tsr:{PROGRAM.splitlines().index('    return softmax(x @ w, axis=-1) + (1.0 + 2.0)') + 1}"
    must(all(line in text for text in parts[0::2]), "the program's own line is lost on the way")


KERNEL = """
@kernel.schedule(Schedule(block_m=8))
def rows(x: Tensor["M", "N", f32], y: Tensor["M", f32]):
    v = tile.load(x[block_m:block_m+BM, 0:N])
    tile.store(y[block_m:block_m+BM], v.sum(dim=1))
y = zeros(20)
rows(ones((20, 3)), y)
"""


def kernel_lowering(ctx):
    """A kernel's source, schedule and tile IR, each op with its line; assembly where a machine is named."""
    for machine, levels in (((), ["schedule", "source", "tile"]), (("--machine", "sm_90a"), ["schedule", "source", "tile", "target"])):
        parts = re.split(r"# ---- (\w+) ----\n", run(ctx, "inspect", "--lowering", *machine, text=KERNEL).stdout)
        must(parts[1::2] == levels, parts[1::2])
        said = dict(zip(levels, parts[2::2]))
        must("block_m=8" in said["schedule"] and "source=explicit" in said["schedule"], said["schedule"])
        must(re.findall(r":(\d+)  ", said["source"]) == ["4", "5"] and "v.sum(dim=1)" in said["source"], said["source"])
        must(re.search(r"= load %x.*# .*:4\n", said["tile"]) and re.search(r"  store %y.*# .*:5\n", said["tile"]), said["tile"])
        must("target" not in said or ".entry kernel" in said["target"], said.get("target"))


def plain(text):
    """Without places, other comments and empty lines."""
    return [l.split("  # ")[0] for l in text.splitlines() if l and not l.startswith("# ")]


def random_texts(ctx, level):
    """What random functions become reads back, on every level, and prints the same."""
    text = run(ctx, "inspect", "--ir", level, text=staged.program(40 + len(level), 60)).stdout
    must(text.count(f"tessera.{level} v1") >= 50, f"{text.count('tessera.')} texts")
    again = process.run([ctx.tessera, "opt", "-"], stdin=text)
    must(again.returncode == 0, again.stderr)
    a, b = plain(text), plain(again.stdout)
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    must(a == b, f"line {i + 1}: {a[i:i + 1]} reads back as {b[i:i + 1]}")


SCHEDULED = """
@tessera.compiler.schedule_pass
class ScheduleOptimizer:
    \"\"\"Optimize existing schedules.\"\"\"

    def optimize(self, schedule: Schedule, kernel: Kernel) -> Schedule:
        schedule = self.tile_loops(schedule)
        schedule = self.unroll_loops(schedule)
        schedule = self.vectorize(schedule)
        schedule = self.optimize_data_layout(schedule)
        schedule = self.insert_prefetching(schedule)
        return self.parallelize(schedule)

@kernel
def plain(a: Tensor["N", f32], c: Tensor["N", f32]):
    i = tile.linear_id()
    if i < N:
        c[i] = a[i] * 2.0

@kernel.schedule(Schedule(block=(16, 8), unroll=2, swizzle="none"))
def told(a: Tensor["N", f32], c: Tensor["N", f32]):
    i = tile.linear_id()
    if i < N:
        c[i] = a[i] * 2.0

@jit
def staged(x):
    return softmax(x * 2.0)

x = arange(1000.0)
for k in (plain, told):
    y = zeros(1000)
    k(x, y)
    print(k.schedule, y.sum().item(), Schedule.parse(repr(k.schedule)) == k.schedule)
print(staged(x[:4]).shape)
"""
MARKS = {"tile_m": 32, "tile_n": 32, "warps": 4, "vector": 8, "swizzle": "xor", "unroll": 4, "prefetch": 1}


def schedule_pass(ctx):
    """A pass over schedules is listed, each of its six steps shows in the schedule of a launch, what is said stays, and --no-pass does without."""
    listed = run(ctx, "inspect", "--passes", text=SCHEDULED).stdout
    must(re.search(r"^ScheduleOptimizer +on +schedule +Optimize existing schedules\.$", listed, re.M), listed)
    lines = [l for l in run(ctx, "inspect", "--ir", "schedule", text=SCHEDULED).stdout.splitlines() if l.startswith("schedule @")]
    plain, told = (dict(w.split("=") for w in l.split()[2:]) for l in lines)
    must(plain == {"source": "default", "passes": "ScheduleOptimizer", **{f: str(v) for f, v in MARKS.items()}}, plain)
    must((told["block_m"], told["unroll"], told["swizzle"], told["tile_m"], told["warps"]) == ("16", "2", "none", "16", "1"), told)
    off = run(ctx, "inspect", "--ir", "schedule", "--no-pass=ScheduleOptimizer", text=SCHEDULED).stdout
    must("schedule @plain source=default\n" in off and "passes=" not in off, off)
    on, without = (run(ctx, "run", *o, text=SCHEDULED).stdout for o in ([], ["--no-pass=ScheduleOptimizer"]))
    must(re.findall(r"\) (\S+) True", on) == ["999000.0", "999000.0"] == re.findall(r"\) (\S+) True", without), on)


def schedule_texts(ctx):
    """inspect --ir schedule reads back by `tessera ir --parse`: the same text, for graphs and for launches; what is no schedule is told by its line."""
    text = plain(run(ctx, "inspect", "--ir", "schedule", text=SCHEDULED).stdout)
    must(sum(l.startswith("schedule @") for l in text) == 2 and sum(l.startswith("tessera.schedule v1") for l in text) == 1, text)
    again = process.run([ctx.tessera, "ir", "--parse", "-"], stdin="\n".join(text) + "\n")
    must(again.returncode == 0 and plain(again.stdout) == text, again.stderr + again.stdout)
    turned = process.run([ctx.tessera, "ir", "-"], stdin="schedule @f source=scope warps=4 block_m=8\n").stdout
    must(turned == "schedule @f source=scope block_m=8 warps=4\n", turned)
    for bad, why in (("source=scope wraps=4", "no field 'wraps'"), ("source=scope warps=none", "'warps' cannot be none"), ("warps=4", "does not say who"),
                     ("source=scope warps=4 warps=4", "given twice"), ("source=scope warps", "expected FIELD=VALUE")):
        p = process.run([ctx.tessera, "ir", "--parse", "-"], stdin=f"schedule @f {bad}\n")
        must(p.returncode == 1 and why in p.stderr, p.stderr)
    one = 's = Schedule.parse("schedule @f source=explicit block_m=8 swizzle=xor prefetch=0")\nprint(s == Schedule(block_m=8, swizzle="xor", prefetch=0))\n'
    must(run(ctx, "run", text=one).stdout == "True\n", "Schedule.parse")


def dumps(ctx):
    err = run(ctx, "run", "--backend=cpu", "--dump-after=cse,fuse,tile.fold,RenameExp").stderr
    names = re.findall(r"^# after (.*)$", err, re.M)
    must(set(names) == {"cse", "fuse", "tile.fold", "RenameExp"}, names)
    every = run(ctx, "run", "--dump-after=all").stderr
    must({"stage", "fold", "cse", "dce", "RenameExp"} <= set(re.findall(r"^# after (.*)$", every, re.M)), "all")
    for name, piece in zip(names, re.split(r"^# after .*\n", err, flags=re.M)[1:]):
        if name == "cse":                               # sizes that are found equal are made one when all passes of staging ran
            continue
        again = process.run([ctx.tessera, "opt", "-"], stdin=piece)
        must(again.returncode == 0 and again.stdout.split()[0] == piece.split()[0], again.stderr + piece)


def opt_levels(ctx):
    """Texts of the three levels read back, are lowered further, and never raised."""
    for level in ("graph", "schedule", "tile"):
        text = run(ctx, "inspect", "--ir", level).stdout
        must(text.count(f"tessera.{level} v1") >= 2, text)
        again = process.run([ctx.tessera, "opt", "-"], stdin=text)
        must(again.returncode == 0 and plain(again.stdout) == plain(text), f"{level}: {again.stderr}{again.stdout}")
        down = process.run([ctx.tessera, "opt", "--ir=target", "-"], stdin=text)
        must(down.returncode == 0 and "ret" in down.stdout, f"{level} to target: {down.stderr}")
        if level != "graph":
            up = process.run([ctx.tessera, "opt", "--ir=graph", "-"], stdin=text)
            must(up.returncode == 1 and "is not raised" in up.stderr, up.stderr)
    folded = process.run([ctx.tessera, "opt", "--pass=tile.fold", "-"], stdin=text)
    must(folded.returncode == 0 and "tessera.tile" in folded.stdout, folded.stderr)
    for wrong in ("cse", "tile.fond"):
        bad = process.run([ctx.tessera, "opt", f"--pass={wrong}", "-"], stdin=text)
        must(bad.returncode == 1 and "there is no pass" in bad.stderr, bad.stderr)
    graph = run(ctx, "inspect", "--ir", "graph").stdout
    fused = process.run([ctx.tessera, "opt", "--pass=fold,fuse", "-"], stdin=graph)
    must(fused.returncode == 0 and fused.stdout.startswith("tessera.schedule v1"), fused.stderr + fused.stdout[:200])


def chains(r):
    """A random function of two matrices, without permuted operands."""
    values, lines = ["x", "y"], []
    for i in range(r.randint(4, 14)):
        a, b = (r.choice(values[-5:]) for _ in "ab")
        lines.append(f"v{i} = " + r.choice((f"{a} + {b}", f"{a} * {b}", f"tanh({a})", f"exp({a}) - {b}", f"where({a} < {b}, {a}, {b})",
                                            f"{a} * {b}.sum(axis=-1, keepdims=True)", f"{a} - {b}.max(axis=0, keepdims=True)")))
        values.append(f"v{i}")
    results = ", ".join(r.sample(values[2:], 2))
    return "@jit\ndef f(x, y):\n    " + "\n    ".join(lines) + f"\n    return {results}\nf(ones((24, 40)), ones((24, 40)))\n"


def plans(ctx):
    """Plans of random functions: no more than what is live at once, and no memory of two values that live together."""
    r = random.Random(11)
    text = "".join(chains(r) for _ in range(30))
    out = run(ctx, "inspect", "--ir", "graph", "--plan", text=text).stdout
    graphs = ["graph @" + g for g in out.split("graph @")[1:]]
    must(len(graphs) == 30, f"{len(graphs)} graphs")
    taken = 0
    for g in graphs:
        taken += g.count("takes over")
        if wrong := planned.check(g, 24, 40):
            raise Fail(wrong + "\n" + g)
    must(taken >= 30, "memory is hardly ever taken over")


MODES = """
def f(x, y):
    return (x * y + 1.0).sum(axis=-1) * 0.1

x, y = (random.normal((64, 1000)) for _ in "xy")
exact = jit(f)(x, y)
with tessera.fast_math(False):
    inner = jit(f)(x, y)
with tessera.deterministic.scope():
    fixed = jit(f)(x, y)
with tessera.fast_math():
    loose = jit(f)(x, y)
print(exact.tolist(), inner.tolist() == fixed.tolist(), allclose(loose, fixed, atol=1e-3), loose.tolist() == exact.tolist())
"""


RULED = """
@custom_jvp
def cube(x):
    return x * x * x

cube.defjvp(lambda p, t: (p[0] * p[0] * p[0], 3.0 * p[0] * p[0] * t[0]))
x = ones(5)
with tessera.FIRST():
    jit(grad(lambda x: cube(x).sum()))(x)
with tessera.THEN():
    jit(grad(lambda x: cube(x).sum()))(x)
"""


def modes(ctx):
    """DET-07: the same bits unless told; fast-math marks what may be reassociated on every level and in the code, and scopes take it back."""
    plain = run(ctx, "run", "--backend=cpu", text=MODES)
    must(plain.stderr == "", f"a plain run says {plain.stderr}")
    again = run(ctx, "run", "--backend=cpu", text=MODES)
    differ = [(a, b) for a, b in zip(plain.stdout.split(), again.stdout.split()) if a != b]
    must(plain.stdout == again.stdout, f"two runs differ: {again.stderr} {len(differ)} words, {differ[:4]} {plain.stdout[-60:]} {again.stdout[-60:]}")
    must(plain.stdout == run(ctx, "run", "--backend=eval", text=MODES).stdout.replace("True True True", "True True False"), plain.stdout[-80:])
    must(plain.stdout.endswith("True True False\n"), plain.stdout[-80:])
    for mode in ("fast-math", "async-nondet"):
        p = run(ctx, "run", "--backend=cpu", "--mode", mode, text=MODES)
        must(p.stderr.startswith(f"mode {mode}: "), p.stderr)
        must(p.stdout.endswith("True True True\n") and p.stdout != plain.stdout, p.stdout[-80:])
    must("mode fast-math" in process.run([ctx.tessera, "repl", "--mode=fast-math"], stdin="").stderr, "the session's banner")
    one = "@jit\ndef f(x, y):\n    return (x * y + 1.0).sum(axis=-1)\nf(ones((4, 300)), ones((4, 300)))\n"
    for level, mark in (("graph", "fast=1"), ("schedule", "fast=1"), ("tile", "fast=1"), ("target", "vfmadd")):
        free, strict = (run(ctx, "inspect", "--ir", level, *o, text=one).stdout for o in (["--mode=fast-math"], []))
        must(mark in free and mark not in strict, f"{level}: {mark}")
    for first, then in (("fast_math", "deterministic.scope"), ("deterministic.scope", "fast_math")):
        graphs = run(ctx, "inspect", "--ir", "graph", text=RULED.replace("FIRST", first).replace("THEN", then)).stdout.split("graph @")[1:]
        must(["fast=1" in g for g in graphs] == [first == "fast_math", then == "fast_math"], f"a custom rule has the scope of another call: {graphs}")
        must(all(g.count("fast=1") >= 3 for g in graphs if "fast=1" in g), f"what a custom rule computes is fast, too: {graphs}")
    p = run(ctx, "run", "--mode=quick", text=one, code=2)
    must(all(m in p.stderr for m in ("deterministic", "fast-math", "async-nondet")), p.stderr)


WIDTHS = """
@jit
def model(x: Tensor["?", WIDTH, f32]) -> Tensor["?", f32]:
    return (x * 2.0 + 1.0).sum(axis=-1)

x = random.normal((5, 768))
print(model(x).tolist() == (x * 2.0 + 1.0).sum(axis=-1).tolist(), model(x[:2]).shape)
"""


def static_width(ctx):
    """CG-12: a width that the signature writes as a number is the bound of the loop, and whole pieces need no tails; a name's is loaded."""
    said = {}
    for kind, width in (("static", "768"), ("dynamic", '"D"')):
        text = WIDTHS.replace("WIDTH", width)
        for backend in ("cpu", "oracle", "eval"):
            must(run(ctx, "run", f"--backend={backend}", text=text).stdout == "True (2,)\n", f"{kind} on {backend}")
        said[kind] = [run(ctx, "inspect", "--ir", level, text=text).stdout for level in ("graph", "tile", "target")]
    graph, tile, target = said["static"]
    must(", 768]" in graph and "i=768" in tile and "imin" not in tile and re.search(r"cmp\w*\s+\$76[78],", target), tile)
    graph, tile, target = said["dynamic"]
    must("768" not in graph and "i=768" not in tile and 'size {name="n1"}' in tile and "imin" in tile and not re.search(r"cmp\w*\s+\$76[78],", target), tile)
    other = run(ctx, "run", text=WIDTHS.replace("WIDTH", "768").replace("random.normal((5, 768))", "random.normal((5, 768))\nmodel(ones((2, 4)))"), code=1)
    must("768" in other.stderr, other.stderr)


def one_operator_graph(ctx):
    """SCI-06: the network of the equation and the transformer of examples/pinn_and_transformer.tsr are one graph, made by one value_and_grad."""
    path = ctx.root / "examples/pinn_and_transformer.tsr"
    lines = path.read_text().splitlines()
    must(sum("value_and_grad(" in l for l in lines) == 1, "one call of value_and_grad")
    p = process.run([ctx.tessera, "inspect", "--ir", "graph", path], timeout=120)
    must(p.returncode == 0 and p.stdout.count("\ngraph @") == 1, p.stderr[-400:])
    physics = next(i for i, l in enumerate(lines, 1) if "h = tanh(stack([x, k * x, k])" in l)
    reader = next(i for i, l in enumerate(lines, 1) if "h = self.lift(" in l)
    for line in (physics, reader):
        must(f"pinn_and_transformer.tsr:{line}" in p.stdout, f"nothing of line {line}: {lines[line - 1]}")
    must("layers.tsr" in p.stdout and "optim.tsr" in p.stdout, "the attention of the library, and the optimiser")


CHAIN = """
@tessera.memory.reuse
def chain(x):
    x = cumsum(x, axis=0)
    x = tanh(x)
    x = cumsum(x, axis=0)
    x = exp(x)
    x = sort(x, axis=0)
    x = x * 2.0
    x = cumsum(x, axis=0)
    x = sqrt(x)
    x = sort(x, axis=0)
    return x + 1.0

x = random.normal((100,))
chain(x)
before = tessera.debug.memory_report(reset=True)
y = chain(random.normal((1 << 16,)))
print((tessera.debug.memory_report().peak - before.live) // (1 << 18))
"""


def chain_of_ten(ctx):
    """OPT-06: ten operations one behind the other need two buffers, in the plan and when they run."""
    p = run(ctx, "inspect", "--ir", "graph", "--plan", text=CHAIN)
    graph = p.stdout
    must(len(re.findall(r"^  %\d+: f32\[x_0\] = (?!constant)", graph, re.M)) == 10, graph)
    must(re.findall(r"^# buffer (\d+): (.*) bytes", graph, re.M) == [("1", "4*x_0"), ("2", "4*x_0")] and graph.count("takes over") == 5, graph)
    for backend in ("cpu", "eval"):
        must(int(run(ctx, "run", f"--backend={backend}", text=CHAIN).stdout) <= 3, "more than its argument and two buffers")


FIRST_CLASS = """
mesh = tessera.Mesh(["gpu:0", "gpu:1"], axes=("data",), shape=(2,))

@jit
def f(q: Tensor["B", "D", bf16], w: Tensor["D", "D", bf16], cache):
    with prefetch(w, into="L2_cache"):
        with tessera.numerics(accumulate=f32):
            y = relu(q @ w)
    cache = cache.append(y[None, None].to(f32), y[None, None].to(f32))
    return all_gather(y, axis="data", dim=0), cache

@tessera.spmd(mesh=mesh)
def run():
    c = KVCache(zeros((1, 1, 3, 4)), zeros((1, 1, 3, 4)))
    y, c = f(ones((2, 4), dtype=bf16), ones((4, 4), dtype=bf16), c)
    return y

print(run().shape)
"""


def first_class(ctx):
    """GOAL-09: numerics, data movement, state and parallelism are in the text of all three levels; texts read back all the same."""
    for level in ("graph", "schedule", "tile"):
        p = run(ctx, "inspect", "--sim-devices", "2", "--ir", level, text=FIRST_CLASS)
        for word in ("accum=f32", "prefetch", "state.append", "all_gather"):
            must(word in p.stdout, f"{level} lacks {word}:\n{p.stdout}")
        again = process.run([ctx.tessera, "ir", "--parse", "-"], stdin=p.stdout)
        must(again.returncode == 0 and plain(again.stdout) == plain(p.stdout), again.stderr)


def bad_pass(ctx):
    """A pass that raises, and one whose class has no run, end the call, not the process."""
    raises = 'def p(graph):\n    raise KeyError("no")\ntessera.compiler.graph_pass(p)\ntry:\n    jit(lambda x: x + 1)(ones(3))\nexcept KeyError as e:\n    print("caught", e)\n'
    must(run(ctx, "run", text=raises).stdout == "caught 'no'\n", "an exception of a pass")
    norun = "try:\n    @tessera.compiler.graph_pass\n    class P:\n        pass\nexcept TypeError as e:\n    print(e)\n"
    must("has no run(self, graph)" in run(ctx, "run", text=norun).stdout, "a class without run")


WHY = '''
rate = 1.0
table = [1, 2]

@jit
def f(x, w, *, mode="a"):
    return (x * rate).sum() + w + len(table)

@jit
def g(x, n):
    if x.shape[0] > 4:
        return x * n
    return x + n

w = ones(3)
f(ones((2, 3)), w)
f(ones((4, 5)), w)
f(ones((2, 3), dtype=f64), ones(3, dtype=f64))
f(ones((2, 3)), w, mode="b")
rate = 2.0
f(ones((2, 3)), w)
table.append(4)
f(ones((2, 3)), w)
g(ones(3), 2)
g(ones(9), 2)
g(ones(3), 3)
print("done")
'''
WHY_LINES = [                                           # each call that becomes a graph, and what differed
    ("16: f is compiled for (f32[2, 3], f32[3])", "its first call"),
    ("18: f is compiled for (f64[2, 3], f64[3])", "argument 1 is f64[2, 3] and was f32["),
    ("19: f is compiled", "the arguments are others: their number, or their names"),
    ("21: f is compiled", "the global rate is 2.0 and was 1.0"),
    ("23: f is compiled", "the global table has 3 parts and had 2"),
    ("24: g is compiled", "its first call"),
    ("25: g is compiled", "the sizes [9] do not meet f32["),
    ("26: g is compiled", "argument 2 is 3 and was 2"),
]


def why_compile(ctx):
    p = run(ctx, "why-compile", text=WHY)
    lines = p.stderr.splitlines()
    must(p.stdout == "done\n" and len(lines) == len(WHY_LINES), p.stderr)
    for line, (start, reason) in zip(lines, WHY_LINES):
        must(start in line and reason in line, f"{line!r}: wanted {start!r} and {reason!r}")
    must(run(ctx, "run", text=WHY).stderr == "", "run says why without being asked")


VENDOR = r'''
#include "tessera_plugin.h"
#include <stdlib.h>
#include <string.h>

/* Every exp becomes sin. */
static void sines(const char *graph, TesseraGive give, void *to, void *state)
{
    char *mine = strdup(graph), *at;

    ++*(int *)state;
    while ((at = strstr(mine, "= exp(")))
        memcpy(at, "= sin(", 6);
    give(to, mine);
    free(mine);
}

static void broken(const char *graph, TesseraGive give, void *to, void *state) { give(to, "tessera.graph v1\ngraph @f() -> () {\n}\n"); }
static void nothing(const char *graph, TesseraGive give, void *to, void *state) {}

int tessera_plugin(const TesseraHost *host)
{
    static int calls;

    if (host->version != TESSERA_PLUGIN_VERSION)
        return 7;
    host->add_graph_pass("VendorSines", "Exponentials are sines.", sines, &calls);
    host->add_graph_pass("VendorNothing", "Leaves graphs alone.", nothing, NULL);
    if (getenv("VENDOR_BROKEN"))
        host->add_graph_pass("VendorBroken", "Gives something else.", broken, NULL);
    return getenv("VENDOR_REFUSES") != NULL;
}
'''
EXPORTED = '''
@export
def f(x: Tensor["N", f32]):
    return exp(x) + 1.0

print(jit(f)(ones(3)).tolist())
'''


def plugin(ctx):
    """A library of another maker adds a pass that is listed and changes the IR; what is none, or gives nonsense, is refused."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "vendor.c").write_text(VENDOR)
        made = process.run(["gcc", "-shared", "-fPIC", "-o", d / "libvendor.so", "-I", ctx.root / "src/tools", d / "vendor.c"])
        must(made.returncode == 0, made.stderr)
        text = "@jit\ndef f(x):\n    return exp(x) + 1.0\nprint(f(ones(3)).tolist())\n"
        lib = f"--plugin={d / 'libvendor.so'}"
        listed = process.run([ctx.tessera, "inspect", "--passes", lib]).stdout
        must(re.search(r"^VendorSines +on +graph +Exponentials are sines\.$", listed, re.M), listed)
        must("= sin(" in run(ctx, "inspect", "--ir=graph", lib, text=text).stdout, "the IR is as it was")
        must("= exp(" in run(ctx, "inspect", "--ir=graph", lib, "--no-pass=VendorSines", text=text).stdout, "--no-pass")
        want, got = run(ctx, "run", text=text).stdout, run(ctx, "run", lib, text=text).stdout
        must(want.startswith("[3.718") and got.startswith("[1.841"), got)
        p = run(ctx, "run", lib, text=text, code=1, env={"VENDOR_BROKEN": "1"})
        must("the pass VendorBroken gave a graph that is none: it takes or gives other values than before" in p.stderr, p.stderr)
        p = run(ctx, "run", lib, text=text, code=2, env={"VENDOR_REFUSES": "1"})
        must("it said 1" in p.stderr, p.stderr)
        for bad, why in ((d / "none.so", "cannot load the plugin"), (d / "vendor.c", "cannot load the plugin")):
            must(why in run(ctx, "run", f"--plugin={bad}", text=text, code=2).stderr, str(bad))
        p = run(ctx, "build", lib, "-o", d / "m.tsb", text=EXPORTED)
        shown = run(ctx, "inspect", "--ir=graph", lib, text=EXPORTED).stdout
        must("= sin(" in shown and (d / "m.tsb").is_dir(), p.stderr)
        called = process.run([ctx.tessera, "run", d / "m.tsb", "f", "[1.0, 1.0]"])
        must("1.84" in called.stdout, called.stdout + called.stderr)


KEPT = '''
@jit
def step(w, xs):
    def loss(w):
        h, total = w, 0.0
        for x in xs:
            h = tanh(h * x)
            total = total + cumsum(h, axis=0).mean()
        return total
    return value_and_grad(loss)(w)

xs = [(sin(arange(65536.0) * 0.001 + i)).reshape(256, 256) for i in range(12)]
w = ones((256, 256))
if DEVICE:
    xs, w = [x.to("gpu:0") for x in xs], w.to("gpu:0")
y, g = step(w, xs)
y, g = step(w, xs)
tessera.debug.memory_report(reset=True)
y, g = step(w, xs)
print(y.item(), g.sum().item(), g[3, 4].item())
print(tessera.debug.memory_report().peak)
'''


def baked_in(ctx):
    """Fusion, recomputation, offloading and the memory plan run by themselves; without any of them the values are the same. Without the plan everything lives to
    the end; a GPU that is too small does where values may leave it, and does not where they may not."""
    listed = dict(l.split()[:2] for l in run(ctx, "inspect", "--passes").stdout.splitlines())
    must([listed.get(p) for p in ("fuse", "recompute", "offload", "memory")] == ["on"] * 4, listed)
    host, far = KEPT.replace("DEVICE", "False"), KEPT.replace("DEVICE", "True")
    want, peak = run(ctx, "run", "--backend=eval", text=host).stdout.splitlines()
    for name in ("fuse", "recompute", "memory", "offload"):
        got, more = run(ctx, "run", "--backend=eval", f"--no-pass={name}", text=host).stdout.splitlines()
        must(got == want and (int(more) > 1.3 * int(peak)) == (name == "memory"), f"without {name}: {got}, {more} bytes, not {want}, {peak}")
    small = process.fake_driver(ctx.tessera, "memory=6")
    must(run(ctx, "run", text=far, env=small).stdout.splitlines()[0] == want, "with values on the host for a while")
    must("E0744" in run(ctx, "run", "--no-pass=offload", text=far, env=small, code=1).stderr, "6 MB suffice")


def tests(ctx):
    yield Test("passes/user-pass", lambda: user_pass(ctx), ("IR-05",))
    yield Test("passes/each-off", lambda: every_pass_off(ctx))
    yield Test("passes/lowering", lambda: lowering(ctx), ("IR-03",))
    yield Test("passes/kernel-lowering", lambda: kernel_lowering(ctx))
    yield Test("passes/dumps", lambda: dumps(ctx))
    for level in ("graph", "schedule", "tile"):
        yield Test(f"passes/random-{level}", lambda l=level: random_texts(ctx, l))
    yield Test("passes/opt-levels", lambda: opt_levels(ctx))
    yield Test("passes/why-compile", lambda: why_compile(ctx))
    yield Test("passes/baked-in", lambda: baked_in(ctx), ("IR-12",))
    yield Test("passes/plugin", lambda: plugin(ctx), ("IR-10",))
    yield Test("passes/plans", lambda: plans(ctx), ("OPT-14",))
    yield Test("passes/schedule-pass", lambda: schedule_pass(ctx), ("SCH-22",))
    yield Test("passes/schedule-texts", lambda: schedule_texts(ctx), ("SCH-09",))
    yield Test("passes/modes", lambda: modes(ctx), ("DET-07",))
    yield Test("passes/static-width", lambda: static_width(ctx), ("CG-12",))
    yield Test("passes/one-operator-graph", lambda: one_operator_graph(ctx), ("SCI-06",))
    yield Test("passes/chain-of-ten", lambda: chain_of_ten(ctx), ("OPT-06",))
    yield Test("passes/first-class", lambda: first_class(ctx), ("GOAL-09",))
    yield Test("passes/bad-pass", lambda: bad_pass(ctx))
