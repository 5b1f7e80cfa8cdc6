#!/usr/bin/env python3
"""How fast `tessera check` is: generated tensor programs, and what checking adds to running the examples.

Prints one JSON object a line: {"name": "check-100000", "lines_per_s", "s"}, {"name": "check-linear", "ratio"} (the time of
ten times the lines over ten times the time; 1 is linear, more is worse) and {"name": "check-example ...", "check_s", "start_s", "lines"}: what `run` takes longer because it checks first.
Times are the least of several runs, without the time of the empty program.  `python3 bench/check.py LINES` prints a program.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TESSERA = HERE.parent / "build/tessera"
SIZES = (10_000, 50_000, 100_000)

# One of each kind of thing that tensor programs are made of; {i} is the number of the unit, {a} and {b} sizes of its own.
UNIT = '''
def project{i}(x: Tensor["B", {a}], w: Tensor[{a}, {b}]) -> Tensor["B", {b}]:
    """A projection with a bias of its own."""
    y = x @ w
    bias = zeros({b})
    return relu(y + bias)

def attend{i}(q: Tensor["B", "T", {a}], k: Tensor["B", "S", {a}], v: Tensor["B", "S", {b}]) -> Tensor["B", "T", {b}]:
    scores = q @ k.transpose(-2, -1) / {a}.0 ** 0.5
    weights = softmax(scores, axis=-1)
    return weights @ v

def loss{i}(w: Tensor[{a}, {b}], x: Tensor["N", {a}], y: Tensor["N", {b}]):
    d = project{i}(x, w) - y
    total = (d * d).sum(axis=1)
    return total.mean()

class Block{i}:
    """Two matrices, and how often they were applied."""

    def __init__(self, scale: float = 1.0):
        self.up = ones({a}, {b}) * scale
        self.down = ones({b}, {a})
        self.calls = 0

    def forward(self, x: Tensor["B", {a}]) -> Tensor["B", {a}]:
        self.calls += 1
        h = relu(x @ self.up)
        return x + h @ self.down

def count{i}(names: list[str], limit: int = {a}) -> dict[str, int]:
    seen = {{}}
    for name in names:
        if len(name) > limit:
            continue
        seen[name] = seen.get(name, 0) + 1
    return seen

def step{i}(x: Tensor["B", {a}], rate: float = 0.1):
    w = ones({a}, {b})
    for k in range(3):
        g = grad(loss{i})(w, x, project{i}(x, w))
        w = w - rate * g
    return w

if __name__ == "never":
    block{i} = Block{i}(0.5)
    print(block{i}.forward(ones(4, {a})).shape, step{i}(ones(2, {a})).shape)
    print(attend{i}(ones(2, 3, {a}), ones(2, 5, {a}), ones(2, 5, {b})).shape, count{i}(["a", "b"]))
'''


def program(lines):
    """A program of about that many lines: units that differ in names and sizes, each calling what it defines."""
    per_unit = UNIT.count("\n")
    return "".join(UNIT.format(i=i, a=4 + i % 61, b=3 + i % 47) for i in range(max(1, lines // per_unit)))


def seconds(argv, rounds):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        p = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
        best = min(best, time.perf_counter() - start)
        if p.returncode:
            raise RuntimeError(f"{' '.join(map(str, argv))}: {(p.stdout + p.stderr).strip()[-300:]}")
    return best


def say(**what):
    print(json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in what.items()}), flush=True)


def throughput(folder):
    empty = folder / "empty.tsr"
    empty.write_text("")
    start, taken = seconds([TESSERA, "check", empty], 5), {}
    for n in SIZES:
        path = folder / f"{n}.tsr"
        path.write_text(program(n))
        lines = path.read_text().count("\n")
        taken[n] = (seconds([TESSERA, "check", path], 3) - start) / lines
        say(name=f"check-{n}", lines_per_s=round(1 / taken[n]), s=taken[n] * lines)
    say(name="check-linear", ratio=taken[SIZES[-1]] / taken[SIZES[0]])


def examples(folder):
    """`check` is what `run` does before it runs; of examples that take long to run only that is of interest."""
    empty = folder / "empty.tsr"
    start = seconds([TESSERA, "check", empty], 5)
    for path in sorted((HERE.parent / "examples").glob("*.tsr")):
        say(name=f"check-example {path.stem}", check_s=seconds([TESSERA, "check", path], 5) - start, start_s=start,
            lines=path.read_text().count("\n"))


def main():
    with tempfile.TemporaryDirectory() as d:
        throughput(pathlib.Path(d))
        examples(pathlib.Path(d))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(program(int(sys.argv[1])), end="")
    else:
        main()
