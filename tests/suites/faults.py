"""Planted faults: kernels of tests/kernels/faults that race, leave their memory, diverge at barriers or read what nobody wrote.

Each is a program for --debug.  Lines with `#~` are those that the report must name; `#~ text` is also in it.  The program's twin
without the fault has the lines `#+ code` more and those with `#-` less; `#+= text` is what it prints.  It must run without
a report, and its kernels must be checked without one.
"""
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test


def twin(text):
    """The program without its fault, and what it prints."""
    lines, out = [], []
    for line in text.splitlines():
        if m := re.match(r"#\+= (.*)$", line):
            out.append(m[1])
        elif m := re.match(r"(\s*)#\+ ( *)(.*)$", line):
            lines.append(m[1] + m[2] + m[3])
        elif not re.search(r"#-(  #~ .*)?$", line):
            lines.append(re.sub(r"\s*#~.*", "", line))
    return "\n".join(lines) + "\n", out


def run(ctx, text):
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / "kernel.tsr").write_text(text)
        p = process.run([ctx.tessera, "run", "--debug", "--color=never", "kernel.tsr"], cwd=d)
    if why := process.died(p):
        raise Fail(why)
    return p


def marked(text):
    """{line: what is said there}"""
    return {no: m[1] for no, line in enumerate(text.splitlines(), 1) if (m := re.search(r"#~ (.*)$", line))}


def reported(ctx, text):
    p = run(ctx, text)
    said = re.sub(r"#~ .*", "", p.stderr)
    if p.returncode != 1 or not re.search(r"\bE0(6\d\d|306)\b", said):
        raise Fail(f"no report; exit code {p.returncode}: {said[-400:]}")
    report = next((l for l in reversed(said.splitlines()) if re.match(r"\w+: E0624: ", l)), said)
    named = {int(n) for n in re.findall(r"kernel\.tsr:(\d+)\b", report)} | {int(n) for n in re.findall(r"at line (\d+)", report)}
    for line, what in marked(text).items():
        if line not in named:
            raise Fail(f"line {line} is not named, but {sorted(named)}: {report}")
        if what not in report:
            raise Fail(f"the report does not say {what!r}: {report}")


def unreported(ctx, text):
    program, out = twin(text)
    p = run(ctx, program)
    if p.returncode or p.stdout.splitlines() != out:
        raise Fail(f"the twin prints {p.stdout.splitlines()}, not {out}; exit code {p.returncode}: {p.stderr[-600:]}")


def tests(ctx):
    for f in sorted((ctx.root / "tests/kernels/faults").glob("*.tsr")):
        text = f.read_text()
        yield Test(f"faults/planted/{f.stem}", lambda text=text: reported(ctx, text))
        yield Test(f"faults/twin/{f.stem}", lambda text=text: unreported(ctx, text))
