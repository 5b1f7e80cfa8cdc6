"""Kernels of the shared corpus, and those of tests/kernels.

A program without a fault is checked without a word, one with `#!` is reported as its markers say.

tests/kernels/styles.tsr holds kernels in the three styles; each line of mutations.txt is one mistake in it, which must be
reported, and on the changed line unless the line says `elsewhere`.
"""
import json
import os
import pathlib
import re
import tempfile

from harness import markers, process
from harness.test import Fail, Skip, Test, rows_in

BARRIER = "safe-barrier-after-return.tsr"       # a fault that it may, and does, show when it is checked
FIELDS = "sch-01-unknown-field.tsr"             # likewise: the keys of the dict are known


def errors(ctx, path):
    p = process.run([ctx.tessera, "check", "--json", str(path)])
    if why := process.died(p):
        raise Fail(why)
    return [e for e in map(json.loads, filter(lambda l: l.startswith("{"), p.stdout.splitlines())) if e["severity"] == "error"]


def checks_clean(ctx, path):
    if found := errors(ctx, path):
        raise Fail("\n".join(f"line {e['line']}: {e['message']} [{e['code']}]" for e in found))


def runs(ctx, path):
    try:
        markers.check_program(ctx.tessera, path)
    except Fail as why:
        text = str(why)
        if any(s in text for s in ("unknown option", "unknown command", "is not a value of --ir")):
            raise Skip("needs a command that is not built yet") from None
        raise


# ------------------------------------------------------------- mutations

def mutations(path):
    """(number of the line in the list, old text, new text, whether the changed line is named)."""
    for n, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            parts = [p.strip() for p in line.split(" => ")]
            new, _, where = parts[1].partition(" !! ")
            yield n, parts[0], new.strip(), where.strip() != "elsewhere"


def mutated(ctx, text, old, new, here):
    if text.count(old) != 1:
        raise Fail(f"{old!r} stands {text.count(old)} times in the program")
    line = text[:text.index(old)].count("\n") + 1
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "mutated.tsr"
        path.write_text(text.replace(old, new))
        found = errors(ctx, path)
    if not found:
        raise Fail(f"line {line}: {old!r} became {new!r} and nothing is reported")
    if here and not any(line in [e["line"]] + [l["line"] for l in e["labels"]] for e in found):
        raise Fail(f"line {line}: {old!r} became {new!r} and line {found[0]['line']} is reported")


# ------------------------------------------------------------- by the oracle and compiled

SEEDS = int(os.environ.get("TESSERA_KERNEL_SEEDS", "60"))       # of tests/kernels/differential.tsr; TESSERA_KERNEL_SEEDS=1000 runs as many


def same_bits(ctx, first, count):
    """Random kernels, sizes and schedules print the same whether the oracle runs them or compiled code, and code runs them all."""
    text = (ctx.root / "tests/kernels/differential.tsr").read_text() + f"for seed in range({first}, {first + count}):\n    case(seed)\n"
    said = {}
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "differential.tsr"
        path.write_text(text)
        for backend in ("oracle", "cpu"):
            p = process.run([ctx.tessera, "run", "--stats", f"--backend={backend}", str(path)])
            if p.returncode:
                raise Fail(f"{backend}: {p.stderr}")
            said[backend] = p.stdout.splitlines()
    if len(said["oracle"]) != count:
        raise Fail(f"{len(said['oracle'])} of {count} cases ran")
    for want, got in zip(said["oracle"], said["cpu"]):
        if want != got:
            raise Fail(f"compiled code gives other bits\n  oracle {want[:300]}\n  cpu    {got[:300]}")
    if not re.search(rf"own kernels made=[1-9]\d* refused=0 .* launches=\d+ by-oracle=0", p.stderr):
        raise Fail(f"not all of them were compiled: {p.stderr}")


def both_backends(ctx, path):
    """A program prints the same by the oracle and compiled, and no kernel of it is left to the oracle but those that print."""
    said = {}
    for backend in ("oracle", "cpu"):
        p = process.run([ctx.tessera, "run", "--stats", f"--backend={backend}", str(path)])
        said[backend] = (p.returncode, p.stdout)
        if why := process.died(p):
            raise Fail(f"{backend}: {why}")
    if said["oracle"] != said["cpu"]:
        raise Fail(f"oracle:\n{said['oracle'][1][:600]}\ncpu:\n{said['cpu'][1][:600]}")
    refused = re.search(r"own kernels .* refused=(\d+) ", p.stderr)
    if refused and int(refused[1]) > len(re.findall(r"^ +print\(", path.read_text(), re.M)):
        raise Fail(f"code does not cover a kernel: {p.stderr}")


def checked_in_time(ctx):
    """A 64 x 64 x 64 product takes at most two seconds with races looked for, element by element and in blocks."""
    text = (ctx.root / "tests/kernels/differential.tsr").read_text() + """
import time
before = time.process_time()
A = numbers(Rolls(1), 64, 64)
C, D = zeros((64, 64)), zeros((64, 64))
staged.launch(grid=64, block=64)(A, A, C)
gemm.with_schedule(Schedule(block=(32, 32), block_k=16))(A, A, D)
print(allclose(C, D, rtol=1e-4, atol=1e-3))
print(time.process_time() - before)
"""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "product.tsr"
        path.write_text(text)
        p = process.run([ctx.tessera, "run", "--debug", str(path)])
    if p.returncode or not p.stdout.startswith("True\n"):
        raise Fail(p.stdout + p.stderr)
    if float(p.stdout.split()[1]) > 2:
        raise Fail(f"{p.stdout.split()[1]} s")


# ------------------------------------------------------------- the reference page

STRING = r'"((?:[^"\\]|\\.)*)"'
OPERATION = re.compile(rf"^KERNEL\(\w+, {STRING}, (\w+), {STRING}, \w+, (\w+), .*, \w+, {STRING}\)$", re.M)
FIELD = re.compile(rf"^FIELD\((\w+), (\w+), (\w+), {STRING}\)$", re.M)
ALIAS = re.compile(r"^ALIAS\((\w+), (\w+)\)$", re.M)


def operations(text):
    rows = [f"| `{o + '.' if o else ''}{n}{sig}` | {who.lower()} | {doc} |" for o, n, sig, who, doc in OPERATION.findall(text)]
    return ["| operation | who | what |", "| --- | --- | --- |"] + [r.replace(" | DType", " \\| DType") for r in rows]


def fields(text):
    other = {}
    for alias, field in ALIAS.findall(text):
        other.setdefault(field, []).append(f"`{alias}`")
    rows = [f"| `{n}` | {', '.join(other.get(n, []))} | {doc.replace(chr(92), '')} |" for n, _, _, doc in FIELD.findall(text)]
    return ["| field | also | what |", "| --- | --- | --- |"] + rows


def reference(ctx):
    """The tables of docs/kernels.md are those of the sources."""
    page = ctx.root / "docs/kernels.md"
    text = page.read_text()
    for name, table in (("schedule.def", fields), ("kernel.def", operations)):
        source = (ctx.root / "src/frontend/kernel" / name).read_text()
        rows = table(source)
        if len(rows) - 2 != len(re.findall(r"^(?:KERNEL|FIELD)\(", source, re.M)):
            raise Fail(f"a row of {name} is not read")
        text = re.sub(rf"(<!-- from \S*{name}[^\n]*\n).*?(<!-- end -->)", lambda m: m[1] + "\n".join(rows) + "\n" + m[2], text,
                      count=1, flags=re.S)
    if ctx.write_golden:
        page.write_text(text)
    if text != page.read_text():
        raise Fail("docs/kernels.md does not have the rows of the tables (--write-golden)")


# ------------------------------------------------------------- devices

LARGE = """@kernel
def large(x: Tensor["N", f32]):
    a = tile.alloc_shared((200, 256), f32)
"""


def devices(ctx):
    """What each device has, and that checking goes by the device's number."""
    shown = process.run([ctx.tessera, "devices", "--memory", "--sim-devices", "2"], env={"TESSERA_FAKE_DEVICE": "A100"}).stdout
    levels = ["registers", "shared", "L2 cache", "HBM", "NVLink"]
    if [l.split("  ")[1].strip() for l in shown.splitlines() if l.startswith("  ")] != (levels + ["of a multiprocessor: 256 KB of registers, 164 KB shared; of a group: 163 KB shared"]) * 2:
        raise Fail(shown)
    for model, limit in (("A100", 163), ("H200", 0), ("V100", 96)):
        with tempfile.TemporaryDirectory() as d:
            path = pathlib.Path(d) / "large.tsr"
            path.write_text(LARGE)
            p = process.run([ctx.tessera, "check", str(path)], env={"TESSERA_FAKE_DEVICE": model})
        if (f"needs 200 KB shared, device has {limit} KB" in p.stderr) != bool(limit) or bool(p.returncode) != bool(limit):
            raise Fail(f"{model}: {p.stderr}")


def tests(ctx):
    yield Test("kernels/checked_in_time", lambda: checked_in_time(ctx))
    yield Test("kernels/devices", lambda: devices(ctx), ("KER-48", "MEM-23"))
    yield Test("kernels/reference", lambda: reference(ctx))
    folder = ctx.shared / "corpus/kernel"
    if not folder.is_dir():
        yield Test("corpus/kernel", lambda: (_ for _ in ()).throw(Skip("../shared is not beside the repository")))
    for f in sorted(folder.glob("*.tsr")) if folder.is_dir() else []:
        if "#!" not in f.read_text() and f.name not in (BARRIER, FIELDS):
            yield Test(f"corpus/kernel/check/{f.name}", lambda f=f: checks_clean(ctx, f))
        yield Test(f"corpus/kernel/{f.name}", lambda f=f: runs(ctx, f))
        if not re.search("#[!~]|autotune", f.read_text()):      # what a tuner has time for differs
            yield Test(f"corpus/kernel/backends/{f.name}", lambda f=f: both_backends(ctx, f))
    for first in range(0, SEEDS, 20):
        yield Test(f"kernels/same_bits/{first}", lambda first=first: same_bits(ctx, first, min(20, SEEDS - first)))
    own = ctx.root / "tests/kernels"
    for f in sorted(own.glob("ker*.tsr")):
        if not re.search(r"#[!~] |^# test: ", text := f.read_text(), re.M):
            yield Test(f"kernels/backends/{f.name}", lambda f=f: both_backends(ctx, f), rows_in(text))
    text = (own / "styles.tsr").read_text()
    for n, old, new, here in mutations(own / "mutations.txt"):
        yield Test(f"kernels/mutation/{n}", lambda old=old, new=new, here=here: mutated(ctx, text, old, new, here))
