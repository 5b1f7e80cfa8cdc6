"""Printing a syntax tree and parsing the text again gives the same tree, for every program at hand."""
import pathlib
import tempfile

from harness import process
from harness.test import Fail, Test


def programs(ctx):
    folders = [ctx.root / d for d in ("tests", "stdlib", "examples")] + [ctx.shared / "corpus"]
    for folder in folders:
        for f in sorted(folder.rglob("*.tsr")) if folder.is_dir() else []:
            yield f, f"{folder.name}/{f.relative_to(folder)}"


def tree(ctx, path, option):
    p = process.run([ctx.tessera, "check", option, path])
    if why := process.died(p):
        raise Fail(why)
    return p


def round_trip(ctx, path):
    parsed, printed = tree(ctx, path, "--dump-ast"), tree(ctx, path, "--print-ast").stdout
    if parsed.returncode:
        return                              # does not parse, on purpose: programs.py says whether rightly
    with tempfile.TemporaryDirectory() as d:
        again = pathlib.Path(d) / path.name
        again.write_text(printed)
        before, after = parsed.stdout, tree(ctx, again, "--dump-ast").stdout
    if before != after:
        a, b = before.splitlines(), after.splitlines()
        i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        raise Fail(f"tree line {i + 1}: {a[i:i + 1]} became {b[i:i + 1]}")


def tests(ctx):
    for path, name in programs(ctx):
        yield Test(f"round-trip/{name}", lambda path=path: round_trip(ctx, path))
