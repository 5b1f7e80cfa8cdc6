"""Programs again under the address and undefined-behaviour sanitizers: about every fourth one, the same ones each time."""
import pathlib
import zlib

from harness import markers, process
from harness.test import Test
from suites import robust
from suites.programs import CORPUS, pending, programs

SHARE = 4


def chosen(ctx):
    waiting = pending(ctx)
    for folder, base in [(ctx.root / "tests", ctx.root)] + [(ctx.shared / "corpus" / c, ctx.shared) for c in CORPUS]:
        for f in programs(folder) if folder.is_dir() else []:
            name = str(f.relative_to(base))
            if name not in waiting and f.parent.name != "python" and zlib.crc32(name.encode()) % SHARE == 0:
                yield f, name


def tests(ctx):
    if not ctx.san:
        return
    yield Test("sanitized/replay", lambda: robust.replay(ctx, pathlib.Path(ctx.san).parent, process.SANITIZERS))
    for f, name in chosen(ctx):
        yield Test(f"sanitized/{name}",
                   lambda f=f: markers.check_program(ctx.san, f, env=process.SANITIZERS, memory=None, patience=5))
