"""Profiles: the report of tessera.profile, and the table, trace, flame graph and memory timeline of `tessera prof`."""
import json
import os
import pathlib
import re
import shutil
import tempfile
import xml.dom.minidom

from harness import process
from harness.test import Fail, Test

THREE = """
def small(x):
    return x + 1.0

def large(x):
    return sort(x, axis=-1)

def middle(x):
    return x * 2.0

@tessera.profile(level="detailed")
def model(x):
    return middle(large(small(x)))

x = random.normal((600, 4000))
y = model(x)
r = tessera.profile.report()
print([e.op for e in r.events], sum([e.own for e in r.events]) == r.total, y.tolist() == model.__wrapped__(x).tolist())
"""
NAIVE = """
def attention(q, k, v):
    scores = q @ k.mT * 0.125
    scores = exp(scores - scores.max(axis=-1, keepdims=True))
    return (scores / scores.sum(axis=-1, keepdims=True)) @ v

@tessera.profile
def model(x):
    y = attention(x, x, x)
    r = tessera.profile.report()
    return y, r

x = random.normal((4, 200, 16))
_, r = model(x)
flops = {o: sum([e.flops for e in r.events if e.op == o]) for o in {e.op for e in r.events}}
moved = {o: sum([e.bytes for e in r.events if e.op == o]) for o in flops}
print("counted", {o: (flops[o], moved[o]) for o in sorted(flops)})
"""
RUN = """
@jit
def kernel_of_mine(x):
    return softmax(x * 2.0, axis=-1) + 1.0

def helper(x):
    return sort(x)

x = random.normal((200, 300))
for i in range(3):
    y = kernel_of_mine(x)
z = helper(y)
big = zeros((512, 1024))
del big
print(tessera.debug.memory_report().peak)
"""
RANKS = """
mesh = tessera.Mesh(["gpu:0", "gpu:1"], axes=("data",), shape=(2,))

@tessera.spmd(mesh=mesh)
def run(x):
    return all_reduce((x * 2.0).sum())

print(run(ones(1000)).item())
"""


def run(ctx, text, *args):
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "model.tsr").write_text(text)
        p = process.run([ctx.tessera, *args, d / "model.tsr"], cwd=d, timeout=60)
        files = {f.name: f.read_text() for f in d.iterdir()}
    if why := process.died(p) or (p.returncode and p.stderr[-600:]):
        raise Fail(why)
    return p, files


def must(condition, what):
    if not condition:
        raise Fail(what)


def in_ms(text):
    return float(text[:-2])


def report(ctx):
    """All headings; shares are all of it; the slowest is marked, and nothing else; the total is the sum."""
    out = run(ctx, THREE, "run")[0].stdout
    for heading in ("Performance Profile:", "Total time: ", "Breakdown by operation:", "Bottleneck Analysis:", "Optimization suggestions:",
                    "Estimated optimized time: "):
        must(sum(l.startswith(heading) for l in out.splitlines()) == 1, f"{heading}\n{out}")
    rows = {m[0]: (in_ms(m[1]), float(m[2])) for m in re.findall(r"^  (\w+): ([\d.]+ms) \(([\d.]+)%\)", out, re.M)}
    must({"small", "large", "middle"} <= set(rows), out)
    must(99 <= sum(share for _, share in rows.values()) <= 101, rows)
    total = in_ms(re.search(r"Total time: (\S+)", out)[1])
    must(abs(sum(ms for ms, _ in rows.values()) - total) <= 0.01 * total + 0.1 * len(rows), (rows, total))
    slowest = {"small": "add", "large": "sort", "middle": "mul"}[max(rows, key=rows.get)]
    marked = re.findall(r"^    - (\w+):.*← Bottleneck!$", out, re.M)
    must(marked == [slowest] and out.count("Bottleneck!") == 1, out)
    must(out.rstrip().endswith("True True"), out[-200:])
    wrong = process.run([ctx.tessera, "run", "-e", "try:\n    tessera.profile(level='deep')(print)\nexcept ValueError as e:\n    print(e)\n"]).stdout
    must("level is detailed or summary" in wrong, wrong)


def reasons(ctx):
    """Attention written out: flash attention is suggested; the intensity is what was counted, which is what the operations do."""
    out = run(ctx, NAIVE, "run")[0].stdout
    must("Not using flash attention" in out and re.search(r"\d\. Enable flash attention: ~[\d.]+x speedup", out), out)
    counted = eval(re.search(r"^counted (.*)$", out, re.M)[1])
    b, s, d, f = 4, 200, 16, 4
    must(counted["matmul"] == (2 * 2 * b * s * s * d, 2 * f * (2 * b * s * d + b * s * s)), counted["matmul"])
    must(counted["exp"] == (b * s * s, 2 * f * b * s * s), counted["exp"])
    item, shown = re.search(r"^  (\w+) is taking", out, re.M)[1], re.search(r"Low arithmetic intensity \(([\d.]+) ops/byte\)", out)
    must(shown and abs(float(shown[1]) - counted[item][0] / counted[item][1]) <= 0.051, f"{item} {counted} {shown}")


def files(ctx):
    """The trace has a span for each launch; the flame graph is well-formed and has the functions' names; a library's are inside of them."""
    p, made = run(ctx, RUN, "prof", "--backend=cpu", "--trace=t.json", "--flame=f.svg", "--memory-timeline=m.csv")
    events = json.loads(made["t.json"])["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    kernels = [e for e in spans if e["cat"] == "kernel"]
    must(len(kernels) == 3 and all(e["ts"] >= 0 and e["dur"] > 0 and e["args"]["stream"] == 0 for e in kernels), kernels)
    must(all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(kernels, kernels[1:])), "launches overlap")
    must(any(e["name"] == "sort" and e["args"]["function"] == "helper" and e["args"]["place"].endswith("model.tsr:7") for e in spans), spans[-5:])
    svg = xml.dom.minidom.parseString(made["f.svg"])
    titles = [t.firstChild.data.split(" ")[0] for t in svg.getElementsByTagName("title")]
    must({"all", "main", "helper", "sort", "kernel_of_mine"} <= set(titles) or {"all", "main", "helper", "sort"} <= set(titles), titles)
    return p, made


INJECTED = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef void (*Fn)(void);
static FILE *out;
static int depth;
static int push(const char *name) { fprintf(out, "%d %s\n", depth, name); return depth++; }
static int pop(void) { return --depth; }
int InitializeInjectionNvtx2(const void *(*table)(uint32_t))
{
    const struct { size_t size; int (*module)(int, Fn ***, unsigned *); } *c = table(1);
    Fn **slot;
    unsigned n;
    if (!c || table(99) || c->module(2, &slot, &n) || !c->module(1, &slot, &n) || n < 12)
        return 0;
    out = fopen(getenv("RANGES_FILE"), "w");
    setvbuf(out, NULL, _IOLBF, 0);
    *slot[9] = (Fn)push;
    *slot[11] = (Fn)pop;
    return 1;
}
"""
CALLS = """
def inner(x):
    return x * 2.0

def outer(x):
    if x.ndim == 0:
        raise ValueError("no")
    return inner(x) + inner(x)

def plain(n):
    return n + 1

@jit
def staged(x):
    return outer(x)

class Row(Module):
    def forward(self, x):
        return outer(x)

y = Row()(outer(ones(4)))
try:
    outer(tensor(1.0))
except ValueError:
    plain(3)
staged(ones(3))
staged(ones(3))
z = inner(y)
"""


def ranges(ctx):
    """A range for each call with operations inside, nested as the calls are; a tool that listens through NVTX is told all of them."""
    p, made = run(ctx, CALLS, "prof", "--trace=t.json", "--nvtx")
    spans = [e for e in json.loads(made["t.json"])["traceEvents"] if e["ph"] == "X"]
    found = [e for e in spans if e["cat"] == "range"]
    names = [e["name"] for e in sorted(found, key=lambda e: e["ts"])]
    must(names.count("outer") >= 2 and names.count("inner") >= 5 and names.count("forward") == 1 and names.count("staged") >= 2 and "plain" not in names, names)
    for e in found:
        ops = [o for o in spans if o["cat"] != "range" and e["ts"] <= o["ts"] and o["ts"] + o["dur"] <= e["ts"] + e["dur"] + 1]
        around = [a for a in found if a is not e and a["ts"] <= e["ts"] and a["ts"] + a["dur"] >= e["ts"] + e["dur"]]
        must(ops and len(around) >= (e["name"] == "inner" and e["args"]["depth"] > 0), e)
    listed = dict(re.findall(r"^(\w+) +(\d+) +[\d.]+$", p.stderr.split("range  ", 1)[1], re.M))
    must(listed["inner"] == str(names.count("inner")) and "range  " not in run(ctx, CALLS, "prof")[0].stderr, p.stderr)
    cc = shutil.which("cc")
    if not cc:
        return
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "tool.c").write_text(INJECTED)
        (d / "model.tsr").write_text(CALLS)
        process.run([cc, "-shared", "-fPIC", "-o", d / "tool.so", d / "tool.c"], timeout=60)
        env = {"NVTX_INJECTION64_PATH": str(d / "tool.so"), "RANGES_FILE": str(d / "told")}
        p = process.run([ctx.tessera, "run", d / "model.tsr"], env=dict(os.environ, **env), timeout=60)
        must(not p.returncode, p.stderr)
        told = [line.split() for line in (d / "told").read_text().splitlines()]
        must(told[0] == ["0", "outer"] and ["1", "inner"] in told and ["0", "plain"] in told and ["0", "staged"] in told and told[-1] == ["0", "inner"], told)


COPIES = """
def other_work(x):
    return (exp(x) * 2.0).sum()

def compute(batch):
    return (exp(batch) + 1.0).sum()

@tessera.memory.pipeline(stages=3)
def pipelined(stream):
    results, batch = [], stream[0]
    for i in range(5):
        following = tessera.async_load(stream[i + 1]) if i < 4 else None
        results.append(tessera.async_store(compute(batch)))
        batch = following.wait() if i < 4 else None
    return results

x = ones(1 << 20)
future = tessera.memory.async_copy(x, to="host")
other_work(x)
print(future.wait()[0].item())
print([r.item() == (exp(full((1 << 21,), 0.25 * i)) + 1.0).sum().item() for i, r in enumerate(pipelined([full((1 << 21,), 0.25 * i) for i in range(5)]))])
"""


def copies(ctx):
    """A copy begins before what the program does meanwhile and is waited for after it; the load of the next batch goes on while this one is computed."""
    p, made = run(ctx, COPIES, "prof", "--trace=t.json")
    spans = [e for e in json.loads(made["t.json"])["traceEvents"] if e["ph"] == "X"]
    end = lambda e: e["ts"] + e["dur"]
    named = lambda *names: sorted([e for e in spans if e["name"] in names], key=lambda e: e["ts"])
    must(p.stdout == "1.0\n[True, True, True, True, True]\n", p.stdout)
    copy, work, wait = named("async_copy")[0], named("other_work")[0], named("wait")[0]
    must(copy["ts"] < end(work) <= wait["ts"] and copy["tid"] != work["tid"] == wait["tid"], (copy, work, wait))
    loads, computed = named("async_load"), named("compute")
    must(len(loads) == 4 and len(computed) == 5 and len(named("async_store")) == 5, spans)
    must(all(l["ts"] < end(c) for l, c in zip(loads, computed)) and any(end(l) > c["ts"] for l, c in zip(loads, computed)), (loads, computed))


def roofline(ctx):
    """A line for each kernel and product: what limits it by its operations a byte, and its share of the roof."""
    text = "x = random.normal((256, 256))\n@jit\ndef soft(x):\n    return softmax(x * 2.0)\nfor i in range(3):\n    y = soft(x)\nz = x @ x\n"
    err = run(ctx, text, "prof", "--backend=cpu")[0].stderr
    head = re.search(r"^roofline of .*: (\d+) GFLOP/s, (\d+) GB/s$", err, re.M)
    rows = re.findall(r"^(.{32}) (memory|compute)-bound +([\d.]+) operations a byte, +([\d.]+) % of the roof  (\S+)$", err, re.M)
    must(head and len(rows) == 2, err)
    for name, bound, intensity, share, place in rows:
        must((float(intensity) * float(head[2]) < float(head[1])) == (bound == "memory") and float(share) >= 0, rows)
    product = next(r for r in rows if r[0].startswith("matmul"))
    must(abs(float(product[2]) - 2 * 256 ** 3 / (3 * 256 * 256 * 4)) < 0.01 and product[4].endswith(":7"), product)


def timeline(ctx):
    """Blocks are given back once, the sum is never negative, its most is what memory_report says."""
    p, made = run(ctx, RUN, "prof", "--backend=cpu", "--memory-timeline=m.csv")
    rows = [r.split(",") for r in made["m.csv"].splitlines()[1:]]
    must(made["m.csv"].startswith("time_us,event,tensor,bytes,live,place\n") and len(rows) > 10, made["m.csv"][:300])
    live, held, most = 0, {}, 0
    for _, event, tensor, n, after, place in rows:
        n = int(n)
        if event == "alloc":
            must(tensor not in held, f"{tensor} twice")
            held[tensor] = n
        else:
            must(held.pop(tensor, None) == n, f"{tensor} is freed and was not there")
        live += n if event == "alloc" else -n
        most = max(most, live)
        must(live >= 0 and int(after) == live, f"{live} is not {after}")
    must(most == int(p.stdout.split()[-1]), f"{most} is not {p.stdout}")
    must(any(int(r[3]) == 4 * 512 * 1024 and r[5].endswith(":13") for r in rows), "the large block, by its line")
    made = run(ctx, RUN, "prof", "--backend=cpu", "--memory=m.csv")[1]
    must(made["m.csv"].count("\n") == len(rows) + 1, "--memory is the same")


def table(ctx):
    """Times of kernels, rates, and collectives where ranks meet."""
    alone = run(ctx, RUN, "prof", "--backend=cpu")[0].stderr
    head = alone.splitlines()[0]
    must(all(c in head.split() for c in ("calls", "ms", "tile_ms", "%", "GB/s", "collective_us", "place")), head)
    row = next(l for l in alone.splitlines() if l.startswith("kernel "))
    must(re.search(r" 3 +\d+\.\d+ +\d+\.\d+ ", row) and row.endswith("model.tsr:4"), row)
    must("all_reduce" not in alone, alone)
    ranks = run(ctx, RANKS, "prof", "--sim-devices", "2")[0]
    row = next((l for l in ranks.stderr.splitlines() if l.startswith("all_reduce ")), "")
    must(ranks.stdout == "4000.0\n" and re.match(r"all_reduce +2 ", row) and float(row[len(head.split("collective_us")[0]) - 1:].split()[0]) > 0, ranks.stderr)


def tests(ctx):
    yield Test("profile/report", lambda: report(ctx), ("PRF-01",))
    yield Test("profile/reasons", lambda: reasons(ctx), ("PRF-02",))
    yield Test("profile/files", lambda: files(ctx), ("PRF-05", "PRF-07"))
    yield Test("profile/ranges", lambda: ranges(ctx), ("PRF-04",))
    yield Test("profile/copies", lambda: copies(ctx), ("MEM-07", "OPT-08"))
    yield Test("profile/roofline", lambda: roofline(ctx), ("PRF-08",))
    yield Test("profile/timeline", lambda: timeline(ctx))
    yield Test("profile/table", lambda: table(ctx), ("PRF-11",))
