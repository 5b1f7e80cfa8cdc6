"""Small programs of the host language, each a function body that runs under Tessera and CPython alike.

PROGRAMS maps a name to (what is made once, the lines of `def go(n):`, n); `go` returns something that both must agree on.
The table covers what programs spend their time on: calls, attributes, containers, text, generators and exceptions.
"""

PROGRAMS = {
    "calls": ("def f(a, b): return a + b", """
    s = 0
    for i in range(n):
        s = f(s, i)
    return s""", 200_000),
    "keyword-calls": ("def f(a, b=2, *, c=3): return a + b + c", """
    s = 0
    for i in range(n):
        s += f(i, c=1)
    return s""", 100_000),
    "star-calls": ("def f(*a, **k): return len(a) + len(k)", """
    s = 0
    for i in range(n):
        s += f(i, i, x=i)
    return s""", 100_000),
    "closures": ("def make(k):\n    def add(x): return x + k\n    return add", """
    s = 0
    for i in range(n):
        s += make(i)(1)
    return s""", 100_000),
    "attributes": ("class P:\n    def __init__(self): self.x = 0; self.y = 1\np = P()", """
    for i in range(n):
        p.x = p.x + p.y
    return p.x > 0""", 200_000),
    "methods": ("class P:\n    def __init__(self): self.x = 0\n    def add(self, k):\n        self.x += k\n        return self\np = P()", """
    for i in range(n):
        p.add(1).add(2)
    return p.x > 0""", 100_000),
    "objects": ("class P:\n    def __init__(self, x, y):\n        self.x = x\n        self.y = y", """
    s = 0
    for i in range(n):
        s += P(i, 1).y
    return s""", 100_000),
    "property-super": ("class A:\n    def __init__(self): self._v = 1\n    def get(self): return self._v\n"
                       "class B(A):\n    @property\n    def v(self): return self._v\n    def get(self): return super().get() + self.v\nb = B()", """
    s = 0
    for i in range(n):
        s += b.get()
    return s""", 100_000),
    "operators": ("class V:\n    def __init__(self, x): self.x = x\n    def __add__(self, o): return V(self.x + o.x)", """
    v = V(0)
    one = V(1)
    for i in range(n):
        v = v + one
    return v.x""", 100_000),
    "while-int": ("", """
    i = s = 0
    while i < n:
        if i % 3 == 0 or i & 7 == 5:
            s += i
        i += 1
    return s""", 300_000),
    "float-math": ("import math", """
    s = 0.0
    for i in range(n):
        s += math.sqrt(i * 0.5) / (1.0 + s)
    return round(s, 6)""", 150_000),
    "list-index": ("a = list(range(1000))", """
    s = 0
    for k in range(n // 1000):
        for i in range(1000):
            s += a[i]
            a[i] = i
    return s""", 200_000),
    "list-append": ("", """
    a = []
    for i in range(n):
        a.append(i)
    return len(a)""", 200_000),
    "list-comp": ("", """
    return len([x * x for x in range(n) if x % 2])""", 200_000),
    "nested-comp": ("", """
    return sum([sum([i * j for j in range(20)]) for i in range(n // 20)])""", 200_000),
    "list-slice": ("a = list(range(100))", """
    s = 0
    for i in range(n):
        s += len(a[10:60]) + len(a[::-1])
    return s""", 50_000),
    "unpack": ("pairs = [(i, i + 1) for i in range(1000)]", """
    s = 0
    for k in range(n // 1000):
        for a, b in pairs:
            a, b = b, a
            s += a - b
    return s""", 200_000),
    "zip-enumerate": ("a = list(range(1000))\nb = list(range(1000))", """
    s = 0
    for k in range(n // 1000):
        for i, (x, y) in enumerate(zip(a, b)):
            s += i + x * y
    return s""", 150_000),
    "dict-str": ("names = ['name%d' % i for i in range(500)]", """
    d = {}
    for k in range(n // 500):
        for w in names:
            d[w] = d.get(w, 0) + 1
    return sum(d.values())""", 200_000),
    "dict-int": ("", """
    d = {}
    for i in range(n):
        d[i % 5000] = i
    s = 0
    for k in d:
        s += d[k]
    return s""", 200_000),
    "dict-items": ("d = {i: str(i) for i in range(1000)}", """
    s = 0
    for k in range(n // 1000):
        for a, b in d.items():
            s += a
        if 77 in d:
            s += 1
    return s""", 200_000),
    "dict-comp": ("", """
    return len({i: i * 2 for i in range(n)})""", 100_000),
    "sets": ("a = set(range(0, 2000, 2))\nb = set(range(0, 2000, 3))", """
    s = 0
    for i in range(n):
        s += len(a & b) + len(a | b) + len(a - b) + (i in a)
    return s""", 500),
    "set-add": ("", """
    s = set()
    for i in range(n):
        s.add(i * 7 % 10007)
    return len(s)""", 200_000),
    "tuple-keys": ("", """
    d = {}
    for i in range(n):
        d[i % 100, i % 7] = i
    return len(d)""", 100_000),
    "deque": ("from collections import deque", """
    q = deque()
    for i in range(n):
        q.append(i)
        if len(q) > 50:
            q.popleft()
    return len(q)""", 150_000),
    "counter": ("from collections import Counter\nwords = ['a', 'b', 'c', 'd'] * 250", """
    s = 0
    for i in range(n // 1000):
        s += Counter(words)['a']
    return s""", 100_000),
    "defaultdict": ("from collections import defaultdict", """
    d = defaultdict(list)
    for i in range(n):
        d[i % 100].append(i)
    return len(d)""", 150_000),
    "heapq": ("import heapq", """
    h = []
    for i in range(n):
        heapq.heappush(h, i * 7919 % 10007)
    return [heapq.heappop(h) for i in range(n)][-1]""", 20_000),
    "sort": ("a = [i * 7919 % 100003 for i in range(20000)]", """
    for i in range(n):
        b = sorted(a)
    return b[5]""", 5),
    "sort-key": ("a = [(i * 7919 % 100003, str(i)) for i in range(20000)]", """
    for i in range(n):
        b = sorted(a, key=lambda t: -t[0])
    return b[5]""", 5),
    "sort-str": ("a = [str(i * 7919 % 100003) for i in range(20000)]", """
    for i in range(n):
        b = sorted(a)
    return b[5]""", 5),
    "fstring": ("", """
    s = 0
    for i in range(n):
        s += len(f"{i}: {i * 0.5:.2f} {i:>8} {i!r}")
    return s""", 50_000),
    "percent-format": ("", """
    s = 0
    for i in range(n):
        s += len("%d %s %.3f" % (i, "abc", i * 0.25)) + len("{} {:>5}".format(i, "x"))
    return s""", 50_000),
    "str-join-split": ("words = ['word%d' % i for i in range(100)]", """
    s = 0
    for i in range(n):
        s += len(",".join(words).split(","))
    return s""", 5_000),
    "str-methods": ("t = '  The quick brown fox jumps over the lazy dog  '", """
    s = 0
    for i in range(n):
        s += len(t.strip().upper().replace("QUICK", "slow")) + t.find("lazy") + t.count("o") + t.startswith("  The")
    return s""", 50_000),
    "str-concat": ("", """
    t = ""
    for i in range(n):
        t = t + "ab"
        t += "c"
    return len(t)""", 100_000),
    "str-index": ("t = 'the quick brown fox ' * 50", """
    s = 0
    for k in range(n // 1000):
        for i in range(len(t)):
            if t[i] == "o":
                s += 1
    return s""", 100_000),
    "str-iterate": ("t = 'the quick brown fox ' * 50", """
    s = 0
    for k in range(n // 1000):
        for c in t:
            s += c == "o"
    return s""", 200_000),
    "unicode": ("t = 'Zoë naïve 日本語 ' * 60", """
    s = 0
    for k in range(n // 100):
        for c in t:
            s += ord(c) > 127
        s += len(t.upper()) + t.count("日") + len(t[10:50]) + (t[k] == "ë")
    return s""", 10_000),
    "str-compare": ("words = ['word%d' % (i % 50) for i in range(1000)]", """
    s = 0
    for k in range(n // 1000):
        for w in words:
            if w == "word7" or w < "word2":
                s += 1
    return s""", 200_000),
    "float-repr": ("", """
    s = 0
    for i in range(n):
        s += len(str(i / 7)) + len(repr(i * 0.5))
    return s""", 50_000),
    "parse-numbers": ("t = [str(i) for i in range(1000)]\nf = [str(i / 8) for i in range(1000)]", """
    s = 0
    for k in range(n // 1000):
        for a in t:
            s += int(a)
        for a in f:
            s += float(a)
    return s""", 100_000),
    "generator": ("def g(n):\n    for i in range(n):\n        yield i", """
    s = 0
    for x in g(n):
        s += x
    return s""", 200_000),
    "genexp": ("", """
    return sum(x * 2 for x in range(n))""", 200_000),
    "small-generators": ("def g(n):\n    for i in range(n):\n        yield i", """
    s = 0
    for i in range(n):
        s += sum(g(3))
    return s""", 30_000),
    "yield-from": ("def tree(d):\n    if d:\n        yield from tree(d - 1)\n        yield d\n        yield from tree(d - 1)", """
    s = 0
    for k in range(n):
        s += sum(tree(10))
    return s""", 5),
    "exceptions": ("class E(Exception): pass", """
    s = 0
    for i in range(n):
        try:
            if i % 2:
                raise E(i)
            s += 1
        except E as e:
            s += 2
        finally:
            s += 1
    return s""", 50_000),
    "try-only": ("d = {}", """
    s = 0
    for i in range(n):
        try:
            s += 1
        except ValueError:
            s += 2
    return s""", 200_000),
    "key-error": ("d = {}", """
    s = 0
    for i in range(n):
        try:
            s += d[i]
        except KeyError:
            s += 2
    return s""", 50_000),
    "with": ("class C:\n    def __enter__(self): return self\n    def __exit__(self, *a): return False\nc = C()", """
    s = 0
    for i in range(n):
        with c as x:
            s += 1
    return s""", 50_000),
    "contextmanager": ("from contextlib import contextmanager\n@contextmanager\ndef cm(x):\n    yield x", """
    s = 0
    for i in range(n):
        with cm(i) as x:
            s += x
    return s""", 20_000),
    "dataclass": ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int = 0", """
    s = 0
    for i in range(n):
        s += P(i, 1) == P(i, 1)
    return s""", 50_000),
    "dataclass-repr": ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: str = 'a'", """
    s = 0
    for i in range(n):
        s += len(repr(P(i)))
    return s""", 30_000),
    "enum": ("from enum import Enum\nclass C(Enum):\n    RED = 1\n    BLUE = 2", """
    s = 0
    for i in range(n):
        c = C.RED if i % 2 else C.BLUE
        s += c.value + (c is C.RED) + (c == C.BLUE)
    return s""", 50_000),
    "match": ("", """
    s = 0
    for i in range(n):
        match (i % 4, i):
            case (0, x):
                s += x
            case (1, _):
                s += 1
            case (a, b) if b > 5:
                s += a
            case _:
                s += 2
    return s""", 100_000),
    "isinstance": ("class A: pass\nclass B(A): pass\nb = B()", """
    s = 0
    for i in range(n):
        if isinstance(b, A) and isinstance(i, (str, int)) and type(i) is int:
            s += 1
    return s""", 150_000),
    "lambda-map": ("", """
    return sum(map(lambda x: x + 1, filter(lambda x: x % 2, range(n))))""", 150_000),
    "builtins": ("a = [3, 1, 2]", """
    s = 0
    for i in range(n):
        s += len(a) + max(a) + min(i, 5) + abs(-i) + sum(a)
    return s""", 100_000),
    "lru-cache": ("from functools import lru_cache\n@lru_cache(maxsize=None)\ndef f(a, b): return a + b", """
    s = 0
    for i in range(n):
        s += f(i % 10, 2)
    return s""", 100_000),
    "itertools": ("import itertools", """
    s = 0
    for a, b in itertools.product(range(n // 300), range(300)):
        s += a ^ b
    for a in itertools.chain(range(n), range(n)):
        s += a
    return s + sum(1 for _ in itertools.combinations(range(60), 3))""", 60_000),
    "json": ("import json\nd = {'a': [1, 2.5, 'text'], 'b': {'c': None, 'd': True}, 'e': list(range(50))}", """
    s = 0
    for i in range(n):
        s += len(json.loads(json.dumps(d)))
    return s""", 3_000),
    "re": ("import re\np = re.compile(r'(\\w+)@(\\w+)\\.com')\nt = 'hello bob@example.com and amy@test.com bye ' * 5", """
    s = 0
    for i in range(n):
        s += len(p.findall(t)) + len(p.sub('x', t))
    return s""", 2_000),
    "bytes": ("b = bytes(range(256)) * 4", """
    s = 0
    for i in range(n):
        for x in b:
            s += x
        s += len(b[5:100]) + b.find(b'\\xff')
    return s""", 200),
    "matrix": ("n0 = 40\na = [[i * j % 7 for j in range(n0)] for i in range(n0)]", """
    for _ in range(n):
        c = [[sum(a[i][k] * a[k][j] for k in range(n0)) for j in range(n0)] for i in range(n0)]
    return c[3][4]""", 1),
    "matrix-loops": ("n0 = 50\na = [[i * j % 7 for j in range(n0)] for i in range(n0)]", """
    c = [[0] * n0 for _ in range(n0)]
    for i in range(n0):
        for j in range(n0):
            s = 0
            for k in range(n0):
                s += a[i][k] * a[k][j]
            c[i][j] = s
    return c[3][4]""", 1),
    "binary-trees": ("def tree(d):\n    return (tree(d - 1), tree(d - 1)) if d else (None, None)\n"
                     "def check(t):\n    return 1 + check(t[0]) + check(t[1]) if t[0] else 1", """
    return check(tree(n))""", 14),
    "queens": ("def solve(n, row, cols, d1, d2):\n    if row == n: return 1\n    c = 0\n    for i in range(n):\n"
               "        if i not in cols and row + i not in d1 and row - i not in d2:\n"
               "            c += solve(n, row + 1, cols | {i}, d1 | {row + i}, d2 | {row - i})\n    return c", """
    return solve(n, 0, set(), set(), set())""", 6),
    "mandelbrot": ("", """
    s = 0
    for i in range(n):
        for j in range(n):
            x = y = 0.0
            cx = i * 2.0 / n - 1.5
            cy = j * 2.0 / n - 1.0
            for k in range(30):
                if x * x + y * y > 4.0:
                    break
                x, y = x * x - y * y + cx, 2.0 * x * y + cy
            s += k
    return s""", 60),
    "spectral-norm": ("def ev(i, j):\n    ij = i + j\n    return 1.0 / (ij * (ij + 1) // 2 + i + 1)", """
    u = [1.0] * n
    for _ in range(2):
        u = [sum([ev(i, j) * u[j] for j in range(n)]) for i in range(n)]
    return round(u[0], 9)""", 120),
    "fannkuch": ("", """
    p = list(range(n))
    q = [0] * n
    s = list(range(n))
    sign, maxflips, total = 1, 0, 0
    while True:
        q0 = p[0]
        if q0 != 0:
            for i in range(1, n): q[i] = p[i]
            flips = 1
            while True:
                qq = q[q0]
                if qq == 0:
                    total += sign * flips
                    if flips > maxflips: maxflips = flips
                    break
                q[q0] = q0
                if q0 >= 3:
                    i, j = 1, q0 - 1
                    while i < j:
                        q[i], q[j] = q[j], q[i]
                        i += 1
                        j -= 1
                q0 = qq
                flips += 1
        if sign == 1:
            p[0], p[1] = p[1], p[0]
            sign = -1
        else:
            p[1], p[2] = p[2], p[1]
            sign = 1
            for i in range(2, n):
                if s[i] != 0:
                    s[i] -= 1
                    break
                if i == n - 1:
                    return (total, maxflips)
                s[i] = i
                t = p[0]
                for j in range(i + 1): p[j] = p[j + 1]
                p[i + 1] = t""", 7),
}


def source(name):
    """The program that times PROGRAMS[name]: prints the best seconds of `go` and what it returned."""
    once, body, n = PROGRAMS[name]
    return (f"import time\n{once}\ndef go(n):{body}\n\nbest = 1e9\nfor _ in range(4):\n    begin = time.process_time()\n"
            f"    r = go({n})\n    best = min(best, time.process_time() - begin)\nprint(best)\nprint(r)\n")
