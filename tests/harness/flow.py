"""Random functions whose branches, loops and conditions staged tensors decide: program(seed, n) gives the text of n of them.

They work on variables, a list, a dict, an object and closures, all of which arms and rounds change.  Each is called eagerly,
under jit, and for a batch under vmap and jit(vmap), with the same results; a line for each: `same`, `refused` (a numbered error of
staging), or what differs.
"""
import random

PRELUDE = '''
class O:
    def __init__(self, u, w):
        self.u = u
        self.w = w
    def bump(self, v):
        self.u = self.u + v
        return self.w

def flat(r):
    if isinstance(r, (tuple, list)):
        return [flat(v) for v in r]
    return r.to(f64).tolist()

def outcome(f, xs):
    try:
        return flat(f(*xs))
    except Exception as e:
        return type(e).__name__ + " " + str(e)

def is_refused(r):
    return isinstance(r, str) and ("E054" in r or "staged tensor" in r)

def batched(f, cases):
    r = outcome(f, [stack([c[i] for c in cases]) for i in range(3)])
    return r if isinstance(r, str) else [[t[i] for t in r] for i in range(len(cases))]          # a row an example

def compare(name, f, cases):
    g = jit(f)
    for how, want, got in [("jit", outcome(f, c), outcome(g, c)) for c in cases] + [(how, [outcome(f, c) for c in cases], batched(h, cases))
                                                                                   for how, h in (("vmap", vmap(f)), ("jit(vmap)", jit(vmap(f))))]:
        if is_refused(got):
            print(name, "refused")
            return
        if repr(want) != repr(got):
            print(name, how, want, "///", got)
            return
    print(name, "same")
'''
RESULT = ", ".join(f"{v} + x * 0" for v in ("a", "b", "c", "h", "L[0]", "L[1]", "L[2]", "D['p']", "D['q']", "o.u", "o.w", "v", "j"))


def inner(lines):
    return ["    " + l for l in lines]


class Flow:
    def __init__(self, r, name):
        self.r, self.name, self.counters, self.loops, self.nested = r, name, 0, 0, False

    def number(self):
        return self.r.choice(("0.5", "1.0", "2.0", "-1.0", "3.0", "0.25"))

    def place(self):
        return self.r.choice(("a", "b", "c", "a", "b", "c", "L[0]", "L[1]", "L[-1]", "D['p']", "D['q']", "o.u", "o.w"))

    def atom(self):
        return self.r.choice((self.number(), "h", "v.sum()", "v[1]", "v[j % 3]", "v[(j - 1) % 3]") + (self.place(),) * 8)

    def value(self, depth=0):
        r = self.r.random()
        if depth > 2 or r < .35:
            return self.atom()
        a = self.value(depth + 1)
        if r < .75:
            return f"({a} {self.r.choice('+-')} {self.value(depth + 1)})"
        if r < .82:
            return f"({a} * {self.r.choice(('0.5', '-0.5', '0.25'))})"
        if r < .88:
            return f"({a} if {self.condition()} else {self.value(depth + 1)})"
        if r < .95:
            return f"f1({self.atom()})" if not self.nested else f"maximum({self.place()} + 0.0, {self.number()})"
        return f"(lambda t: t + {self.place()})({self.atom()})"

    def condition(self, depth=0):
        r = self.r.random()
        if depth < 2 and r < .24:
            return f"({self.condition(depth + 1)} {self.r.choice(('and', 'or'))} {self.condition(depth + 1)})"
        if depth < 2 and r < .3:
            return f"(not {self.condition(depth + 1)})"
        if r < .4 and not self.nested:
            return f"((z := {self.value(1)}) > {self.number()})"
        if r < .5:                                      # what may fail stands behind what says that it does not
            return self.r.choice((f"(j < 3 and j >= 0 and v[j] > {self.number()})", f"(j >= 3 or v[j] < {self.atom()})", "(j != 0 and 7 // j > 1)"))
        return f"({self.value(1)} {self.r.choice(('<', '>', '<=', '>='))} {self.value(1)})"

    def block(self, depth, n=None):
        return [l for _ in range(n or self.r.randint(1, 3)) for l in self.statement(depth)]

    def statement(self, depth):
        r, p, q = self.r.random(), self.place(), self.place()
        if r < .26 or depth > 3:
            return [f"{p} = {self.value()}"]
        if r < .36:
            return [self.r.choice(("j = j + 1", "j = (j * 2) % 5", f"v[j % 3] += {self.value()}", f"{p} += {self.value()}", f"{p}, {q} = {q}, {p}", f"v[{self.r.randrange(3)}] = {self.atom()}"))]
        if r < .40:
            return [f"L.append(L.pop({self.r.randrange(2)}) + {self.atom()})"]
        if r < .46 and not self.nested:
            return [self.r.choice((f"g1({self.atom()})", f"{p} = o.bump({self.number()})"))]
        if r < .72 or self.loops > 1:
            return self.branch(depth)
        if r < .92:
            return self.loop(depth)
        if r < .97 and self.loops and depth > 1:
            return [self.r.choice(("break", "continue"))]
        return [f"return ({RESULT})" if depth and not self.nested else f"{p} = {self.value()}"]

    def branch(self, depth):
        out = [f"if {self.condition()}:"] + inner(self.block(depth + 1))
        if self.r.random() < .25:
            out += [f"elif {self.condition()}:"] + inner(self.block(depth + 1))
        return out + (["else:"] + inner(self.block(depth + 1)) if self.r.random() < .55 else [])

    def loop(self, depth):
        self.counters += 1
        self.loops += 1
        k, body = f"k{self.counters}", inner(self.block(depth + 1))
        self.loops -= 1
        if self.r.random() < .5:
            bound = f"{k} < {self.r.randint(1, 5)}"
            test = self.r.choice((bound, f"{self.condition(1)} and {bound}", f"{bound} and {self.condition(1)}"))
            return [f"{k} = {self.r.choice(('0', 'x * 0'))}", f"while {test}:", f"    {k} = {k} + 1"] + body
        over = self.r.choice(("range(3)", "range(9)", "range(1, 9, 2)", "v", "list(L)", "[1.0, 2.0]", "D.values()"))
        return [f"for {k} in {over}:", f"    {self.place()} = {self.place()} + {k} * 0.5"] + body

    def text(self):
        self.nested = True
        g1 = ["nonlocal a, b, c, h, v, j", "a = a + t"] + self.block(2, 2)
        f1 = ["nonlocal a, b, c, h, v, j", "c = t + c * 0.5"] + self.block(2, 1) * (self.r.random() < .3) + ["return t + 1"]
        self.nested = False
        head = ["a, b, c = x, y, x - y", f"j = {self.r.choice(('0', '(x * 0).to(int32)', 'abs(y).to(int32)'))}", f"h = {self.r.choice(('2', 'x * 0 + 2'))}", "z = x * 0", "L = [x, y, x + y]", "D = {'p': x, 'q': y * 2}",
                "o = O(x, y)", "def g1(t):"] + inner(g1) + ["def f1(t):"] + inner(f1)
        return "\n".join([f"def {self.name}(x, y, v):"] + inner(head + self.block(0, self.r.randint(3, 7)) + [f"return ({RESULT})"])) + "\n"

    def case(self):
        one = [f"tensor({self.r.choice((-2.0, -0.5, 0.0, 0.75, 1.5, 3.0))})" for _ in range(2)]
        return f"({', '.join(one)}, tensor([{self.r.choice((0.5, -1.0))}, {self.r.choice((2.0, 0.0))}, 1.0]))"


def program(seed, n):
    r, parts = random.Random(seed), [PRELUDE]
    for i in range(n):
        f = Flow(r, f"f{seed}_{i}")
        parts += [f.text(), f"compare(\"{f.name}\", {f.name}, [{', '.join(f.case() for _ in range(4))}])\n"]
    return "\n".join(parts)
