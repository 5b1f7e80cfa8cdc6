"""`check --fix`: what it mends, that it mends it once, and what it leaves as it was.

Each row is a program before and after.  Afterwards nothing is left to mend: a second run changes no byte.
"""
import json
import os
import pathlib
import stat
import tempfile

from harness import process
from harness.test import Fail, Test

# name, codes that are mended, before, after
TABLE = [
    ("print", ["E0134"], 'x = 3\nprint "x is", x\n', 'x = 3\nprint("x is", x)\n'),
    ("increment", ["E0146"], "i = 0\ni++\n", "i = 0\ni += 1\n"),
    ("decrement", ["E0146"], "i = 0\ni--\n", "i = 0\ni -= 1\n"),
    ("and-or", ["E0146", "E0146"], "a = True\nb = a && True\nc = a || b\n", "a = True\nb = a and True\nc = a or b\n"),
    ("condition", ["E0135"], "x = 1\nif x = 2:\n    pass\n", "x = 1\nif x == 2:\n    pass\n"),
    ("else-if", ["E0102"], "x = 1\nif x == 2:\n    pass\nelse if x == 3:\n    pass\n", "x = 1\nif x == 2:\n    pass\nelif x == 3:\n    pass\n"),
    ("colon", ["E0103"], "def f(x)\n    return x\n", "def f(x):\n    return x\n"),
    ("comma", ["E0101"], "xs = [1 2]\n", "xs = [1, 2]\n"),
    ("quotes", ["E0112", "E0112"], "print(“hi”, ‘x’)\n", "print(\"hi\", 'x')\n"),
    ("minus-sign", ["E0112"], "x = 3 − 1\n", "x = 3 - 1\n"),
    ("name", ["E0201"], "counter = 1\nprint(conuter)\n", "counter = 1\nprint(counter)\n"),
    ("foreign-name", ["E0201", "E0201"], "a = true\nb = null\n", "a = True\nb = None\n"),
    ("member", ["E0202"], "import math\nx = math.sqr(2)\nprint(math.florr(x))\n", None),
    ("import-member", ["E0203"], "from math import florr as f\nprint(f(1.5))\n", None),
    ("module", ["E0801"], "import maths\nprint(maths.pi)\n", None),
    ("keyword", ["E0904"], "print(ones(2, 3).mean(dims=1))\n", "print(ones(2, 3).mean(dim=1))\n"),
    ("attribute", ["E0910"], "print(ones(2, 3).shap)\n", "print(ones(2, 3).shape)\n"),
    ("attribute-in-the-middle", ["E0910"], "print(ones(2, 3).shap[0] + 1)\n", "print(ones(2, 3).shape[0] + 1)\n"),
    ("foreign-method", ["E0910"], "xs = [1]\nxs.push(2)\n", "xs = [1]\nxs.append(2)\n"),
    ("own-attribute", ["E0910"], "class A:\n    def __init__(self):\n        self.width = 1\n    def f(self):\n        return self.widht\n",
     "class A:\n    def __init__(self):\n        self.width = 1\n    def f(self):\n        return self.width\n"),
    ("effect", ["E0503"], '@effects(["randm"])\ndef f():\n    return random.uniform((2,))\n', '@effects(["random"])\ndef f():\n    return random.uniform((2,))\n'),
    ("after-syntax-the-names", ["E0134", "E0904"], 'print "a"\nones(2).sum(axes=0)\n', None),
    ("several-on-a-line", ["E0904", "E0910"], "print(ones(2).shap, ones(2).sum(dims=0))\n", "print(ones(2).shape, ones(2).sum(dim=0))\n"),
    ("no-last-newline", ["E0146"], "i = 0\ni++", "i = 0\ni += 1"),
    ("crlf", ["E0146"], "i = 0\r\ni++\r\n", "i = 0\r\ni += 1\r\n"),
    ("beside-wide-characters", ["E0910"], "s = 'größe→漢字'; print(s, ones(2).shap)\n", "s = 'größe→漢字'; print(s, ones(2).shape)\n"),
]
UNTOUCHED = ["print(undefined_thing)\n", "x = ones(2, 3) + ones(4)\n", "total = 1\nprint(tru)\n", "flag = 1\nprint(fals)\n", "def f(:\n", "print('fine')\n", ""]


def fixed(ctx, path, *options):
    p = process.run([ctx.tessera, "check", "--fix", *options, path])
    if why := process.died(p):
        raise Fail(why)
    return p


def in_folder(test):
    def run():
        with tempfile.TemporaryDirectory() as d:
            test(pathlib.Path(d))
    return run


def mends(ctx, folder, codes, before, after):
    path = folder / "p.tsr"
    path.write_bytes(before.encode())
    p = fixed(ctx, path, "--json")
    lines = [json.loads(l) for l in p.stdout.splitlines()]
    got, left = [l["code"] for l in lines if l.get("applied")], [l["code"] for l in lines if not l.get("applied")]
    if sorted(got) != sorted(codes) and after is not None:
        raise Fail(f"mended {got}, not {codes}")
    if after is not None and (path.read_bytes() != after.encode() or left or p.returncode):
        raise Fail(f"became\n{path.read_text()}and has {left} left")
    if any("text" not in l["fix"] or "line" not in l["fix"] for l in lines if l.get("applied")):
        raise Fail("an applied report lacks its edit")
    once = path.read_bytes()
    again = fixed(ctx, path)
    if path.read_bytes() != once or "mended" in again.stderr:
        raise Fail("a second run changes something")


def leaves(ctx, folder):
    for text in UNTOUCHED:
        path = folder / "p.tsr"
        path.write_text(text)
        os.utime(path, (1, 1))
        fixed(ctx, path)
        if path.read_text() != text or path.stat().st_mtime != 1:
            raise Fail(f"touched {text!r}")


def keeps_permissions(ctx, folder):
    for mode in (0o600, 0o644, 0o750, 0o664):
        path, link = folder / "p.tsr", folder / "link.tsr"
        path.write_text("i = 0\ni++\n")
        path.chmod(mode)
        if not link.exists():
            link.symlink_to(path)
        fixed(ctx, link)
        if stat.S_IMODE(path.stat().st_mode) != mode or not link.is_symlink() or path.read_text() != "i = 0\ni += 1\n":
            raise Fail(f"mode {mode:o} became {stat.S_IMODE(path.stat().st_mode):o}")
    if [f.name for f in folder.iterdir() if f.suffix != ".tsr"]:
        raise Fail("a temporary file stays")


def cannot_write(ctx, folder):
    inner = folder / "closed"
    inner.mkdir()
    path = inner / "p.tsr"
    path.write_text("i = 0\ni++\n")
    inner.chmod(0o555)
    p = fixed(ctx, path)
    inner.chmod(0o755)
    if os.geteuid() and (p.returncode != 1 or "nothing was changed" not in p.stderr or path.read_text() != "i = 0\ni++\n"):
        raise Fail(f"says {p.stderr!r}")
    p = process.run([ctx.tessera, "check", "--fix", "-"], stdin="i++\n")
    if p.returncode != 1 or "name one" not in p.stderr:
        raise Fail("standard input is no file to mend")


def several_files(ctx, folder):
    a, b = folder / "a.tsr", folder / "b.tsr"
    a.write_text("i = 0\ni++\n")
    b.write_text("print(ones(2).shap)\nprint(nowhere)\n")
    p = process.run([ctx.tessera, "check", "--fix", a, b])
    if a.read_text() != "i = 0\ni += 1\n" or b.read_text() != "print(ones(2).shape)\nprint(nowhere)\n" or p.returncode != 1 or "nowhere" not in p.stderr:
        raise Fail(p.stderr)


def tests(ctx):
    for name, codes, before, after in TABLE:
        yield Test(f"fix/{name}", in_folder(lambda d, r=(codes, before, after): mends(ctx, d, *r)))
    for f in (leaves, keeps_permissions, cannot_write, several_files):
        yield Test(f"fix/{f.__name__.replace('_', '-')}", in_folder(lambda d, f=f: f(ctx, d)))
