"""Every .tsr program below tests/, and the shared corpus where it is at hand."""
import re
import zlib

from harness import markers
from harness.test import Fail, Skip, Test, rows_in

CORPUS = ("lang", "tensor", "check")
BACKENDS = ("cpu", "eval")                              # besides the one that is chosen by itself


def programs(folder):
    return sorted(f for f in folder.rglob("*.tsr") if not f.name.startswith("_"))


def pending(ctx):
    """tests/corpus-pending.txt: programs that wait for a part that is not built yet, with the reason."""
    path = ctx.root / "tests/corpus-pending.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(l.split(None, 1) for l in lines if l.strip() and not l.startswith("#"))


def some_programs(ctx, share):
    """(file, name) of one in `share` of all programs that run, the same ones each time."""
    waiting = pending(ctx)
    for folder, base in [(ctx.root / "tests", ctx.root)] + [(ctx.shared / "corpus" / c, ctx.shared) for c in CORPUS]:
        for f in programs(folder) if folder.is_dir() else []:
            name = str(f.relative_to(base))
            if name not in waiting and f.parent.name != "python" and zlib.crc32(name.encode()) % share == 0:
                yield f, name


def runs(path):
    e = markers.parse(path.read_text())
    return not e.errors and "cmd" not in e.options


def skip(why):
    def run():
        raise Skip(why)
    return run


def still_pending(ctx, path, why):
    """A program that waits must fail; once it passes, its line in corpus-pending.txt has to go."""
    def run():
        try:
            markers.check_program(ctx.tessera, path)
        except Fail:
            raise Skip(why) from None
        raise Fail("passes now: take it off tests/corpus-pending.txt")
    return run


def tests(ctx):
    for f in programs(ctx.root / "tests"):
        if f.parent.name == "python":
            continue                        # compared with CPython: suites/peers.py
        yield Test(str(f.relative_to(ctx.root)), lambda f=f: markers.check_program(ctx.tessera, f), rows_in(f.read_text()))
    for f in sorted((ctx.root / "examples").glob("*.tsr")):
        if re.search(r" #[:=] ", f.read_text()):        # it says what it prints
            yield Test(f"examples/{f.name}", lambda f=f: markers.check_program(ctx.tessera, f, patience=6), rows_in(f.read_text()))
    waiting = pending(ctx)
    for name in CORPUS:
        folder = ctx.shared / "corpus" / name
        if not folder.is_dir():
            yield Test(f"corpus/{name}", skip("../shared is not beside the repository"))
        for f in programs(folder):
            name = str(f.relative_to(ctx.shared))
            run = lambda f=f: markers.check_program(ctx.tessera, f)
            yield Test(name, still_pending(ctx, f, waiting[name]) if name in waiting else run)
            for backend in BACKENDS if name not in waiting and runs(f) else ():
                run = lambda f=f, b=backend: markers.check_program(ctx.tessera, f, flags=[f"--backend={b}"])
                yield Test(f"{name} --backend={backend}", run)
