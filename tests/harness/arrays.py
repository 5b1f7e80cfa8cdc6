"""Random tensor statements for Tessera and NumPy: the same data, views and axes, so the same answer.

A case is operands, each a shape filled with numbers and then a chain of views, and one statement in either spelling.
`python3 tests/harness/arrays.py SEED` prints a program.  Where Tessera differs on purpose (docs/language.md), no case asks.
"""
import dataclasses
import math
import random
import sys

FLOATS, INTS = ["f32", "f64", "f16"], ["int8", "int16", "int32", "int64", "uint8", "uint32"]
NUMPY_NAME = {"f32": "float32", "f64": "float64", "f16": "float16", "bool": "bool_"}
UNARY = ("exp log sqrt sin cos tan tanh sinh cosh atan|arctan log1p expm1 exp2 log2 log10 asinh|arcsinh floor ceil round trunc cbrt square "
         "reciprocal isnan isinf isfinite").split()
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan]


@dataclasses.dataclass
class Operand:
    name: str
    dtype: str
    values: list
    shape: list
    views: list             # (Tessera's spelling, NumPy's)

    def tessera(self):
        v = ", ".join("float('%s')" % x if x != x or abs(x) == math.inf else repr(x) for x in self.values)
        return f"tensor([{v}], dtype={self.dtype}).reshape({tuple(self.shape)})" + "".join(v[0] for v in self.views)

    def numpy(self, np):
        x = np.array(self.values, dtype=getattr(np, NUMPY_NAME.get(self.dtype, self.dtype))).reshape(self.shape)
        return eval("x" + "".join(v[1] for v in self.views), {"x": x})


@dataclasses.dataclass
class Case:
    operands: list
    statement: str
    numpy: str
    ulps: int               # how far floats may be apart: sums have another order


def numbers(r, dtype, n, lo, hi):
    if dtype == "bool":
        return [r.random() < 0.5 for _ in range(n)]
    if dtype in INTS:
        return [r.randint(max(lo, 0) if dtype[0] == "u" else lo, hi) for _ in range(n)]
    v = [round(r.uniform(lo, hi), 2) for _ in range(n)]
    if n and r.random() < 0.2:
        v[r.randrange(n)] = r.choice(SPECIAL)
    return v


def chain(r, shape):
    """Up to two views after another, and the shape they end with."""
    views, s = [], list(shape)
    for _ in range(r.randrange(3)):
        kind, a = r.randrange(5), r.randrange(len(s)) if s else 0
        cut = "[" + ":, " * a
        if kind == 0 and len(s) > 1:
            p = r.sample(range(len(s)), len(s))
            views.append((f".permute{tuple(p)}", f".transpose{tuple(p)}"))
            s = [s[i] for i in p]
        elif kind == 1 and len(s) < 4:
            views.append(("[None]",) * 2)
            s = [1] + s
        elif s:
            text, size = {0: ("::-1]", s[a]), 1: ("::-1]", s[a]), 2: ("::-1]", s[a]), 3: ("::2]", (s[a] + 1) // 2), 4: ("1:]", max(0, s[a] - 1))}[kind]
            views.append((cut + text,) * 2)
            s[a] = size
    return views, s


def operand(r, name, dtype, shape=None, lo=-9, hi=9):
    base = [r.choice([1, 2, 3, 4, 5, 7, 9, 1, 2, 3, 4, 0]) if r.random() < 0.2 else r.choice([1, 2, 3, 5, 9]) for _ in range(r.randrange(4))] if shape is None else list(shape)
    views, final = chain(r, base) if shape is None else ([], base)
    return Operand(name, dtype, numbers(r, dtype, math.prod(base), lo, hi), base, views), final


def stretched(r, shape):
    """A shape that broadcasts to this one."""
    return [d if r.random() < 0.7 else 1 for d in shape][r.randrange(len(shape) + 1) if r.random() < 0.3 else 0:]


def axes(r, n, several=True):
    if not n or r.random() < 0.3:
        return ""
    if several and n > 1 and r.random() < 0.3:
        return "axis=(" + "".join(f"{i - n if r.random() < 0.4 else i}, " for i in r.sample(range(n), r.randrange(1, n + 1))) + ")"
    return f"axis={r.randrange(-n, n)}"


def unary(r):
    mine, _, theirs = r.choice(UNARY).partition("|")
    x, _ = operand(r, "x", r.choice(FLOATS))
    return Case([x], f"{mine}(x)", f"np.{theirs or mine}(x)", 16)


def binary(r):
    op = r.choice("+ - * / // % ** < <= > >= == != & | ^ << >> maximum minimum hypot atan2|arctan2".split())
    dtype = r.choice(INTS + ["bool"] if op in "&|^" else INTS if op in ("<<", ">>") else FLOATS if op[:2] in ("hy", "at") else INTS + FLOATS)
    lo, hi = (0, 5) if op in ("<<", ">>") or (op == "**" and dtype in INTS) else (1, 9) if op in ("//", "%") and dtype in INTS else (-9, 9)
    x, s = operand(r, "x", dtype, lo=lo, hi=hi)
    y, _ = operand(r, "y", dtype, stretched(r, s), lo, hi)
    if op[0].isalpha():
        mine, _, theirs = op.partition("|")
        return Case([x, y], f"{mine}(x, y)", f"np.{theirs or mine}(x, y)", 16)
    return Case([x, y], f"x {op} y", f"x {op} y", 16)


def reduction(r):
    f = r.choice("sum prod max min mean var std any all argmax argmin".split())
    dtype = r.choice(["f32", "f64"] + (INTS if f not in ("mean", "var", "std") else []) + (["bool"] if f in ("any", "all", "sum", "max") else []))
    x, s = operand(r, "x", dtype, lo=-3, hi=3)
    if 0 in s and f in ("max", "min", "argmax", "argmin"):      # of nothing
        return reduction(r)
    a = axes(r, len(s), f[:3] != "arg")
    text = f"x.{f}({a}{', ' if a else ''}keepdims={r.random() < 0.4})"
    return Case([x], text, text, 256)


def product(r):
    b, (m, n, p) = [r.randrange(1, 4)] * r.randrange(2), (r.randrange(1, 70) for _ in range(3))
    dtype = r.choice(["f32", "f64", "int32", "int64"])
    x, _ = operand(r, "x", dtype, r.choice([b + [m, n], [m, n], [n]]), -3, 3)
    y, _ = operand(r, "y", dtype, r.choice([b + [n, p], [n, p], [n]]), -3, 3)
    return Case([x, y], "x @ y", "x @ y", 4096)


# Tessera's spelling | NumPy's where it differs; {a} an axis, {n} a small number
MOVES = """sort(x, axis={a})|sort(x, axis={a}, kind='stable')
argsort(x, axis={a})|argsort(x, axis={a}, kind='stable')
cumsum(x.to(f64), axis={a})|cumsum(x.astype(float), axis={a})
roll(x, {n}, axis={a})
flip(x, axis={a})
repeat(x, 3, axis={a})
concat((x, x), axis={a})|concatenate((x, x), axis={a})
stack((x, x), axis={a})
squeeze(x)
moveaxis(x, {a}, 0)
expand_dims(x, {a})
diff(x.to(f64), axis={a})|diff(x.astype(float), axis={a})
ravel(x)
swapaxes(x, 0, {a})
tril(x[None], {n})
triu(x[None], {n})
x.reshape((-1,))|reshape(x, (-1,))
x.reshape((-1, 1)).T|reshape(x, (-1, 1)).T
pad(x, 2)
take(x, tensor([0, -1]), axis={a})|take(x, np.array([0, -1]), axis={a})
outer(x, x)
kron(x, x)
median(x.to(f64), axis={a})|median(x.astype(float), axis={a})
count_nonzero(x, axis={a})
unique(x)
where(x > 0, x, x + x)
broadcast_to(x, (2,) + x.shape)
tile_array(x, 2)|tile(x, 2)
searchsorted(sort(ravel(x)), ravel(x))|searchsorted(np.sort(np.ravel(x)), np.ravel(x))
searchsorted(sort(ravel(x)), ravel(x), right=True)|searchsorted(np.sort(np.ravel(x)), np.ravel(x), side='right')
nan_to_num(x)
quantile(x.to(f64), 0.25, axis={a})|quantile(x.astype(float), 0.25, axis={a})""".splitlines()


def move(r):
    x, s = operand(r, "x", r.choice(FLOATS + INTS))
    if not s:
        return move(r)
    mine, _, theirs = r.choice(MOVES).format(a=r.randrange(-len(s), len(s)), n=r.randrange(-5, 6)).partition("|")
    if 0 in s and mine[:4] in ("medi", "quan"):                 # of nothing: ours is an error
        return move(r)
    return Case([x], mine, "np." + (theirs or mine), 256)


def conversion(r):
    x, _ = operand(r, "x", r.choice(FLOATS + INTS + ["bool"]))
    to = r.choice(FLOATS + INTS + ["bool"] if x.dtype not in FLOATS else FLOATS + ["bool"])
    return Case([x], f"x.to({to})", f"x.astype('{NUMPY_NAME.get(to, to).rstrip('_')}')", 1)


def transform(r):
    n = r.choice([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 30, 37, 64, 100, 127, 128])
    x, _ = operand(r, "x", r.choice(["f32", "f64"]), r.choice([[n], [3, n]]), -1, 1)
    x.values = [v if math.isfinite(v) else 1.0 for v in x.values]
    f = r.choice(["fft", "ifft", "rfft"])
    return Case([x], f"{f}(x)", f"np.fft.{f}(x)", 1024)


def selection(r):
    x, s = operand(r, "x", r.choice(FLOATS + INTS))
    if not s or 0 in s:
        return selection(r)
    if r.random() < 0.5:
        parts = []
        for d in s:
            whole = [":", str(r.randrange(-d, d)), f"{r.randrange(-d - 1, d + 1)}:{r.randrange(-d - 1, d + 2)}:{r.choice([1, 2, -1, -2, 3])}"]
            parts.append(r.choice(whole + ([] if "..." in parts else ["None, :", "..."])))
        text = f"x[{', '.join(parts)}]"
        return Case([x], text, text, 1)
    i = [r.randrange(-s[0], s[0]) for _ in range(r.randrange(1, 5))]
    j = [r.randrange(-s[-1], s[-1]) for _ in i]
    text = r.choice([f"x[A({i})]", f"x[A({i}), ..., A({j})]" if len(s) > 1 else f"x[A({i})]", "x[x > 0]", f"x[..., A({j})]", f"x[A({[i, i]})]"])
    return Case([x], text.replace("A(", "tensor("), text.replace("A(", "np.array("), 1)


KINDS = [unary, binary, binary, reduction, reduction, reduction, product, move, move, move, conversion, transform, selection]


def cases(seed, n):
    r = random.Random(seed)
    return [r.choice(KINDS)(r) for _ in range(n)]


def program(some):
    """Prints a line a case: number | dtype | shape | elements, or number |! exception."""
    text = "def out(k, y):\n    y = tensor(y)\n    print(k, '|', y.dtype, '|', list(y.shape), '|', y.tolist())\n"
    for k, c in enumerate(some):
        text += "try:\n" + "".join(f"    {o.name} = {o.tessera()}\n" for o in c.operands)
        text += f"    out({k}, {c.statement})\nexcept Exception as e:\n    print({k}, '|!', type(e).__name__, e)\n"
    return text


if __name__ == "__main__":
    print(program(cases(int(sys.argv[1]), 200)), end="")
