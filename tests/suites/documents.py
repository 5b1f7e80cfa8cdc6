"""Every ```tsr block of README.md and docs/ runs, with the markers of tests inside it where output is claimed; tables repeat their source.

A block may name its file (```tsr file=NAME); ```console blocks of the same page run commands on such files: `$ tessera ...`, and below it lines, or
parts of lines, that the output has in this order."""
import pathlib
import re
import tempfile

from harness import markers, process
from harness.test import Fail, Test

BLOCK = re.compile(r"^```tsr([^\n]*)\n(.*?)^```", re.M | re.S)


def blocks(path):
    """(line, info, text) of each block; info is what follows ```tsr: nothing, or `fragment` (not run)."""
    text = path.read_text()
    for m in BLOCK.finditer(text):
        yield text[:m.start()].count("\n") + 2, m.group(1).strip(), m.group(2)


CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)


def commands(path):
    """(line, words of a command, the lines below it) of a page's consoles."""
    text = path.read_text()
    for m in CONSOLE.finditer(text):
        for said in re.finditer(r"^\$ tessera ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", m.group(1), re.M):
            yield text[:m.start(1) + said.start()].count("\n") + 1, said.group(1).split(), said.group(2).splitlines()


def check_command(ctx, path, words, lines):
    files = {info[5:]: text for _, info, text in blocks(path) if info.startswith("file=")}
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            (pathlib.Path(d) / name).write_text(text)
        p = process.run([ctx.tessera, *words], cwd=d)
    if why := process.died(p):
        raise Fail(why)
    at, said = 0, p.stdout + p.stderr
    for line in lines:
        found = said.find(line.rstrip(), at)
        if found < 0:
            raise Fail(f"tessera {' '.join(words)} does not say, in this order: {line}\n{said}")
        at = found + 1


def check(ctx, text):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "example.tsr"
        path.write_text(text if markers.parse(text).out else text + "\n" + free_output(text))
        markers.check_program(ctx.tessera, path)


def on_gpu(info):
    """An example that says ```tsr gpu=SPEC finds the driver of the tests."""
    found = re.search(r"\bgpu=\S+", info)
    return f"# test: {found[0]}\n" if found else ""


def free_output(text):
    """An example that claims no output may print what it likes: an empty `#:` is contained in anything."""
    return "" if markers.parse(text).errors else "#: \n"


def stated_bounds(ctx):
    """The table of docs/numerics.md is accuracy.def."""
    source = re.findall(r"^ULP.*", (ctx.root / "src/runtime/accuracy.def").read_text(), re.M)
    rows = {name: (single, wide) for name, single, wide in re.findall(r"ULP\((\w+), ([\d.]+), ([\d.]+)\)", "\n".join(source))}
    shown = re.findall(r"\| (\w+) ([\d.]+) ([\d.]+|–) (?=\|)", (ctx.root / "docs/numerics.md").read_text())
    if {name: (single, "0" if wide == "–" else wide) for name, single, wide in shown} != rows:
        raise Fail("docs/numerics.md E5 and src/runtime/accuracy.def differ")
    source = (ctx.root / "src/runtime/accuracy_quick.def").read_text()
    quick = {name: tuple(bounds) for name, *bounds in re.findall(r"QUICK\((\w+), ([\d.]+), ([\d.]+), ([\w.-]+), \d+\)", source)}
    shown = re.findall(r"\| (\w+) +([\d.]+)(?: \+ ([\d.]+)\\\|x\\\|)?(?: \+ 2\^-22 beside)? (?=\|)", (ctx.root / "docs/numerics.md").read_text().split("## Fast numerics")[1])
    if {name: (units, slope or "0") for name, units, slope in shown} != {name: bounds[:2] for name, bounds in quick.items()}:
        raise Fail(f"docs/numerics.md, fast numerics, and src/runtime/accuracy_quick.def differ: {shown} {quick}")


def tests(ctx):
    yield Test("accuracy/stated", lambda: stated_bounds(ctx))
    for path in [ctx.root / "README.md"] + sorted((ctx.root / "docs").rglob("*.md")):
        if not path.exists() or path.parent.name == "explain":
            continue
        for line, info, text in blocks(path):
            if info != "fragment":
                yield Test(f"{path.relative_to(ctx.root)}:{line}", lambda text=text, info=info: check(ctx, on_gpu(info) + text))
        for line, words, lines in commands(path):
            yield Test(f"{path.relative_to(ctx.root)}:{line}", lambda path=path, words=words, lines=lines: check_command(ctx, path, words, lines))
