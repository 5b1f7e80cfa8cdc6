"""Memory that nobody holds at the end: half of all programs, and the other verbs, in a binary that looks for it."""
import zlib

from harness import markers, process
from harness.test import Fail, Skip, Test
from suites.programs import CORPUS, pending, programs
from suites.robust import SESSION

SHARE = 2


def chosen(ctx):
    waiting = pending(ctx)
    for folder, base in [(ctx.root / "tests", ctx.root)] + [(ctx.shared / "corpus" / c, ctx.shared) for c in CORPUS]:
        for f in programs(folder) if folder.is_dir() else []:
            name = str(f.relative_to(base))
            if name not in waiting and f.parent.name != "python" and zlib.crc32(name.encode()) % SHARE == 0:
                yield f, name


def verb(binary, *argv, stdin=None):
    p = process.run([binary, *argv], env={**process.LEAKS, "TESSERA_HISTORY": ""}, memory=None, timeout=60, stdin=stdin)
    if why := process.died(p):
        raise Fail(why)


def check_all(ctx, binary):
    files = sorted((ctx.root / "tests/models").glob("*.tsr"))
    verb(binary, "check", "--shapes", "--effects", "--json", *files)


def tests(ctx):
    binary = ctx.build / "tests/robust/tessera_leaks"
    if not binary.exists() or not process.leaks_are_found([binary, "version"]):
        def skip():
            raise Skip("LeakSanitizer cannot work here")
        yield Test("leaks/programs", skip)
        return
    for argv in (["help"], ["explain"], ["explain", "E0301"], ["inspect"], ["run", "nothing.tsr"], ["nonsense"]):
        yield Test(f"leaks/{'-'.join(argv)}", lambda argv=argv: verb(binary, *argv))
    yield Test("leaks/session", lambda: verb(binary, "repl", stdin=SESSION))
    yield Test("leaks/check", lambda: check_all(ctx, binary))
    for f, name in chosen(ctx):
        yield Test(f"leaks/{name}", lambda f=f: markers.check_program(binary, f, env=process.LEAKS, memory=None, patience=3))
