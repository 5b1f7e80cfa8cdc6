"""Printing a syntax tree and parsing the text again gives the same tree, for every program at hand."""
import os
import pathlib
import tempfile

from harness import process
from harness.test import Fail, Test


def programs(ctx):
    folders = [ctx.root / d for d in ("tests", "stdlib", "examples")] + [ctx.shared / "corpus"]
    for folder in folders:
        for f in sorted(folder.rglob("*.tsr")) if folder.is_dir() else []:
            yield f, f"{folder.name}/{f.relative_to(folder)}"


def tree(ctx, path, option, modules):
    """`modules` is the folder where the program's imports lie."""
    p = process.run([ctx.tessera, "check", option, path], env={**os.environ, "TESSERA_PATH": str(modules)})
    if why := process.died(p):
        raise Fail(why)
    return p


def round_trip(ctx, path):
    parsed, printed = (tree(ctx, path, option, path.parent) for option in ("--dump-ast", "--print-ast"))
    if parsed.returncode:
        return                              # does not parse, on purpose: programs.py says whether rightly
    with tempfile.TemporaryDirectory() as d:
        again = pathlib.Path(d) / path.name
        again.write_text(printed.stdout)
        before, after = parsed.stdout, tree(ctx, again, "--dump-ast", path.parent).stdout
    if before != after:
        a, b = before.splitlines(), after.splitlines()
        i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        raise Fail(f"tree line {i + 1}: {a[i:i + 1]} became {b[i:i + 1]}")


def tests(ctx):
    for path, name in programs(ctx):
        yield Test(f"round-trip/{name}", lambda path=path: round_trip(ctx, path))
