"""Random tensor functions staged and not (harness/staged.py), on every backend: the same bits."""
import pathlib
import tempfile

from harness import process, staged
from harness.test import Fail, Test

SEEDS, FUNCTIONS = range(1, 11), 100
BACKENDS = ("cpu", "oracle", "eval")


def compare(ctx, backend, seed):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / f"staged{seed}.tsr"
        path.write_text(staged.program(seed, FUNCTIONS))
        ran = process.run([ctx.tessera, "run", f"--backend={backend}", path], cwd=d)
        if why := process.died(ran) or (ran.returncode and ran.stderr.strip()[-600:]):
            raise Fail(why)
        lines = ran.stdout.splitlines()
        if odd := [l for l in lines if not l.endswith(" same")]:
            raise Fail("\n".join(odd[:5]))
        if len(lines) != FUNCTIONS:
            raise Fail(f"{len(lines)} lines for {FUNCTIONS} functions")


def tests(ctx):
    for backend in BACKENDS:
        for seed in SEEDS if backend == "cpu" else list(SEEDS)[:3]:
            yield Test(f"staged/{backend}-{seed}", lambda b=backend, s=seed: compare(ctx, b, s))
