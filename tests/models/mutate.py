#!/usr/bin/env python3
"""Single-token mutations of the models that change a shape, a dtype, an axis or an argument.

tests/models/mutate.py [--build DIR]: writes mutations.txt, one mutation a line:

    file <tab> line <tab> column <tab> kind <tab> old <tab> new

The seed is fixed.  A candidate counts only if the mutated program is really wrong: it is run with every annotation turned
into an assertion, past the checker (the interactive session checks nothing), and must raise something other than a
failed `assert` of the model itself.  The test (suites/models.py) then asks whether `check` sees it.
"""
import argparse
import ast
import io
import pathlib
import random
import re
import subprocess
import tokenize

HERE = pathlib.Path(__file__).resolve().parent
SEED, PER_MODEL = 20261121, 20
DTYPES = ("int32", "bool", "f32")

EXPECT = '''
_top = {}

def _expect(x, want, dims):
    want = list(want)
    if want and want[-1] in ("int32", "bool", "f32"):
        if str(x.dtype) != want.pop():
            raise TypeError("contract: dtype")
    if len(want) != x.ndim:
        raise TypeError("contract: axes")
    for d, n in zip(want, x.shape):
        if isinstance(d, str):
            if d in dims and dims[d] != n:
                raise TypeError("contract: size")
            dims[d] = n if d.isidentifier() else dims.get(d, n)
        elif d != n:
            raise TypeError("contract: size")
    return x

'''


# ---------------------------------------------------------------- what counts as wrong

def shape_list(annotation):
    """The list expression of Tensor[...]; None when it says nothing."""
    if not (isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name) and annotation.value.id == "Tensor"):
        return None
    items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return ast.List([ast.Constant(i.id) if isinstance(i, ast.Name) and i.id in DTYPES else i for i in items], ast.Load())


def expect(value, shape, dims):
    return ast.Call(ast.Name("_expect", ast.Load()), [value, shape, ast.Name(dims, ast.Load())], [])


class Contracts(ast.NodeTransformer):
    """Annotations as assertions."""

    def __init__(self):
        self.declared = []

    def visit_FunctionDef(self, f):
        self.declared.append(shape_list(f.returns))
        self.generic_visit(f)
        self.declared.pop()
        start = [ast.parse("_dims = {}").body[0]]
        for a in f.args.args:
            shape = shape_list(a.annotation)
            if shape:
                start.append(ast.Expr(expect(ast.Name(a.arg, ast.Load()), shape, "_dims")))
        doc = 1 if isinstance(f.body[0], ast.Expr) and isinstance(f.body[0].value, ast.Constant) else 0
        f.body[doc:doc] = start
        return f

    def visit_Return(self, r):
        shape = self.declared[-1] if self.declared else None
        if shape and r.value:
            r.value = expect(r.value, shape, "_dims")
        return r

    def visit_AnnAssign(self, a):
        shape = shape_list(a.annotation)
        if shape and a.value:
            a.value = expect(a.value, shape, "_dims" if self.declared else "_top")
        return a


def unknown_sizes(tree):
    """ "?" is a size of its own each time. """
    count = 0
    for n in ast.walk(tree):
        if isinstance(n, ast.Constant) and n.value == "?":
            n.value = f"any{count}"
            count += 1
    return tree


def is_python(text):
    try:
        return bool(ast.parse(text))
    except SyntaxError:                             # a where clause
        return False


def is_wrong(tessera, text):
    try:
        tree = unknown_sizes(ast.parse(text))
        program = EXPECT + ast.unparse(ast.fix_missing_locations(Contracts().visit(tree))).replace("\n\n", "\n")
    except SyntaxError:
        return False
    parts = [ast.unparse(n) for n in ast.parse(program).body]
    session = "\n".join(re.sub(r"\n\s*\n", "\n", p) + ("\n" if "\n" in p else "") for p in parts) + "\n"
    try:
        r = subprocess.run([tessera, "repl"], input=session, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return False
    found = re.findall(r"^(\w+(?:Error|Exception))\b", r.stdout + r.stderr, re.M)
    return bool(found) and found[0] != "AssertionError"


# ---------------------------------------------------------------- candidates

def tokens(text):
    return [t for t in tokenize.generate_tokens(io.StringIO(text).readline)
            if t.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)]


def places(text):
    """(line, column) -> "annotation" or "axis" for the tokens of the tree that are in one."""
    where = {}
    for n in ast.walk(ast.parse(text)):
        for field in ("annotation", "returns"):
            for k in ast.walk(getattr(n, field, None) or ast.Pass()):
                if hasattr(k, "lineno"):
                    where[k.lineno, k.col_offset] = "annotation"
        if isinstance(n, ast.keyword) and n.arg in ("dim", "axis"):
            for k in ast.walk(n.value):
                if isinstance(k, ast.Constant):
                    where[k.lineno, k.col_offset] = "axis"
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("transpose", "permute"):
            for a in n.args:
                where[a.lineno, a.col_offset] = "axis"
        if isinstance(n, ast.Call):
            for a in n.args:
                if isinstance(a, ast.Name):
                    where.setdefault((a.lineno, a.col_offset), "argument")
    return where


def constants(text):
    """The numbers that the module names: D = 32."""
    return {t.id for n in ast.parse(text).body if isinstance(n, ast.Assign) for t in n.targets
            if isinstance(t, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9_]*", t.id)}


def names_by_line(text):
    """line -> the parameters and variables of the function around it, `self` aside."""
    out = {}
    for f in ast.walk(ast.parse(text)):
        if isinstance(f, ast.FunctionDef):
            names = {a.arg for a in f.args.args} | {n.id for n in ast.walk(f) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            for line in range(f.lineno, f.end_lineno + 1):
                out[line] = names - {"self", "_"}
    return out


def candidates(text):
    toks, where = tokens(text), places(text)
    sizes = sorted(constants(text))
    dims = sorted({t.string for t in toks if t.type == tokenize.STRING and re.fullmatch(r'"[A-Z]"', t.string)})
    local = names_by_line(text)
    main = next((t.start[0] for t in toks if t.string == "with" and t.start[1] == 0), 10 ** 9)
    out = []
    for i, t in enumerate(toks):
        place, before = where.get(t.start), toks[i - 1].string if i else ""
        add = lambda kind, new: out.append((t.start[0], t.start[1], kind, t.string, new))
        if t.start[0] >= main or (t.start[1] == 0 and place != "annotation"):
            continue
        if place == "annotation" and t.type == tokenize.NUMBER:
            add("annotation", str(int(t.string) + 1))
        elif place == "annotation" and t.string in sizes:
            for s in sizes:
                add("annotation", s) if s != t.string else None
        elif place == "annotation" and t.string in dims:
            for d in dims:
                add("dimension", d) if d != t.string else None
        elif place == "annotation" and t.string in DTYPES:
            add("dtype", "f32" if t.string != "f32" else "int32")
        elif place == "axis" and t.type == tokenize.NUMBER:
            for k in range(4):
                add("axis", str(k)) if str(k) != t.string else None
        elif place == "argument" and t.string in local.get(t.start[0], ()):
            for s in sorted(local[t.start[0]]):
                add("argument", s) if s != t.string else None
        elif place is None and t.string in sizes:
            for s in sizes:
                add("size", s) if s != t.string else None
        elif place is None and t.type == tokenize.NUMBER and t.string.isdigit() and before in "(,*[":
            add("size", str(int(t.string) + 1))
        elif t.type == tokenize.NAME and before != "def" and i + 1 < len(toks) and toks[i + 1].string == "=" and before in "(,":
            add("argument", t.string + "s")
        elif t.string == "mT":
            add("axis", "T")
        elif t.string == "@":
            add("operator", "*")
        elif t.type == tokenize.NAME and before == "." and i > 1 and toks[i - 2].string == "self":
            add("argument", t.string + "x")
    return out


def mutated(text, m):
    line, column, _, old, new = m
    lines = text.split("\n")
    row = lines[line - 1]
    assert row[column:column + len(old)] == old, (m, row)
    lines[line - 1] = row[:column] + new + row[column + len(old):]
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default=str(HERE.parent.parent / "build"))
    tessera = p.parse_args().build + "/tessera"
    rows = []
    for f in sorted(HERE.glob("*.tsr")):
        text, taken, used = f.read_text(), 0, set()
        if not is_python(text):
            print(f.name, "is not Python's grammar")
            continue
        if is_wrong(tessera, text):
            print(f"{f.name}: the model itself breaks its annotations")
            continue
        # each kind gets its turn, so that the many size tokens do not crowd out the rest
        rng = random.Random(f"{SEED} {f.name}")
        kinds = {}
        for c in candidates(text):
            kinds.setdefault(c[2], []).append(c)
        for k in kinds.values():
            rng.shuffle(k)
        while taken < PER_MODEL and any(kinds.values()):
            for kind in sorted(kinds):
                while kinds[kind] and taken < PER_MODEL:
                    c = kinds[kind].pop()
                    if c[:2] in used or not is_wrong(tessera, mutated(text, c)):
                        continue
                    used.add(c[:2])
                    rows.append("\t".join([f.name, *map(str, c)]))
                    taken += 1
                    break
        print(f.name, taken, flush=True)
    (HERE / "mutations.txt").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
