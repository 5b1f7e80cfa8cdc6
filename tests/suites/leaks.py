"""Memory that nobody holds at the end: half of all programs, and the other verbs, in a binary that looks for it."""

from harness import markers, process
from harness.test import Fail, Skip, Test
from suites.programs import some_programs
from suites.robust import SESSION

SHARE = 2


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
    for f, name in some_programs(ctx, SHARE):
        yield Test(f"leaks/{name}", lambda f=f: markers.check_program(binary, f, env=process.LEAKS, memory=None, patience=3))
