"""formulas.py FORMULA.DEF IN.LL OUT.INC: the straight-line functions of formulas.c as tables.

clang has compiled src/runtime/formulas.c to LLVM's text.  A function without loops becomes one list of instructions:
a branch chooses between values that are all computed, which is right because nothing here traps or has effects.
A function that has loops, divides under a condition, or calls more than the intrinsics of formula.def has no list; compiled
code calls it.
"""
import re
import struct
import sys

TYPES = ("i1", "i8", "i16", "i32", "i64", "float", "double")
FLAGS = {"nsw", "nuw", "exact", "disjoint", "nneg"}
DIVISIONS = {"sdiv", "udiv", "srem", "urem"}
CONSTANT = 0x8000


class Called(Exception):
    """This function has no straight line."""


class Instructions:
    """What formula.def names, by kind."""
    def __init__(self, text):
        rows = re.findall(r"\b(BIN|CAST|FCMP|ICMP|CALL)\((\w+), (\w+)\)", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
        self.of = {kind: {name: row for k, name, row in rows if k == kind} for kind in ("BIN", "CAST", "FCMP", "ICMP", "CALL")}


class Pool:
    """The constants of all formulas: (type, bits)."""
    def __init__(self):
        self.index = {}

    def ref(self, kind, bits):
        return CONSTANT | self.index.setdefault((kind, bits), len(self.index))

    def parse(self, kind, text):
        if text in ("true", "false"):
            return self.ref(kind, int(text == "true"))
        if kind.startswith("i"):
            return self.ref(kind, int(text) & ((1 << int(kind[1:])) - 1))
        if kind not in TYPES or not re.fullmatch(r"0x[0-9A-F]+|-?\d+\.\d+e[+-]\d+", text):
            raise Called
        value = struct.unpack(">d", bytes.fromhex(text[2:].zfill(16)))[0] if text.startswith("0x") else float(text)
        form = (">f", ">I") if kind == "float" else (">d", ">Q")
        return self.ref(kind, struct.unpack(form[1], struct.pack(form[0], value))[0])


def matched(pattern, text):
    m = re.fullmatch(pattern, text)
    if not m:
        raise Called
    return m


class Function:
    """One function: params and outs are types, code a list of (instruction, type, operands), results refs."""
    def __init__(self, name, params, body, known, pool, aliases):
        self.name, self.known, self.pool, self.aliases = name, known, pool, aliases
        kinds = [p.split()[0] for p in params]
        self.nout = kinds.count("ptr")
        self.params = kinds[self.nout:]
        self.outs = [self.out_type(k, body) for k in range(self.nout)]
        self.body = re.sub(r", !.*|, align \d+", "", body)
        self.code, self.results = [], [0] * self.nout
        self.ref = {f"%{i + self.nout}": i for i in range(len(self.params))}
        try:
            self.straighten(len(kinds))
            self.drop_unused()
            self.straight = True
        except Called:
            self.code, self.straight = [], False

    def drop_unused(self):
        first, used = len(self.params), set(self.results)
        for i in range(len(self.code) - 1, -1, -1):
            if first + i in used:
                used.update(self.code[i][2])
        kept = [i for i in range(len(self.code)) if first + i in used]
        name = {first + i: first + k for k, i in enumerate(kept)}
        self.code = [(op, kind, [name.get(r, r) for r in operands]) for op, kind, operands in (self.code[i] for i in kept)]
        self.results = [name.get(r, r) for r in self.results]

    def out_type(self, k, body):
        """What pointer k points to: what is stored there, but a float that is stored as its bits is a float by its alias class."""
        found = set(re.findall(rf"store (\w+) \S+, ptr %{k}, align \d+, !tbaa (!\d+)$", body, re.M))
        kinds = {self.aliases[tag] if self.aliases[tag] in ("float", "double") else kind for kind, tag in found}
        assert len(kinds) == 1 and kinds <= set(TYPES), (self.name, k, found)
        return kinds.pop()

    def add(self, op, kind, *operands):
        if kind not in TYPES:
            raise Called
        self.code.append((op, kind, operands))
        return len(self.params) + len(self.code) - 1

    def value(self, kind, text):
        if text.startswith("%"):
            if text not in self.ref:                    # a loop's
                raise Called
            return self.ref[text]
        return self.pool.parse(kind, text)

    # blocks ---------------------------------------------------------------------------------------------------

    def straighten(self, entry):
        parts = re.split(r"^(\d+):.*\n", f"{entry}:\n" + self.body, flags=re.M)[1:]
        blocks = [(parts[i], [s.strip() for s in parts[i + 1].splitlines() if s.strip()]) for i in range(0, len(parts), 2)]
        place = {label: i for i, (label, _) in enumerate(blocks)}
        self.edges = {}                                 # (from, to): the condition, as a ref; None: always
        self.reached = {blocks[0][0]: None}             # block: when it is entered
        for at, (label, lines) in enumerate(blocks):
            if at:
                self.reached[label] = self.either([c for (_, to), c in self.edges.items() if to == label])
            for line in lines[:-1]:
                self.instruction(line, label, at == 0 or lines[-1] == "ret void")
            self.leave(lines[-1], label, lambda to: place[to] > at)

    def leave(self, line, label, is_later):
        one, two = re.fullmatch(r"br label %(\d+)", line), re.fullmatch(r"br i1 (\S+), label %(\d+), label %(\d+)", line)
        if one:
            ways = [(one[1], self.reached[label])]
        elif two:
            c = self.value("i1", two[1])
            inverse = self.add("xor", "i1", c, self.pool.ref("i1", 1))
            ways = [(two[2], self.both(self.reached[label], c)), (two[3], self.both(self.reached[label], inverse))]
        elif line == "ret void":
            return
        else:
            raise Called
        for to, condition in ways:
            if not is_later(to) or (label, to) in self.edges:
                raise Called
            self.edges[label, to] = condition

    def both(self, a, b):
        """a and b, where b means something only when a holds."""
        return b if a is None else self.add("select", "i1", a, b, self.pool.ref("i1", 0))

    def either(self, conditions):
        if None in conditions:
            return None
        all_of = conditions[0]
        for c in conditions[1:]:
            all_of = self.add("select", "i1", all_of, self.pool.ref("i1", 1), c)
        return all_of

    def phi(self, kind, rest, label):
        ways = [(self.value(kind, v), self.edges[p, label]) for v, p in re.findall(r"\[ (\S+), %(\d+) \]", rest)]
        chosen = ways[-1][0]
        for value, condition in reversed(ways[:-1]):
            chosen = self.add("select", kind, condition, value, chosen)
        return chosen

    # instructions ---------------------------------------------------------------------------------------------

    def instruction(self, line, label, always):
        store = re.fullmatch(r"store (\w+) (\S+), ptr %(\d+)", line)
        if store and int(store[3]) < self.nout and always:
            out = int(store[3])
            value = self.value(store[1], store[2])
            self.results[out] = value if store[1] == self.outs[out] else self.add("bitcast", self.outs[out], value)
            return
        m = matched(r"(%\d+) = (?:tail |notail )?(\w+) (.*)", line)
        words = m[3].split()
        while words[0] in FLAGS:
            words.pop(0)
        if m[2] in DIVISIONS and not always:
            raise Called
        self.ref[m[1]] = self.compute(m[2], " ".join(words), label)

    def compute(self, op, rest, label):
        known = self.known.of
        if op == "phi":
            return self.phi(rest.split()[0], rest, label)
        if op in known["BIN"]:
            kind, a, b = matched(r"(\w+) (\S+), (\S+)", rest).groups()
            return self.add(op, kind, self.value(kind, a), self.value(kind, b))
        if op in known["CAST"]:
            kind, a, to = matched(r"(\w+) (\S+) to (\w+)", rest).groups()
            return self.add(op, to, self.value(kind, a))
        if op in ("fcmp", "icmp"):
            how, kind, a, b = matched(r"(\w+) (\w+) (\S+), (\S+)", rest).groups()
            if how not in known[op.upper()]:
                raise Called
            return self.add(f"{op}_{how}", "i1", self.value(kind, a), self.value(kind, b))
        if op == "select":
            c, kind, a, b = matched(r"i1 (\S+), (\w+) (\S+), \w+ (\S+)", rest).groups()
            return self.add("select", kind, self.value("i1", c), self.value(kind, a), self.value(kind, b))
        if op == "fneg":
            kind, a = rest.split()
            return self.add("fneg", kind, self.value(kind, a))
        if op == "call":
            return self.call(rest)
        raise Called

    def call(self, rest):
        m = matched(r".*?(\w+) @llvm\.([\w.]+)\.\w+\((.*)\)[ #\d]*", rest)
        kind, name, args = m[1], m[2], [(a.split()[0], a.split()[-1]) for a in m[3].split(", ")]
        values = lambda: [self.value(k, v) for k, v in args]
        if name == "abs":                               # -x of the lowest wraps, as i1 false says
            x = values()[0]
            negative = self.add("icmp_slt", "i1", x, self.pool.ref(kind, 0))
            return self.add("select", kind, negative, self.add("sub", kind, self.pool.ref(kind, 0), x), x)
        if name == "fshl":                              # the upper half of both, shifted
            bits, by = int(kind[1:]), args[2][1]
            if not by.isdigit() or not 0 < int(by) < bits:
                raise Called
            x, y, _ = values()
            low = self.add("lshr", kind, y, self.pool.ref(kind, bits - int(by)))
            return self.add("or", kind, self.add("shl", kind, x, self.pool.ref(kind, int(by))), low)
        if name == "is.fpclass":
            return self.add("fpclass", "i1", *values())
        if name not in self.known.of["CALL"]:
            raise Called
        return self.add(f"call_{name}", kind, *values())


def alias_classes(text):
    """tag of an access: name of its type."""
    names = dict(re.findall(r'^(!\d+) = !\{!"([^"]+)", ', text, re.M))
    return {tag: names[of] for tag, of in re.findall(r"^(!\d+) = !\{(!\d+), !\d+, i64 0\}", text, re.M) if of in names}


def functions(text, known, pool):
    aliases = alias_classes(text)
    for name, params, body in re.findall(r"^define [^@]*@(tsr_\w+)\((.*?)\)[^{]*\{\n(.*?)^\}", text, re.M | re.S):
        yield Function(name, params.split(", "), body, known, pool, aliases)


def dtype(name):
    return "DT_bool" if name == "bool8" else name if name.startswith("DT_") else f"DT_{name}"


def index_rows(fs):
    """The tables that find a formula by what it means; 0 is none."""
    rows = {"op": [], "lane": [], "enc": [], "dec": [], "x": []}
    for i, f in enumerate(fs, 1):
        group, *keys = f.name[4:].split("__")
        places = {"op": lambda: f"[OP_{keys[0]}][{dtype(keys[1])}]", "x": lambda: f"[FORMULA_{keys[0]}]"}
        place = places.get(group, lambda: "".join(f"[{dtype(k)}]" for k in keys))()
        rows[group].append(f"{place} = {i},")
    return rows


def kind_of(t):
    return f"K_{t}"


def padded(items, n):
    return "{" + ", ".join(items[:n]) + "}"


def main():
    known, pool = Instructions(open(sys.argv[1]).read()), Pool()
    fs = list(functions(open(sys.argv[2]).read(), known, pool))
    out = [f"enum {{ FORMULA_LENGTH = {max(len(f.code) for f in fs)} }};", "static const Inst insts[] = {"]
    formulas, at = [], 0
    for f in fs:
        out += [f"{{I_{op}, {kind_of(kind)}, {{{', '.join(map(str, operands))}}}}}," for op, kind, operands in f.code]
        fn = "NULL" if f.straight else f.name
        formulas.append(f'{{"{f.name}", {fn}, {at}, {len(f.code)}, {len(f.params)}, {f.nout}, '
                        f"{padded([kind_of(t) for t in f.params], 6)}, {padded([kind_of(t) for t in f.outs], 2)}, "
                        f"{padded([str(r) for r in f.results], 2)}}},")
        at += len(f.code)
    out += ["};", "static const Constant constants[] = {"]
    out += [f"{{{kind_of(kind)}, 0x{bits:x}}}," for kind, bits in pool.index]
    out += ["};"] + [f"void {f.name}(void);" for f in fs if not f.straight]
    out += ["static const Formula formulas[] = {{0},"] + formulas + ["};"]
    rows = index_rows(fs)
    for group, size in (("op", "[OP_COUNT][DT_COUNT]"), ("lane", "[DT_COUNT][DT_COUNT]"), ("enc", "[DT_COUNT]"),
                        ("dec", "[DT_COUNT]"), ("x", "[FORMULA_COUNT]")):
        out += [f"static const uint16_t of_{group}{size} = {{"] + rows[group] + ["};"]
    open(sys.argv[3], "w").write("\n".join(out) + "\n")
    open(sys.argv[4], "w").write("".join(f"CALLED({f.name})\n" for f in fs if not f.straight))


main()
