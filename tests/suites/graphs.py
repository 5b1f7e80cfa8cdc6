"""IRs as text: ir/*.tgir and ir/*.ttir go through `tessera opt`; the wanted text stands behind `# ----`, or `# error:` names the message."""
import re

from harness import process
from harness.test import Fail, Test, rows_in


def lines(text):
    """Without comments, the hash, which follows from the rest, and whether fusing made the graph a schedule."""
    kept = [re.sub(r" hash=[0-9a-f]+$", "", l).replace("tessera.schedule", "tessera.graph") for l in text.splitlines() if not l.startswith("#")]
    return [l for l in kept if l]


LEVELS = {".tgir": "graph", ".ttir": "tile"}


def check(ctx, path):
    text = path.read_text()
    passes = re.search(r"^# passes: (.*)", text, re.M).group(1)
    p = process.run([ctx.tessera, "opt", *([] if passes == "none" else [f"--pass={passes}"]), "-"], stdin=text.split("# ----")[0])
    if why := process.died(p):
        raise Fail(why)
    if m := re.search(r"^# error: (.*)", text, re.M):
        if p.returncode != 1 or m.group(1) not in p.stderr:
            raise Fail(f"exit {p.returncode}, wanted the message {m.group(1)!r}; {p.stderr}")
        return
    want = lines(text.split("# ----", 1)[1])
    if p.returncode or lines(p.stdout) != want:
        raise Fail("\n".join([p.stderr, *lines(p.stdout), "wanted:", *want]))
    if not re.match(r"tessera\.((graph|schedule) v1 hash=[0-9a-f]{64}|tile v1 hash=[0-9a-f]{16})\n", p.stdout):
        raise Fail("the first line does not name level, version and hash")


def read_back(ctx, path):
    """The graphs of a program as text, read and printed again, are the same text."""
    shown = process.run([ctx.tessera, "inspect", "--ir", "graph", path.resolve()])
    if why := process.died(shown):
        raise Fail(why)
    again = process.run([ctx.tessera, "opt", "-"], stdin=shown.stdout)
    plain = re.sub(r"  # [^\n]*:\d+$", "", shown.stdout, flags=re.M)
    if again.returncode or again.stdout != plain or "graph @" not in plain:
        a, b = plain.splitlines(), again.stdout.splitlines()
        i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        raise Fail(f"{again.stderr} line {i + 1}: {a[i:i + 1]} reads back as {b[i:i + 1]}")


def tests(ctx):
    for path in sorted((ctx.root / "tests/ir").glob("*.t?ir")):
        yield Test(f"{LEVELS[path.suffix]}s/{path.stem}", lambda p=path: check(ctx, p), rows_in(path.read_text()))
    for path in sorted((ctx.root / "tests/transforms").glob("*.tsr")):
        if "jit" not in path.read_text():
            continue
        yield Test(f"graphs/text-of-{path.stem}", lambda p=path: read_back(ctx, p))
