"""Random matrix products and what follows them: python3 bench/gpu/random_products.py SEED [CASES [LARGE]] prints a program.

It prints the same with WHERE as "cpu" and as "gpu:0": operands of f32 and f64 are any numbers, those that matrix units take are small whole ones,
whose sums are exact. Shapes are odd, empty, of one row, and as LARGE says (a share of the cases) of hundreds; operands lie in rows or columns,
with gaps, backwards, repeated. With a path of Tessera before SEED both are run and compared.
"""
import random
import subprocess
import sys
import tempfile

ORDERED, UNITS = ["f32", "f32", "f64"], ["bf16", "bf16", "bf16", "f16", "f16", "fp8_e4m3", "fp8_e5m2", "int8", "uint8", "tf32"]
SIZES = [1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 48, 63, 64, 65, 70, 96, 100, 127, 128, 129, 130, 144, 160, 192, 200, 255, 256, 257, 300]
STEPS = [0, 1, 1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 70, 96, 127, 128, 130, 200, 255, 256, 257, 300, 512, 520, 600]
HOST = ["max", "sum", "argmax"]         # of one element, what the host computes
LARGE = [384, 512, 640, 768, 1000, 1024, 1096, 1500]
# What follows y = a @ b; the shape of z: n, a row; m, a column; mn, as y.
FLOATS = [("relu(y + z)", "n"), ("gelu(y + z)", "n"), ("silu(y) * z", "mn"), ("softmax(y, axis=-1)", ""), ("(tanh(y), y.max(axis=-2))", ""), ("layer_norm(y)", ""),
          ("gelu(y, approximate='tanh')", ""), ("exp(y * 0.01)", "")]
ANY = [("y", "")] * 5 + [("y + z", "n"), ("y + z", "m"), ("y + z", "mn"), ("y * 2 - z", "mn"), ("y.sum(axis=0)", ""), ("y.sum(axis=-1)", ""), ("y.sum()", ""), ("y.max(axis=-1)", ""),
                         ("argmax(y, axis=-1)", ""), ("(y, y + 1)", ""), ("where(y > 0, y, z)", "mn"), ("y.mT + 1", ""), ("y[..., ::2]", ""), ("concat([y, z], axis=-1)", "mn"), ("y.max()", "")]
PRELUDE = '''
def show(name, how, *all):
    for y in all:
        x = y.to("cpu").to(f64).reshape(-1)
        print(name, how, y.dtype, y.shape, x.tolist() if x.size <= 1200 else (repr(x.sum().item()), repr((x * (arange(x.size) % 97)).sum().item()), repr(x.max().item())))
def case(name, f, views, xs):
    for how in ("eager", "staged"):
        y = (jit(f) if how == "staged" else f)(*views(*[x.to(WHERE) for x in xs]))
        show(name, how, *(y if isinstance(y, tuple) else (y,)))
def whole(shape, lo, hi, dt):
    return random.randint(lo, hi, shape).to(dt)
def real(shape, dt, how):
    x = random.normal(shape)
    if how == 1: x = where(random.uniform(shape) < 0.3, 0.0, x)
    if how == 2: x = x * where(random.uniform(shape) < 0.5, 1e-30, 1e20)
    if how == 3: x = where(random.uniform(shape) < 0.01, INF, x)
    if how == 4: x = x * 1e-23
    return x.to(dt) * (1e-150 if how == 4 and dt == f64 else 1.0)
'''


def laid(r, shape, name):
    """The shape that an operand is made in, and the view of it that has `shape`."""
    s, how = list(shape), r.choice(["plain"] * 3 + ["turned"] * 3 + ["gap", "back", "part", "same", "strided", "wide", "wide_turned"])
    if how == "turned":
        return s[:-2] + [s[-1], s[-2]], name + ".mT"
    if how == "gap":
        return s[:-1] + [s[-1] + r.choice([1, 3, 8])], f"{name}[..., :{s[-1]}]"
    if how == "wide":
        return s[:-1] + [s[-1] + 8 + -s[-1] % 16], f"{name}[..., :{s[-1]}]"
    if how == "wide_turned":
        return s[:-2] + [s[-1], s[-2] + 16 + -s[-2] % 16], f"{name}[..., :{s[-2]}].mT"
    if how == "back":
        return s, name + r.choice(["[..., ::-1, :]", "[..., ::-1]"])
    if how == "part":
        return s[:-2] + [s[-2] + 3, s[-1] + 1], f"{name}[..., 3:, 1:]"
    if how == "same":
        one = list(s)
        one[r.randrange(len(s))] = 1
        return one, f"{name}.broadcast_to({tuple(s)})"
    if how == "strided":
        return s[:-1] + [2 * s[-1]], f"{name}[..., ::2]"
    return s, name


def batches(r):
    """Batch axes of the operands and of the result."""
    full = r.choice([[]] * 5 + [[2], [3], [2, 3], [5], [1, 4], [2, 1, 3]])
    a = [1 if r.random() < 0.15 else n for n in full]
    b = [1 if r.random() < 0.15 and a[i] == n else n for i, n in enumerate(full)]
    way = r.random()
    a, b = (a, []) if way < 0.2 else ([], b) if way < 0.3 else (a, b)
    return a, b, [max(x, y) for x, y in zip(a or b, b or a)]


def case(r, name, large):
    ordered, many = r.random() < 0.35, r.random() < large
    dt, how = r.choice(ORDERED if ordered else UNITS), r.choice([0, 0, 0, 1, 2, 3, 4])
    size = lambda: r.choice(LARGE if many and r.random() < 0.7 else SIZES)
    m, n, k = size(), size(), r.choice(LARGE if many and r.random() < 0.5 else STEPS)
    if r.random() < 0.06:
        m = 1
    a, b, full = batches(r) if m * n * k < 3e7 else ([], [], [])
    (s0, v0), (s1, v1) = laid(r, a + [m, k], "a"), laid(r, b + [k, n], "b")
    follows, z = r.choice(ANY + (FLOATS if dt not in ("int8", "uint8") else []))
    lo, hi = {"int8": (-100, 100), "uint8": (0, 200)}.get(dt, (-3, 4))
    make = (lambda s, d: f"real({tuple(s)}, {d}, {how})") if ordered else (lambda s, d: f"whole({tuple(s)}, {lo}, {hi}, {d})")
    xs, views = [make(s0, dt), make(s1, dt)], [v0, v1]
    if z:
        shape, out = {"n": [n], "m": full + [m, 1], "mn": full + [m, n]}[z], "int32" if "int" in dt else dt
        xs.append(f"real({tuple(shape)}, {out}, 0)" if ordered else f"whole({tuple(shape)}, -9, 9, {out})")
        views.append("z")
    names = ", ".join("abz"[:len(xs)])
    product = f"({v0} @ {v1})" if (inside := r.random() < 0.3) else "(a @ b)"
    return (f"case({f'{name} {dt} {a + [m, k]} {v0} @ {b + [k, n]} {v1}: {follows}'!r}, lambda {names}: (lambda y: {follows}){product}, "
            f"lambda {names}: ({names if inside else ', '.join(views)},), [{', '.join(xs)}])")


def program(seed, cases=40, large=0.0):
    r = random.Random(seed)
    return "\n".join([PRELUDE, f"random.seed({seed})"] + [case(r, f"{seed}/{i}", large) for i in range(cases)]) + "\n"


def compare(tessera, seed, cases=40, large=0.0):
    out = []
    for where in ("cpu", "gpu:0"):
        with tempfile.NamedTemporaryFile("w", suffix=".tsr") as f:
            f.write(program(seed, cases, large).replace("WHERE", repr(where)))
            f.flush()
            p = subprocess.run([tessera, "run", f.name], capture_output=True, text=True)
            out.append(p.stdout.splitlines() + ([f"exit {p.returncode}: {p.stderr[-300:]}"] if p.returncode else []))
    bad = [(a, b) for a, b in zip(*out) if a != b]
    print(seed, len(out[0]), "results,", len(bad) + abs(len(out[0]) - len(out[1])), "differ")
    for a, b in bad[:4]:
        print("  cpu", a[:300], "\n  gpu", b[:300])
    if len(out[0]) != len(out[1]):
        print("  ", out[0][-1][-300:], "\n  ", out[1][-1][-300:])


if __name__ == "__main__":
    own = "/" in sys.argv[1]
    numbers = [float(x) if "." in x else int(x) for x in sys.argv[1 + own:]]
    if own:
        compare(sys.argv[1], *numbers)
    else:
        print(program(*numbers).replace("WHERE", '"gpu:0"'))
