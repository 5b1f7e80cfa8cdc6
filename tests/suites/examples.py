"""The examples that need no suite of their own: each ends by itself, and has found what it looks for, or its losses fall."""
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test

# name -> a line of what it prints
FINDS = {
    "custom_vjp": r"under jit \[0\.03, 1\.0, 1\.0\]",
    "linear_regression": r"agree True",
    "logistic_regression": r"converged True",
    "per_example_gradients": r"mean agrees: True",
    "pinn": r"largest error \S+ True",
    "rnn_scan": r"learned parity: True",
    "operator_learning": r"relative error \S+ True",
    "pinn_and_transformer": r"k is off by \S+ u by \S+ True",
}
# name -> (options, the least by which its losses fall, rows)
LEARNS = {
    "char_gpt": (["--steps", "100"], 0.3, ("LIB-22",)),
    "moe": (["--steps", "48"], 0.3, ("LIB-22",)),
    "diffusion": (["--steps", "36"], 0.3, ("LIB-22",)),
}


def output(ctx, name, *options):
    p = process.run([ctx.tessera, "run", ctx.root / f"examples/{name}.tsr", *options], timeout=200)
    if why := process.died(p) or (p.returncode and p.stderr[-600:]):
        raise Fail(why)
    return p.stdout


def finds(ctx, name):
    out = output(ctx, name)
    if not re.search(FINDS[name], out):
        raise Fail(out[-600:])


def learns(ctx, name):
    options, fall, _ = LEARNS[name]
    with tempfile.TemporaryDirectory() as d:
        folder = ["--out", d] if name != "moe" else []
        text = ["--text", ctx.root / "docs/language.md"] if name == "char_gpt" else []
        out = output(ctx, name, *options, *text, *folder)
        if name == "diffusion":
            sheet = (pathlib.Path(d) / "samples.pgm").read_bytes()
            if not sheet.startswith(b"P5 280 112 255\n") or len(sheet) != 15 + 280 * 112 or len(set(sheet[15:])) < 20:
                raise Fail(f"no picture: {sheet[:40]}")
    losses = [float(x) for x in re.findall(r"^step .*?(?:loss|training) ([\d.]+)", out, re.M)]
    if name == "char_gpt":
        losses.insert(0, 5.0)                                   # it says one loss in so few steps; before the first it is the alphabet's
    if len(losses) < 2 or losses[-1] > losses[0] * (1 - fall):
        raise Fail(out[-600:])


def tests(ctx):
    for name in FINDS:
        yield Test(f"examples/{name}", lambda name=name: finds(ctx, name))
    for name, (_, _, rows) in LEARNS.items():
        yield Test(f"examples/{name}", lambda name=name: learns(ctx, name), rows)
