"""Programs again under the address and undefined-behaviour sanitizers: about every fourth one, the same ones each time."""
import pathlib

from harness import markers, process
from harness.test import Test
from suites import robust
from suites.programs import some_programs

SHARE = 4


def tests(ctx):
    if not ctx.san:
        return
    yield Test("sanitized/replay", lambda: robust.replay(ctx, pathlib.Path(ctx.san).parent, process.SANITIZERS))
    for f, name in some_programs(ctx, SHARE):
        yield Test(f"sanitized/{name}",
                   lambda f=f: markers.check_program(ctx.san, f, env=process.SANITIZERS, memory=None, patience=5))
