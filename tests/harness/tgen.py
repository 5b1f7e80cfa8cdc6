"""Random programs that mean the same in Tessera and in CPython: program(seed) gives the text.

Values stay small, so that 64-bit integers are never left; each statement that can raise stands in a `try` that prints
the exception's class.  Functions, classes, generators, closures, comprehensions and containers call each other.
"""
import random

INT_OPS = ("+", "-", "*", "//", "%", "&", "|", "^")
COMPARE = ("<", "<=", ">", ">=", "==", "!=")


class Gen:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines, self.depth = [], 0
        self.vars = {"int": ["i0"], "str": ["s0"], "list": ["l0"], "dict": ["d0"], "float": ["x0"]}
        self.functions, self.classes, self.n = [], [], 0

    def name(self, prefix):
        self.n += 1
        return f"{prefix}{self.n}"

    def put(self, text):
        self.lines.append("    " * self.depth + text)

    def pick(self, *choices):
        return self.r.choice(choices)()

    # --------------------------------------------------------- expressions, by type

    def int_(self, d=0):
        r = self.r
        if d > 3 or r.random() < 0.25:
            return r.choice(self.vars["int"] + [str(r.randint(-9, 99)), str(r.randint(0, 3))])
        return self.pick(
            lambda: f"({self.int_(d + 1)} {r.choice(INT_OPS)} {self.int_(d + 1)}) % 1009",
            lambda: f"(-{self.int_(d + 1)})",
            lambda: f"({self.int_(d + 1)} if {self.bool_(d + 1)} else {self.int_(d + 1)})",
            lambda: f"len({self.pick(lambda: self.list_(d + 1), lambda: self.str_(d + 1), lambda: self.dict_(d + 1))})",
            lambda: f"{self.list_(d + 1)}[{self.int_(d + 2)}]",
            lambda: f"sum({self.list_(d + 1)}) % 997",
            lambda: f"max({self.int_(d + 1)}, {self.int_(d + 1)}, {self.int_(d + 1)})",
            lambda: f"int({self.bool_(d + 1)})",
            lambda: f"{self.str_(d + 1)}.find({self.str_(d + 2)})",
            lambda: f"{self.dict_(d + 1)}.get({self.str_(d + 2)}, {self.int_(d + 1)})",
            lambda: f"(lambda a, b=2: (a * b - 1) % 911)({self.int_(d + 1)})",
            lambda: f"{r.choice(self.functions)}({self.int_(d + 1)}, {self.int_(d + 1)})" if self.functions else "4",
            lambda: f"{r.choice(self.classes)}({self.int_(d + 1)}).get({self.int_(d + 1)})" if self.classes else "5")

    def float_(self, d=0):
        r = self.r
        if d > 3 or r.random() < 0.3:
            return r.choice(self.vars["float"] + [repr(round(r.uniform(-9, 9), 2)), "0.5", "1e3"])
        return self.pick(
            lambda: f"({self.float_(d + 1)} {r.choice('+-*')} {self.float_(d + 1)})",
            lambda: f"({self.float_(d + 1)} / {self.int_(d + 1)})",
            lambda: f"abs({self.float_(d + 1)})",
            lambda: f"round({self.float_(d + 1)}, {r.randint(0, 3)})",
            lambda: f"min({self.float_(d + 1)}, {self.float_(d + 1)})")

    def bool_(self, d=0):
        r = self.r
        return self.pick(
            lambda: f"{self.int_(d + 1)} {r.choice(COMPARE)} {self.int_(d + 1)}",
            lambda: f"({self.int_(d + 1)} < {self.int_(d + 1)} <= {self.int_(d + 1)})",
            lambda: f"{self.str_(d + 1)} {r.choice(COMPARE)} {self.str_(d + 1)}",
            lambda: f"({self.int_(d + 1)} in {self.list_(d + 1)})",
            lambda: f"(not {self.list_(d + 1)})",
            lambda: f"({self.bool_(d + 1)} {r.choice(('and', 'or'))} {self.bool_(d + 1)})" if d < 3 else "True",
            lambda: f"{self.str_(d + 1)}.startswith({self.str_(d + 1)})")

    def str_(self, d=0):
        r = self.r
        if d > 3 or r.random() < 0.3:
            return r.choice(self.vars["str"] + [repr("".join(r.choices("abé日 x,", k=r.randint(0, 5))))])
        return self.pick(
            lambda: f"({self.str_(d + 1)} + {self.str_(d + 1)})[:40]",
            lambda: f"{self.str_(d + 1)}[{r.randint(-4, 4)}:{r.randint(-4, 6)}]",
            lambda: f"{self.str_(d + 1)}.{r.choice(('upper', 'lower', 'strip', 'title', 'swapcase'))}()",
            lambda: f"{self.str_(d + 1)}.replace({self.str_(d + 2)}, {self.str_(d + 2)})[:40]",
            lambda: f"f'{{{self.int_(d + 9)}:>{r.randint(0, 6)}}}|{{{self.float_(d + 9)}:.{r.randint(0, 4)}f}}'",
            lambda: f"str({self.int_(d + 1)})",
            lambda: f"'-'.join(str(v) for v in {self.list_(d + 1)})[:40]",
            lambda: f"repr({self.str_(d + 1)})[:40]",
            lambda: f"''.join(sorted({self.str_(d + 1)}))")

    def list_(self, d=0):
        r = self.r
        if d > 3 or r.random() < 0.3:
            return r.choice(self.vars["list"] + [f"[{', '.join(self.int_(9) for _ in range(r.randint(0, 4)))}]"])
        return self.pick(
            lambda: f"({self.list_(d + 1)} + {self.list_(d + 1)})[:30]",
            lambda: f"{self.list_(d + 1)}[{r.randint(-3, 3)}:{r.randint(-3, 5)}:{r.choice((1, 2, -1))}]",
            lambda: f"[(v * {r.randint(-3, 3)} + {self.int_(d + 9)}) % 101 for v in {self.list_(d + 1)} if v % {r.randint(2, 4)}]",
            lambda: f"sorted({self.list_(d + 1)}, key=lambda v: (v % {r.randint(2, 5)}, v), reverse={r.choice((True, False))})",
            lambda: f"list(range({r.randint(-3, 3)}, {r.randint(0, 9)}, {r.choice((1, 2, 3))}))",
            lambda: f"[a - b for a, b in zip({self.list_(d + 1)}, {self.list_(d + 1)})]",
            lambda: f"list(map(lambda v: v // {r.randint(1, 4)}, {self.list_(d + 1)}))",
            lambda: f"[len(w) for w in {self.str_(d + 1)}.split(',')]",
            lambda: f"list({r.choice(self.dicts())}.values())")

    def dicts(self):
        return self.vars["dict"]

    def dict_(self, d=0):
        r = self.r
        if d > 2 or r.random() < 0.5:
            return r.choice(self.vars["dict"])
        return self.pick(
            lambda: f"{{c: i for i, c in enumerate({self.str_(d + 1)})}}",
            lambda: f"{{**{self.dict_(d + 1)}, {self.str_(d + 9)}: {self.int_(d + 1)}}}",
            lambda: f"dict(zip({self.str_(d + 1)}, {self.list_(d + 1)}))")

    def any_(self):
        return self.pick(self.int_, self.float_, self.bool_, self.str_, self.list_, self.dict_)

    # --------------------------------------------------------- statements

    def guarded(self, body):
        self.put("try:")
        self.depth += 1
        body()
        self.depth -= 1
        self.put("except (ZeroDivisionError, IndexError, KeyError, ValueError, OverflowError) as e:")
        self.put("    print(type(e).__name__)")

    def assign(self):
        kind = self.r.choice(list(self.vars))
        old = self.r.random() < 0.5
        name = self.r.choice(self.vars[kind]) if old else self.name(kind[0])
        value = getattr(self, kind + "_")()
        if not old:
            default = {"int": "0", "str": "''", "list": "[]", "dict": "{}", "float": "0.0"}[kind]
            self.put(f"{name} = {default}")
        self.guarded(lambda: self.put(f"{name} = {value}"))
        if not old:
            self.vars[kind].append(name)

    def mutate(self):
        l, d = self.r.choice(self.vars["list"]), self.r.choice(self.vars["dict"])
        self.guarded(lambda: self.put(self.pick(
            lambda: f"{l} = {l}[:20] + [{self.int_()}]", lambda: f"{l}[{self.int_(3)}] = {self.int_()}",
            lambda: f"del {l}[{self.int_(3)}]", lambda: f"{d}[{self.str_(2)}] = {self.int_()}",
            lambda: f"{l}.insert({self.r.randint(-3, 3)}, {self.int_()}); {l}.pop()", lambda: f"{l}.sort()",
            lambda: f"{d}.pop({self.str_(3)})", lambda: f"{l}[{self.r.randint(0, 2)}:{self.r.randint(0, 3)}] = {self.list_(3)}",
            lambda: f"{self.r.choice(self.vars['int'])} += {self.int_(2)} % 50")))

    def show(self):
        self.guarded(lambda: self.put(f"print({self.any_()}, {self.any_()})"))

    def if_(self):
        self.guarded(lambda: self.block(f"if {self.bool_()}:", 2))

    def block(self, head, n):
        self.put(head)
        kept = {k: list(v) for k, v in self.vars.items()}
        self.depth += 1
        for _ in range(self.r.randint(1, n)):
            self.statement(simple=self.depth > 3)
        self.depth -= 1
        self.vars = kept

    def for_(self):
        v = self.name("v")
        self.put(f"for {v} in {self.pick(lambda: f'range({self.r.randint(0, 4)})', lambda: 'list(range(5))[::-2]')}:")
        kept = {k: list(x) for k, x in self.vars.items()}
        self.vars["int"].append(v)
        self.depth += 1
        for _ in range(self.r.randint(1, 3)):
            self.statement(simple=self.depth > 2)
        self.put(self.r.choice(["pass", f"if {v} == 3: break", f"if {v} % 2: continue"]))
        self.depth -= 1
        self.vars = kept

    def match_(self):
        self.put(f"match {self.r.choice(self.vars['list'])}[:{self.r.randint(0, 4)}]:")
        for pattern in ("[]", "[a]", "[a, b] if a < b", "[a, *rest]"):
            self.put(f"    case {pattern}: print({pattern.split(' if')[0]!r})")

    def function(self):
        name, kept = self.name("f"), self.vars
        self.put(f"def {name}(i0, i1=3):")
        self.depth += 1
        self.vars = {"int": ["i0", "i1"], "str": ["'k'"], "list": ["[i0, i1]"], "dict": ["{'k': i0}"], "float": ["0.5"]}
        self.put(self.pick(lambda: f"return {self.int_()}", lambda: f"return {self.int_()} if i0 > i1 else {self.int_()}",
                           lambda: f"return sum([{self.int_(2)} for i2 in range(i0 % 5)])"))
        self.depth -= 1
        self.vars = kept
        self.functions.append(name)

    def generator(self):
        name = self.name("g")
        self.put(f"def {name}(n):")
        self.put(f"    for i in range(n % 7):")
        self.put(f"        if i % {self.r.randint(2, 3)}: yield i * {self.r.randint(-3, 3)}")
        self.put(f"    yield from range(n % {self.r.randint(2, 4)})")
        self.guarded(lambda: self.put(f"print(list({name}({self.int_()})), sum({name}({self.int_()})))"))

    def class_(self):
        name = self.name("C")
        base = f"({self.r.choice(self.classes)})" if self.classes and self.r.random() < 0.5 else ""
        self.put(f"class {name}{base}:")
        if not base:
            self.put("    def __init__(self, v): self.v = v")
        self.put(f"    def get(self, k): return (self.v * {self.r.randint(1, 5)} + k) % 701")
        if base and self.r.random() < 0.5:
            self.put(f"    def __add__(self, o): return {name}((self.get(1) + o.v) % 97)")
            self.put(f"    def __repr__(self): return f'{name}<{{self.v}}>'")
            self.guarded(lambda: self.put(f"print({name}({self.int_()}) + {name}({self.int_()}))"))
        self.classes.append(name)

    def closure(self):
        name = self.name("c")
        self.put(f"def {name}(n):")
        self.put("    def step(k=1):")
        self.put("        nonlocal n")
        self.put(f"        n = (n * {self.r.randint(2, 5)} + k) % 313")
        self.put("        return n")
        self.put("    return step")
        self.guarded(lambda: self.put(f"h = {name}({self.int_()}); print(h(), h({self.int_()}), h())"))

    def statement(self, simple=False):
        choices = [self.assign, self.assign, self.mutate, self.show, self.show]
        if not simple:
            choices += [self.if_, self.for_, self.match_]
        if not self.depth:
            choices += [self.function, self.generator, self.class_, self.closure]
        self.r.choice(choices)()

    def program(self, statements=40):
        self.lines = ["i0 = 7", "s0 = 'hello, wörld'", "l0 = [3, 1, 4, 1, 5]", "d0 = {'a': 1, 'b': 2}", "x0 = 2.5"]
        for _ in range(statements):
            self.statement()
        return "\n".join(self.lines + ["print(i0, s0, l0, d0, x0)"]) + "\n"


def program(seed):
    return Gen(seed).program()


if __name__ == "__main__":
    import sys
    print(program(int(sys.argv[1])), end="")
