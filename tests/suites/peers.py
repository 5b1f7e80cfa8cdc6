"""Programs that mean the same in CPython: both run them and must print the same.

tests/python/*.tsr are written by hand; the others come from harness/tgen.py, by seed.  The seed is in the test's name:
`python3 tests/harness/tgen.py SEED` prints the program.
"""
import pathlib
import sys
import tempfile

from harness import process, tgen
from harness.test import Fail, Test, rows_in

SEEDS = range(1, 101)


def compare(tessera, path):
    theirs = process.run([sys.executable, "-W", "ignore", path], cwd=path.parent)
    ours = process.run([tessera, "run", path], cwd=path.parent)
    if why := process.died(ours):
        raise Fail(why)
    a, b = ours.stdout.splitlines(), theirs.stdout.splitlines()
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    if a != b:
        have, want = (x[i] if i < len(x) else "<end>" for x in (a, b))
        raise Fail(f"output line {i + 1}\n  got     {have}\n  CPython {want}\n  {ours.stderr.strip()[-300:]}")
    if (ours.returncode == 0) != (theirs.returncode == 0):
        raise Fail(f"exit code {ours.returncode}, CPython's is {theirs.returncode}: {ours.stderr.strip()[-300:]}")


def random_program(ctx, seed):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / f"seed{seed}.tsr"
        path.write_text(tgen.program(seed))
        compare(ctx.tessera, path)


def tests(ctx):
    for f in sorted((ctx.root / "tests/python").glob("*.tsr")):
        yield Test(f"python/{f.stem}", lambda f=f: compare(ctx.tessera, f), rows_in(f.read_text()))
    for seed in SEEDS:
        yield Test(f"python/random-{seed}", lambda seed=seed: random_program(ctx, seed))
