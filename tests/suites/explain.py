"""Pages of `tessera explain`: the first example yields exactly the page's code, the last one passes.

An example that says ```tsr lint, or lint=--registers, is given to `tessera lint`.

What a terminal shows for the first example is kept in tests/golden/CODE.txt; `python3 tests/run.py explain --write-golden` writes
these texts anew, to be read before they are committed.  An example that needs devices says ```tsr sim=4, or gpu=SPEC for
the driver of the tests as FAKE_CUDA=SPEC makes it (gpu=1: as it is).
"""
import json
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test
from suites.documents import blocks


def tessera(ctx, verb, *options, text, env=None):
    """The command over the text, as a file named alike in all of them."""
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / "example.tsr").write_text(text)
        p = process.run([ctx.tessera, verb, *options, "example.tsr"], cwd=d, env=env)
    if why := process.died(p):
        raise Fail(why)
    return p


def run(ctx, info, text):
    devices, fake = re.search(r"\bsim=(\d+)", info), re.search(r"\bgpu=(\S+)", info)
    return tessera(ctx, "run", *(("--sim-devices", devices[1]) if devices else ()), text=text,
                   env=process.fake_driver(ctx.tessera, fake[1]) if fake else None)


def lint(ctx, info, text, *options):
    """What `tessera lint` says, with the option that the example names."""
    return tessera(ctx, "lint", *re.findall(r"\blint=(\S+)", info), *options, text=text)


def linted(info):
    return any(w.split("=")[0] == "lint" for w in info.split())


def build(ctx, info, text):
    """Examples about bundles say ```tsr build: they are built, and nothing is left of it."""
    return tessera(ctx, "build", "--color=never", text=text)


def codes(ctx, info, text):
    """What `check` reports; of what it accepts, the code that the exception of the running program begins with."""
    p = tessera(ctx, "check", "--json", text=text) if not linted(info) else lint(ctx, info, text, "--json")
    found = {json.loads(l)["code"] for l in p.stdout.splitlines() if l.startswith("{")}
    if not found and "build" in info.split():
        return set(re.findall(r"\[(E\d{4})\]$", build(ctx, info, text).stderr, re.M))
    return found or set(re.findall(r"^\w+: (E\d{4}): ", run(ctx, info, text).stderr, re.M))


def rendering(ctx, info, text):
    """What a terminal shows, without the lines of the library, which move."""
    p = tessera(ctx, "check", "--color=never", text=text) if not linted(info) else lint(ctx, info, text, "--color=never")
    said = p.stdout + p.stderr or (build if "build" in info.split() else run)(ctx, info, text).stderr
    said = re.sub(r"^(  = in \w+, \w+ line) \d+$", r"\1 N", said, flags=re.M)
    return re.sub(r'^  File "<stdlib>/.*\n(    .*\n)?', "", said, flags=re.M)


def examples(path):
    return [(info, text) for _, info, text in blocks(path) if info != "fragment"]


def check(ctx, path):
    code, found = path.stem, examples(path)
    if not path.read_text().startswith(f"# {code}: "):
        raise Fail(f"the page begins with '# {code}: title'")
    if len(found) < 2:
        raise Fail("a page has a failing example and a fixed one")
    if (got := codes(ctx, *found[0])) != {code}:
        raise Fail(f"the first example yields {sorted(got)}")
    if got := codes(ctx, *found[-1]):
        raise Fail(f"the fixed example yields {sorted(got)}")
    p = process.run([ctx.tessera, "explain", code])
    if p.returncode or p.stdout != path.read_text():
        raise Fail("`tessera explain` does not print the page")


def golden(ctx, path):
    stored, got = ctx.root / f"tests/golden/{path.stem}.txt", rendering(ctx, *examples(path)[0])
    if ctx.write_golden:
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(got)
    want = stored.read_text() if stored.exists() else ""
    if got != want:
        lines = [f"  {sign} {line}" for sign, text, other in (("-", want, got), ("+", got, want))
                 for line in text.splitlines() if line not in other.splitlines()]
        raise Fail(f"{stored.name} says something else (after a look at it: --write-golden)\n" + "\n".join(lines))


def tests(ctx):
    for path in sorted((ctx.root / "docs/explain").glob("*.md")):
        yield Test(f"explain/{path.stem}", lambda path=path: check(ctx, path), ("DBG-15",))
        yield Test(f"explain/golden/{path.stem}", lambda path=path: golden(ctx, path))
