#!/usr/bin/env python3
"""How fast `tessera check` is: generated tensor programs, and what checking adds to running the examples.

Prints one JSON object a line: {"name": "check-100000", "lines_per_s", "s"}, {"name": "check-linear", "ratio"} (the time of
ten times the lines over ten times the time; 1 is linear, more is worse), {"name": "check-shape ...", "lines_per_s", "ratio"}:
the same for programs of one shape, four times as long, and {"name": "check-example ...", "added_s", "added_instructions", "run_s", "lines"}:
what `run` of an example takes longer because it checks first.  That is the difference to a copy of the program in which check_unit
returns at once, in runs in turn that end at `--help` (most of what is read of the library then, a run that goes on would read too);
instructions are counted where there is a valgrind, and are the same each time.  How long a re-check after an edit takes, bench/recheck.c says.
Times are of the processor, the least of several runs, of the others without the time of the empty program.  `python3 bench/check.py LINES` prints a program.
"""
import json
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TESSERA = HERE.parent / "build/tessera"
SIZES = (10_000, 50_000, 100_000)
SHORT = 0.05

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


# Modules of the library's layers with sizes that are symbols: their forwards are followed into the library, for each object.
MODULES = '''
class Attention{i}(Module):
    """Self-attention of 4 heads."""

    def __init__(self, dim: int = 16, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.qkv = Linear(dim, 3 * dim)
        self.out = Linear(dim, dim)

    def forward(self, x: Tensor["B", "S", 16]) -> Tensor["B", "S", 16]:
        b, s, d = x.shape
        q, k, v = split(self.qkv(x), 3, axis=-1)
        q = q.reshape(b, s, self.heads, d // self.heads).transpose(1, 2)
        k = k.reshape(b, s, self.heads, d // self.heads).transpose(1, 2)
        v = v.reshape(b, s, self.heads, d // self.heads).transpose(1, 2)
        scores = q @ k.mT / (d // self.heads) ** 0.5
        y = softmax(scores, axis=-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, s, d))

class Block{i}(Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = LayerNorm(16), LayerNorm(16)
        self.attention = Attention{i}()
        self.up = Linear(16, 48)
        self.down = Linear(48, 16)

    def forward(self, x: Tensor["B", "S", 16]) -> Tensor["B", "S", 16]:
        x = x + self.attention(self.norm1(x))
        h = gelu(self.up(self.norm2(x)))
        return x + self.down(h)

def pool{i}(x: Tensor["B", "S", "D"], mask: Tensor["B", "S"]) -> Tensor["B", "D"]:
    w = mask / mask.sum(axis=1, keepdims=True)
    return (x * w[:, :, None]).sum(axis=1)

def windows{i}(x: Tensor["B", "T", "D"], size: int = 4) -> Tensor["B", "T", "D"]:
    left = concatenate([zeros(B, size, D), x[:, :T]], axis=1)
    total = x
    for k in range(4):
        total = total + left[:, k:k + T]
    mean = total / float(size)
    centred = mean - mean.mean(axis=-1, keepdims=True)
    scale = (centred * centred).mean(axis=-1, keepdims=True)
    y = centred * rsqrt(scale + 1e-5)
    if T > size:
        y = y * 0.5
    else:
        y = y + 1.0
    return where(y > 0.0, y, 0.1 * y)

def train{i}(block: Block{i}, x: Tensor["B", "S", 16], y: Tensor["B", "S", 16]):
    def loss(b):
        return mse(b(x), y)
    value, g = value_and_grad(loss)(block)
    return value
'''


def program(lines):
    """A program of about that many lines: units that differ in names and sizes, each calling what it defines."""
    per_unit = UNIT.count("\n")
    return "".join(UNIT.format(i=i, a=4 + i % 61, b=3 + i % 47) for i in range(max(1, lines // per_unit)))


def repeated(text, count, before="", after=""):
    return before + "".join(text.replace("{i}", str(i)).replace("{j}", str(i + 1)).replace("{m}", str(i % 20)) for i in range(count)) + after


# Programs of one shape each, of about n lines: what one kind of thing costs when there is much of it.
SHAPES = {
    "modules": lambda n: repeated(MODULES, n // MODULES.count("\n")),
    "many functions": lambda n: repeated('def f{i}(x: Tensor["B", 4]):\n    y = x + {i}.0\n    return y\n', n // 3),
    "one huge function": lambda n: repeated("    v{j} = v{i} * 2.0 + x\n", n, 'def f(x: Tensor["B", 8]):\n    v0 = x\n'),
    "branches in a function": lambda n: repeated("    v{j} = x\n    if k > {i}:\n        v{j} = v{i} * 2.0 + x\n", n // 3,
                                                 'def f(x: Tensor["B", 8], k: int):\n    v0 = x\n'),
    "branches in a module": lambda n: repeated("v{j} = 0.5\nif k > {i}:\n    v{j} = v{i} * 2.0\n", n // 3,
                                               "import sys\nk = len(sys.argv)\nv0 = 1.0\n"),
    "loops": lambda n: repeated("    for i{i} in range(k):\n        s += i{i}\n        t{i} = s\n", n // 3, "def f(k: int):\n    s = 0\n"),
    "classes": lambda n: repeated("class C{j}(C{m}):\n    def m{j}(self):\n        self.a{j} = {i}\n        return self.m0()\n", n // 4,
                                  "class C0:\n    def m0(self):\n        return 0\n"),
    "one huge class": lambda n: repeated("    def m{j}(self, y: int):\n        self.a{j} = y\n        return self.m{i}(y) + self.x\n", n // 3,
                                         "class C:\n    def __init__(self):\n        self.x = 0\n    def m0(self, y: int):\n        return y\n"),
    "objects": lambda n: repeated("p{i} = P({i}, 'x')\nprint(p{i}.a)\n", n // 2,
                                  "class P:\n    def __init__(self, a, b):\n        self.a = a\n        self.b = b\n"),
    "a chain of calls": lambda n: repeated("def f{j}(x):\n    return f{i}(x) + 1\n", n // 2, "def f0(x):\n    return x\n"),
    "closures": lambda n: repeated("    def g{i}(b):\n        return a + b\n", n // 2, "def f(a):\n"),
    "imports": lambda n: repeated("import math as m{i}\nfrom functools import reduce as r{i}\n", n // 2),
    "globals": lambda n: repeated("V{i} = {i}\n", n),
    "a long list": lambda n: repeated("    {i},\n", n, "xs = [\n", "]\n"),
    "a big dict": lambda n: repeated('    "key{i}": {i},\n', n, "d = {\n", "}\n"),
    "deep expressions": lambda n: repeated("    y{i} = " + "(" * 100 + "x" + " + 1.0)" * 100 + "\n", n // 20, 'def f(x: Tensor["B", 4]):\n'),
    "comprehensions": lambda n: repeated("a{i} = [y{i} * 2 for y{i} in range({m})]\n", n),
    "tries": lambda n: repeated("    try:\n        x{i} = int(a)\n    except ValueError:\n        x{i} = {i}\n", n // 4, "def f(a):\n"),
    "matches": lambda n: repeated("        case {i}:\n            return {i}\n", n // 2, "def f(a):\n    match a:\n"),
}


def seconds(argv, rounds):
    """Of the processor, so that other work on the machine does not count."""
    best = float("inf")
    for _ in range(rounds):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        p = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, end.ru_utime - start.ru_utime + end.ru_stime - start.ru_stime)
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


def shapes(folder):
    empty = folder / "empty.tsr"
    start = seconds([TESSERA, "check", empty], 5)
    for name, make in SHAPES.items():
        taken = []
        for n in (10_000, 40_000):
            path = folder / "shape.tsr"
            path.write_text(make(n))
            taken.append((seconds([TESSERA, "check", path], 3) - start) / path.read_text().count("\n"))
        say(name=f"check-shape {name}", lines_per_s=round(1 / taken[1]), ratio=taken[1] / taken[0])


def unchecked(folder):
    """A copy of the program whose check_unit is one return."""
    names = subprocess.run(["nm", TESSERA], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in names.splitlines() if line.endswith(" T check_unit"))
    code = bytearray(TESSERA.read_bytes())
    table, size, count = struct.unpack_from("<Q", code, 32)[0], *struct.unpack_from("<HH", code, 54)
    for k in range(count):
        kind, _, offset, start, _, length = struct.unpack_from("<IIQQQQ", code, table + k * size)
        if kind == 1 and start <= address < start + length:
            code[offset + address - start] = 0xC3
    copy = folder / "unchecked"
    copy.write_bytes(code)
    copy.chmod(0o755)
    return copy


def instructions(argv):
    p = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *argv], capture_output=True, text=True)
    return next(int(line.split()[-1]) for line in p.stderr.splitlines() if "Collected :" in line)


def ends_soon(argv):
    try:
        return subprocess.run(argv, capture_output=True, timeout=2).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def examples(folder):
    """What checking adds to `run`, exactly; of examples that know no --help and take long, which use little, what `check` takes."""
    copy = unchecked(folder)
    empty = folder / "empty.tsr"
    empty.write_text("")
    start = seconds([TESSERA, "check", empty], 9)
    for path in sorted((HERE.parent / "examples").glob("*.tsr")):
        ways = [[program, "run", path, "--help"] for program in (TESSERA, copy)]
        lines = path.read_text().count("\n")
        if not ends_soon(ways[0]):
            say(name=f"check-example {path.stem}", at_most_s=seconds([TESSERA, "check", path], 9) - start, lines=lines)
            continue
        best = [1e9, 1e9]
        for _ in range(30):
            best = [min(b, seconds(way, 1)) for b, way in zip(best, ways)]
        counted = {}
        if shutil.which("valgrind") and best[0] < SHORT:          # others make kernels, which takes more or less
            counted["added_instructions"] = instructions(ways[0]) - instructions(ways[1])
        say(name=f"check-example {path.stem}", added_s=best[0] - best[1], run_s=best[0], lines=lines, **counted)


def main():
    with tempfile.TemporaryDirectory() as d:
        throughput(pathlib.Path(d))
        shapes(pathlib.Path(d))
        examples(pathlib.Path(d))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(program(int(sys.argv[1])), end="")
    else:
        main()
