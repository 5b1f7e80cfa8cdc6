"""Random tensor functions (harness/staged.py), eagerly and staged: the same bits on every backend, at every level of LLVM's, and
without each of the passes in turn; 2,000 functions, each of one configuration.  Random control flow (harness/flow.py) and losses
(harness/losses.py), too."""
import pathlib
import tempfile

import mutants
from harness import flow, losses, process, staged
from harness.test import Fail, Test

FUNCTIONS = 100                                         # of a program, which is one process
CPU = ["--backend=cpu"]
FILL = "255"                                            # what is never written is NaN, or -1
FLOWS = (1, 2, 3, 4), 30                                # seeds of programs of control flow, and functions of each
LONG = (1, 2, 3)                                        # seeds of programs of a few long functions and their gradients
LOSSES = (1, 2, 3), 20                                  # seeds of programs of losses with their gradients, and how many in each
RUNS = [                                                # (name, flags and settings, programs); seeds count on
    ("cpu", CPU, 6),
    ("O0", CPU + ["--opt-level=0"], 2),
    ("O3", CPU + ["--opt-level=3"], 2),
    ("oracle", ["--backend=oracle"], 3),
    ("eval", ["--backend=eval"], 1),
    ("threads", CPU + ["--threads=3"], 1),
    ("turns", CPU + ["TESSERA_TURNS=3"], 3),            # rows in turn, which large ones are
    ("turns-oracle", ["--backend=oracle", "TESSERA_TURNS=2"], 2),
] + [(f"no-{p}", CPU + [f"--no-pass={p}"], 1) for p in ("fold", "cse", "dce", "picks", "apart", "recompute", "fuse", "slices", "tile.fold")]


def compare(ctx, flags, seed, text=None, timeout=60):
    text, functions = text or (staged.program(seed, FUNCTIONS), FUNCTIONS)
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / f"staged{seed}.tsr"
        path.write_text(text)
        env = {"TESSERA_FILL": FILL, **dict(f.split("=") for f in flags if f.startswith("TESSERA_"))}
        ran = process.run([ctx.tessera, "run", *(f for f in flags if f.startswith("-")), path], cwd=d, timeout=timeout, env=env)
        if why := process.died(ran) or (ran.returncode and ran.stderr.strip()[-600:]):
            raise Fail(why)
        lines = ran.stdout.splitlines()
        if odd := [l for l in lines if not l.endswith((" same", " refused"))]:
            raise Fail("\n".join(odd[:5]))
        if sum(l.endswith(" refused") for l in lines) > functions // 2:
            raise Fail("most are refused")
        if len(lines) != functions:
            raise Fail(f"{len(lines)} lines for {functions} functions")


def programs():
    """(name, flags, seed) of every program."""
    seed = 0
    for name, flags, n in RUNS:
        for _ in range(n):
            seed += 1
            yield f"{name}-{seed}", flags, seed


def faults_in_place(ctx):
    """`./dev mutants` plants faults in the source: of so many the places are still there."""
    gone = [m[0] for m in mutants.MUTANTS if not mutants.applies(*m)]
    if len(mutants.MUTANTS) - len(gone) < 40:
        raise Fail(f"tests/mutants.py: these change nothing any more: {', '.join(gone)}")


def tests(ctx):
    yield Test("staged/planted-faults", lambda: faults_in_place(ctx))
    seeds, n = FLOWS
    for seed in seeds:
        yield Test(f"staged/flow-{seed}", lambda s=seed: compare(ctx, [], s, (flow.program(s, n), n)))
    for seed in LONG:
        yield Test(f"staged/long-{seed}", lambda s=seed: compare(ctx, CPU, s, (staged.long_program(s, 12), 12)))
    seeds, losses_each = LOSSES
    for seed in seeds:
        yield Test(f"staged/losses-{seed}", lambda s=seed: compare(ctx, CPU, s, (losses.program(s, losses_each), losses_each)))
    for name, flags, seed in programs():
        yield Test(f"staged/{name}", lambda f=flags, s=seed: compare(ctx, f, s))
