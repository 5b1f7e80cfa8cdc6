"""Random tensor functions, each compared with itself staged: program(seed, n) gives the text of n of them.

A function is a short list of statements over values whose shapes (tuples of size letters, or 1) and dtypes are tracked, so
that every statement is well typed.  The program calls it eagerly and under one jit, at several sizes, and prints a line
for each function: `same`, or what differs.  Values are compared by how they print, which tells -0.0 from 0.0.
"""
import random

FLOATS = ("f32", "f32", "f32", "f64", "bf16", "f16")
SIZES = tuple(dict(zip("ABCD", s)) for s in ((3, 5, 2, 3), (1, 7, 4, 2), (9, 300, 1, 2), (0, 3, 2, 1), (70, 33, 3, 2), (2, 1025, 3, 2),
                                              (17, 16, 8, 1), (257, 4, 2, 3), (40, 130, 7, 2)))
UNARY = ("exp", "tanh", "sigmoid", "abs", "sqrt", "-", "sin", "floor", "relu", "rsqrt", "erf", "log", "sign", "square", "gelu", "silu")
BINARY = ("+", "-", "*", "/", "maximum", "minimum", "<", "==", "%", "//", "!=", "<=", ">", "atan2", "pow")
REDUCE = ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "var")
PRELUDE = '''
def show(x):
    if isinstance(x, tuple):
        return [show(v) for v in x]
    return (str(x.dtype), list(x.shape), repr(x.tolist()))

def outcome(f, xs):
    try:
        return show(f(*xs))
    except Exception as e:
        return type(e).__name__

def compare(name, f, cases):
    g = jit(f)
    for xs in cases:
        a = outcome(f, xs)
        b = outcome(g, xs)
        if a != b and (a, b) != ("ZeroDivisionError", "ShapeError"):        # shapes are known before any value
            print(name, [list(x.shape) for x in xs], "eager", str(a)[:600], "staged", str(b)[:600])
            return
    print(name, "same")
'''


class Function:
    def __init__(self, r, name, statements=(2, 12)):
        self.r, self.name, self.lines, self.values, self.n, self.whole = r, name, [], [], 0, []
        self.inputs = []
        for _ in range(r.randint(1, 4)):
            shape = tuple(r.sample("ABCD", r.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 4))))
            shape = ("C", "C") if r.random() < 0.1 else tuple(1 if r.random() < 0.1 else d for d in shape)
            dtype = r.choice(FLOATS + ("f32",) * 4 + ("int32", "bool"))
            self.inputs.append((f"x{len(self.inputs)}", shape, dtype))
        self.values = list(self.inputs)
        for _ in range(r.randint(*statements)):
            self.statement()
        self.results = [v for v in self.r.sample(self.values, min(len(self.values), r.randint(1, 3)))]
        if self.values[-1] not in self.results:
            self.results.append(self.values[-1])

    def put(self, text, shape, dtype):
        name = f"v{self.n}"
        self.n += 1
        self.lines.append(f"{name} = {text}")
        self.values.append((name, shape, dtype))

    def value(self, want=lambda v: True):
        found = [v for v in self.values if want(v)]
        return self.r.choice(found[-4:] if self.r.random() < 0.6 else found) if found else None

    def floating(self):
        return self.value(lambda v: v[2] in FLOATS)

    @staticmethod
    def join(a, b):
        n = max(len(a), len(b))
        a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
        if all(x == y or 1 in (x, y) for x, y in zip(a, b)):
            return tuple(y if x == 1 else x for x, y in zip(a, b))
        return None

    def statement(self):
        kind = self.r.choice(("unary", "unary", "binary", "binary", "binary", "reduce", "reduce", "move", "convert", "where", "norm", "matmul",
                              "scalar", "slice", "clip", "scan", "spread", "order", "branch", "loop", "derive", "batch", "narrow", "join_two", "constant", "numbered", "pick", "surround", "slices", "channels"))
        getattr(self, kind)()

    def unary(self):
        v = self.floating()
        if v:
            op = self.r.choice(UNARY)
            self.put(f"-{v[0]}" if op == "-" else f"{op}({v[0]})", v[1], v[2])

    def scalar(self):
        v = self.floating()
        if v:
            self.put(f"{v[0]} {self.r.choice('+-*/')} {self.r.choice(('2', '0.5', '-1.25', '3e-3'))}", v[1], v[2])

    def binary(self):
        a = self.value()
        b = self.value(lambda v: v[2] == a[2] and self.join(a[1], v[1]) is not None)
        op = self.r.choice(BINARY)
        shape = self.join(a[1], b[1])
        if a[2] == "bool":
            return self.put(f"{a[0]} {self.r.choice('&|^')} {b[0]}", shape, "bool")
        if a[2] == "int32":
            return self.put(f"{a[0]} {self.r.choice(('+', '-', '*', '&', '|', '^', '//', '%'))} {b[0]}", shape, "int32")
        if op in ("<", "==", "!=", "<=", ">"):
            return self.put(f"{a[0]} {op} {b[0]}", shape, "bool")
        self.put(f"{op}({a[0]}, {b[0]})" if op.isalpha() or op == "atan2" else f"{a[0]} {op} {b[0]}", shape, a[2])

    def reduce(self):
        v = self.value(lambda v: len(v[1]) > 0)
        if not v:
            return
        op = self.r.choice(REDUCE)
        if v[2] not in FLOATS:
            op = self.r.choice(("any", "all") if v[2] == "bool" else ("sum", "max", "min"))
        elif op in ("any", "all"):
            op = "sum"
        axes = sorted(self.r.sample(range(len(v[1])), self.r.randint(1, len(v[1]))))
        keep = self.r.random() < 0.5
        shape = tuple(1 if i in axes else d for i, d in enumerate(v[1]) if keep or i not in axes)
        axis = axes[0] - (len(v[1]) if self.r.random() < 0.5 else 0) if len(axes) == 1 else tuple(axes)
        self.put(f"{op}({v[0]}, axis={axis}, keepdims={keep})", shape, v[2])

    def move(self):
        v = self.value(lambda v: len(v[1]) > 0)
        if not v:
            return
        how = self.r.choice(("permute", "unsqueeze", "flip", "squeeze"))
        if how == "permute":
            order = self.r.sample(range(len(v[1])), len(v[1]))
            self.put(f"{v[0]}.permute({', '.join(map(str, order))})", tuple(v[1][i] for i in order), v[2])
        elif how == "unsqueeze" and len(v[1]) < 4:
            at = self.r.randint(0, len(v[1]))
            self.put(f"{v[0]}.unsqueeze({at})", v[1][:at] + (1,) + v[1][at:], v[2])
        elif how == "flip":
            self.put(f"flip({v[0]}, {self.r.randrange(len(v[1]))})", v[1], v[2])
        elif 1 in v[1]:
            at = v[1].index(1)
            self.put(f"{v[0]}.squeeze({at})", v[1][:at] + v[1][at + 1:], v[2])

    def convert(self):
        v = self.value()
        to = self.r.choice(FLOATS if v[2] in FLOATS else FLOATS + ("int32", "bool"))
        self.put(f"{v[0]}.to({to})", v[1], to)

    def where(self):
        a = self.floating()
        b = a and self.value(lambda v: v[2] == a[2] and self.join(a[1], v[1]) is not None)
        if b:
            self.put(f"where({a[0]} < {b[0]}, {a[0]}, {b[0]})", self.join(a[1], b[1]), a[2])

    def norm(self):
        v = self.value(lambda v: v[2] in ("f32", "f64") and len(v[1]) > 0)
        if v:
            self.put(self.r.choice(("softmax({})", "log_softmax({}, axis=-1)", "{0} - {0}.mean(axis=-1, keepdims=True)",
                                    "{0} * rsqrt(({0} * {0}).mean(axis=-1, keepdims=True) + 1e-5)")).format(v[0]), v[1], v[2])

    def matmul(self):
        a = self.value(lambda v: v[2] in ("f32", "f64") and len(v[1]) >= 2)
        b = a and self.value(lambda v: v[2] == a[2] and len(v[1]) == 2 and v[1][0] == a[1][-1])
        if b:
            self.put(f"{a[0]} @ {b[0]}", a[1][:-1] + b[1][1:], a[2])

    def slices(self):
        """Products of batches with a kernel between them, and more of what the kernel takes and gives."""
        a = self.value(lambda v: v[2] in ("f32", "f64") and len(v[1]) >= 3)
        b = a and self.value(lambda v: v[1:] == a[1:])
        if b:
            s = f"s{self.n}"
            self.lines.append(f"{s} = {self.r.choice(('softmax(({}) * 0.3, dim=-1)', 'tanh({})', 'where({0} > 0, {0}, 0.1 * {0})', 'exp(-abs({}))'))}"
                              .format(f"({a[0]} @ {b[0]}.mT)"))
            if self.r.random() < 0.3:
                self.whole.append(s)
            text = self.r.choice((f"{s} @ {a[0]}", f"{s}.mT @ {b[0]}", f"{s} @ {b[0]} - {s}.mT @ {a[0]}", f"{s} @ ({s}.mT @ {b[0]})",
                                  f"tanh({s} @ ({s}.mT @ {b[0]})) * 0.5"))
            self.put(text, a[1], a[2])

    def channels(self):
        """Sums and norms over all axes but one that is not the last: rows that memory has in pieces."""
        v = self.value(lambda v: v[2] in FLOATS and len(v[1]) >= 3)
        if v:
            k = self.r.randrange(len(v[1]) - 1)
            axes = tuple(i for i in range(len(v[1])) if i != k)
            how = f"axis={axes}, keepdims=True"
            self.put(self.r.choice((f"({v[0]} - {v[0]}.mean({how})) * rsqrt({v[0]}.var({how}) + 1e-5)", f"{v[0]} * 0.5 - ({v[0]} * {v[0]}).mean({how})",
                                    f"exp({v[0]} - {v[0]}.max({how}))")), v[1], v[2])

    def slice(self):
        v = self.value(lambda v: len(v[1]) > 0 and v[1][-1] != 1)
        if v:
            self.put(f"{v[0]}[..., ::-1]", v[1], v[2])

    def constant(self):
        v = self.value(lambda v: v[2] in ("f32", "f64"))
        if v:
            a, b = self.r.sample(("3.0", "0.7", "-1.3", "1e-3", "7.25"), 2)
            self.put(f"{v[0]} {self.r.choice('+*-')} (tensor({a}) {self.r.choice('-/')} tensor({b})).to({v[2]})", v[1], v[2])

    def spread(self):
        """The axes of two values in turn, so that nothing of the space lies in one go; of the second a few elements."""
        a = self.value(lambda v: len(v[1]) == 2 and v[2] in FLOATS)
        b = a and self.value(lambda v: len(v[1]) == 2 and v[2] in FLOATS)
        if not b:
            return
        text = f"abs({a[0]}[:, None, :, None] {self.r.choice('+*-')} {b[0]}[:3, :2].to({a[2]})[None, :, None, :]) * 0.5"
        if self.r.random() < 0.5:                       # the second's axes go again
            self.put(f"{self.r.choice(('sum', 'max', 'min'))}({text}, axis=(1, 3))" if b[1][0] != 1 != b[1][1] else f"({text})[:, 0, :, 0]", a[1], a[2])
        else:
            self.lines.append(f"w{self.n} = ({text})[-3:, :, -3:]")
            self.whole.append(f"w{self.n}")
            self.n += 1

    def clip(self):
        v = self.floating()
        if v:
            self.put(f"clip({v[0]}, {self.r.choice(('-1.0, 1.0', '0.0, 0.5', '-0.25, 3.0'))})", v[1], v[2])

    def scan(self):
        v = self.value(lambda v: v[2] in ("f32", "f64", "int32") and len(v[1]) > 0)
        if v:
            self.put(f"cumsum({v[0]}, axis={self.r.randrange(len(v[1]))})", v[1], v[2])

    def order(self):
        v = self.value(lambda v: v[2] in ("f32", "int32") and len(v[1]) > 0)
        if not v:
            return
        axis = self.r.randrange(len(v[1]))
        if self.r.random() < 0.5:
            self.put(f"sort({v[0]}, axis={axis})", v[1], v[2])
        else:
            self.put(f"{self.r.choice(('argmax', 'argmin'))}({v[0]}, axis={axis})", v[1][:axis] + v[1][axis + 1:], "int32")

    def branch(self):
        a = self.value(lambda v: v[2] in ("f32", "f64"))
        if a:
            arms = self.r.sample((f"{a[0]} + 1.5", f"{a[0]} * {a[0]}", f"-{a[0]}", f"tanh({a[0]})", f"{a[0]}"), 2)
            self.lines.append(f"if {a[0]}.sum() {self.r.choice('<>')} 0.5:\n        v{self.n} = {arms[0]}\n    else:\n        v{self.n} = {arms[1]}")
            self.values.append((f"v{self.n}", a[1], a[2]))
            self.n += 1

    def loop(self):
        a = self.value(lambda v: v[2] in ("f32", "f64"))
        if a:
            self.lines.append(f"v{self.n} = {a[0]}\n    for i in range({self.r.choice((3, 6))}):\n        v{self.n} = v{self.n} * 0.5 + {a[0]}")
            self.values.append((f"v{self.n}", a[1], a[2]))
            self.n += 1

    def derive(self):
        v = self.value(lambda v: v[2] in ("f32", "f64"))
        if v:
            body = self.r.choice(("tanh(t) * t", "t * t + exp(-t * t)", "sigmoid(t) - t", "where(t > 0, t, 0.1 * t)", "softmax(t)" if v[1] else "t"))
            self.put(f"grad(lambda t: ({body}).sum())({v[0]})", v[1], v[2])

    def batch(self):
        v = self.value(lambda v: v[2] in ("f32", "f64") and len(v[1]) > 1)
        if v:
            self.put(f"vmap(lambda t: {self.r.choice(('t * t.sum()', 't - t.max()', 'exp(t) + 1', 'cumsum(t, axis=0)'))})({v[0]})", v[1], v[2])

    def narrow(self):
        v = self.value(lambda v: v[2] == "f32")
        if v:
            self.put(f"{v[0]}.to({self.r.choice(('bf16', 'f16', 'fp8_e4m3', 'fp8_e5m2', 'tf32'))}).to(f32)", v[1], v[2])

    def join_two(self):
        a = self.value(lambda v: len(v[1]) > 0 and v[2] in ("f32", "f64", "int32"))
        b = a and self.value(lambda v: v[1] == a[1] and v[2] == a[2])
        if b:
            k = self.r.randrange(len(a[1]))
            self.put(f"concat([{a[0]}, {b[0]}], axis={k}).{self.r.choice(('sum', 'max'))}(axis={k})", a[1][:k] + a[1][k + 1:], a[2])

    def numbered(self):
        """What follows from elements' places: random numbers of one key, places along an axis."""
        v = self.value(lambda v: v[2] in FLOATS and len(v[1]) > 0)
        if v:
            k = self.r.randrange(len(v[1]))
            places = f"arange({v[0]}.shape[{k}]){'[:, None]' if k == len(v[1]) - 2 else ''}" if k >= len(v[1]) - 2 else "arange(1)"
            self.put(self.r.choice((f"{v[0]} * random.uniform({v[0]}.shape, key=random.key({self.r.randrange(9)}), dtype={v[2]})",
                                    f"where(random.uniform({v[0]}.shape, key=random.key(5)) < 0.6, {v[0]}, {v[0]} * 0.0)",
                                    f"where(random.bits({v[0]}.shape, key=random.key(5)) % 3 == 0, {v[0]}, -{v[0]})",
                                    f"where({places} % 3 == 1, {v[0]}, -{v[0]})",
                                    f"{v[0]} + {places}.to({v[2]})")), v[1], v[2])

    def pick(self):
        """Rows by numbers that are in range or count from the end, and what goes back to them."""
        v = self.value(lambda v: v[2] in ("f32", "f64", "int32") and len(v[1]) > 1)
        i = v and self.value(lambda u: u[2] == "int32" and len(u[1]) == 1)
        if i:
            at = f"(({i[0]} % {v[0]}.shape[0]) - {self.r.choice(('0', f'{v[0]}.shape[0]'))})"
            self.put(self.r.choice((f"{v[0]}[{at}] * 2", f"{v[0]}[{at}] + {v[0]}[{at}].abs()")), i[1] + v[1][1:], v[2])

    def surround(self):
        v = self.value(lambda v: v[2] in ("f32", "f64") and len(v[1]) > 0)
        if v:
            k = self.r.randrange(len(v[1]))
            before, after = self.r.choice(((1, 0), (0, 2), (3, 1)))
            widths = ", ".join(f"({before}, {after})" if i == k else "(0, 0)" for i in range(len(v[1])))
            self.put(f"({v[0]}.pad([{widths}]) * 0.5 + 1.0).{self.r.choice(('sum', 'max'))}(axis={k})", v[1][:k] + v[1][k + 1:], v[2])

    def text(self):
        names = ", ".join(n for n, _, _ in self.inputs)
        body = "\n".join(f"    {l}" for l in self.lines)
        results = ", ".join([n for n, _, _ in self.results] + self.whole)
        return f"def {self.name}({names}):\n{body}\n    return ({results},)\n"

    def case(self, sizes):
        def one(shape, dtype):
            dims = "(" + "".join(f"{sizes.get(d, d)}, " for d in shape) + ")"
            if dtype == "bool":
                return f"random.bernoulli(0.5, {dims}) > 0.5"
            if dtype == "int32":
                return f"random.randint(-5, 50, {dims})"
            x = f"(random.normal({dims}) * {self.r.choice(('1.0', '3.0', '0.1', '2000.0'))})"
            if self.r.random() < 0.1:                   # far from zero, all on one side
                x = f"({x} {self.r.choice('+-')} {self.r.choice(('40.0', '9000.0'))})"
            if self.r.random() < 0.15:                  # some elements are special
                special = self.r.choice(("nan", "inf", "-inf", "-0.0", "1e-40"))
                x = f"where(random.bernoulli(0.1, {dims}) > 0.5, tensor(float('{special}')), {x})"
            return f"{x}.to({dtype})"
        return "(" + "".join(one(s, d) + ", " for _, s, d in self.inputs) + ")"


def gradient(f):
    """The text of g<name>: the gradient of all that f gives, by its floats; None: there is none, or f has loops and branches, whose
    eager derivatives are of the passes that were taken.  Adding 0 leaves no sign of zero, which is open at sizes of 1."""
    names = [n for n, _, _ in f.inputs]
    total = " + ".join([f"r[{i}].to(f64).sum()" for i, v in enumerate(f.results) if v[2] in FLOATS])
    by = [i for i, v in enumerate(f.inputs) if v[2] in FLOATS]
    if not total or not by or any(l.startswith("if ") or "\n    for " in l for l in f.lines):
        return None
    body = f"    def total({', '.join(names)}):\n        r = {f.name}({', '.join(names)})\n        return {total}\n"
    return (f"def g{f.name}({', '.join(names)}):\n{body}"
            f"    return tuple([d + 0.0 for d in grad(total, argnums={tuple(by)})({', '.join(names)})])\n")


def long_program(seed, n):
    """Functions of many statements and their gradients, so that there is something to keep and to compute again."""
    r = random.Random(seed)
    parts = [PRELUDE, f"random.seed({seed})\n"]
    for i in range(n):
        f = Function(r, f"l{seed}_{i}", (30, 60))
        cases = ", ".join(f.case(s) for s in r.sample(SIZES, 2))
        g = gradient(f)
        parts += [f.text(), g or "", f'compare("{f.name}", {"g" * bool(g)}{f.name}, [{cases}])\n']
    return "\n".join(parts)


def program(seed, n):
    r = random.Random(seed)
    parts = [PRELUDE, f"random.seed({seed})\n"]
    for i in range(n):
        f = Function(r, f"f{seed}_{i}")
        cases = ", ".join(f.case(s) for s in r.sample(SIZES, 2))
        parts += [f.text(), f'compare("{f.name}", {f.name}, [{cases}])\n']
    return "\n".join(parts)
