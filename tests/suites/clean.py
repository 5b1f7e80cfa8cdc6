"""No false alarm: what runs checks clean - the library, the examples, and every program that is expected to run."""
import json

from harness import markers, process
from harness.test import Fail, Test

FOLDERS = ("stdlib", "examples", "tests")


def check(ctx, path):
    p = process.run([ctx.tessera, "check", "--json", "--effects", path], timeout=60)
    if why := process.died(p):
        raise Fail(why)
    said = [json.loads(l) for l in p.stdout.splitlines() if l.startswith("{")]
    errors = [f"{d['line']}: {d['message']}" for d in said if d["severity"] == "error"]
    if errors:
        raise Fail("; ".join(errors[:3]))


def runs(path):
    """Programs whose own comments expect no error at check time."""
    e = markers.parse(path.read_text())
    return not e.errors and not e.failure and not path.name.startswith("_") and e.options.get("cmd", "run") == "run"


def tests(ctx):
    for name in FOLDERS:
        for path in sorted((ctx.root / name).rglob("*.tsr")):
            if runs(path):
                yield Test(f"clean/{path.relative_to(ctx.root)}", lambda path=path: check(ctx, path), ("TYP-24",))
    for name in ("lang", "tensor", "check"):
        folder = ctx.shared / "corpus" / name
        for path in sorted(folder.rglob("*.tsr")) if folder.is_dir() else []:
            if runs(path) and f"corpus/{name}/{path.name}" not in pending(ctx):
                yield Test(f"clean/corpus/{name}/{path.name}", lambda path=path: check(ctx, path), ("TYP-24",))


def pending(ctx):
    path = ctx.root / "tests/corpus-pending.txt"
    return {l.split()[0] for l in path.read_text().splitlines() if l.strip()} if path.exists() else set()
