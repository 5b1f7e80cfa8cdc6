"""Pages of `tessera explain`: the first example yields exactly the page's code, the last one passes."""
import json
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test
from suites.documents import blocks


def codes(ctx, text):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "example.tsr"
        path.write_text(text)
        p = process.run([ctx.tessera, "check", "--json", path])
    if why := process.died(p):
        raise Fail(why)
    found = {json.loads(l)["code"] for l in p.stdout.splitlines() if l.startswith("{")}
    return found or raised(ctx, text)


def raised(ctx, text):
    """Codes that only running the program gives: an exception whose text begins with one."""
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "example.tsr"
        path.write_text(text)
        p = process.run([ctx.tessera, "run", path])
    return set(re.findall(r"^\w+: (E\d{4}): ", p.stderr, re.M))


def check(ctx, path):
    code = path.stem
    examples = [text for _, info, text in blocks(path) if info != "fragment"]
    if not path.read_text().startswith(f"# {code}: "):
        raise Fail(f"the page begins with '# {code}: title'")
    if len(examples) < 2:
        raise Fail("a page has a failing example and a fixed one")
    if (got := codes(ctx, examples[0])) != {code}:
        raise Fail(f"the first example yields {sorted(got)}")
    if got := codes(ctx, examples[-1]):
        raise Fail(f"the fixed example yields {sorted(got)}")
    p = process.run([ctx.tessera, "explain", code])
    if p.returncode or p.stdout != path.read_text():
        raise Fail("`tessera explain` does not print the page")


def tests(ctx):
    for path in sorted((ctx.root / "docs/explain").glob("*.md")):
        yield Test(f"explain/{path.stem}", lambda path=path: check(ctx, path), ("DBG-15",))
