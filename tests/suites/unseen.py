"""Small programs of every kind, written without looking at the checker: each mistake is found on its line (#!), and what is right checks clean and runs."""
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test

ROWS = ("TYP-24",)


def programs(ctx, name):
    return [p.strip("\n") + "\n" for p in (ctx.root / "tests/unseen" / name).read_text().split("=====\n")]


def said(ctx, text, verb):
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / "p.tsr").write_text(text)
        p = process.run([ctx.tessera, verb, "p.tsr"], cwd=d, timeout=20)
    if why := process.died(p):
        raise Fail(f"{why}\n{text}")
    return p


def wrong(ctx):
    missed = []
    for text in programs(ctx, "wrong.txt"):
        want = [i for i, line in enumerate(text.split("\n"), 1) if line.endswith("#!")]
        p = said(ctx, text, "check")
        got = [int(n) for n in re.findall(r"--> p\.tsr:(\d+):", p.stderr)]
        if p.returncode != 1 or not set(want) & set(got):
            missed.append(f"{text}wanted a report on line {want}, got {got}")
    if missed:
        raise Fail("\n".join(missed))


def warned(ctx):
    """What may go wrong is a warning on the marked line, and nothing else is said."""
    missed = []
    for text in programs(ctx, "warned.txt"):
        want = {i for i, line in enumerate(text.split("\n"), 1) if line.endswith("#!")}
        p = said(ctx, text, "check")
        if p.returncode or set(reports(p.stderr)) != want or "error:" in p.stderr.lower():
            missed.append(f"{text}wanted a warning on {want}: {p.stderr}")
    if missed:
        raise Fail("\n".join(missed))


def reports(stderr):
    """line -> what is said of it"""
    out = {}
    for block in re.split(r"\n(?=\w+: )", stderr):
        if m := re.search(r"--> p\.tsr:(\d+):", block):
            out[int(m[1])] = out.get(int(m[1]), "") + block.lower()
    return out


def exact(ctx, name):
    """Longer programs: the marked lines are reported, saying the texts that follow, and no others."""
    missed = []
    for text in programs(ctx, name):
        want = {i: [w.strip().lower() for w in line.split("#!")[1:]] for i, line in enumerate(text.split("\n"), 1) if "#!" in line}
        p = said(ctx, re.sub(r" *#!.*", "", text), "check")         # a report shows the line: what it says has to come from the checker
        got = reports(p.stderr)
        unsaid = [(i, w) for i in want for w in want[i] if w not in got.get(i, "")]
        if unsaid or set(want) != set(got) or p.returncode != 1:
            missed.append(f"{text}not said: {unsaid}; not marked: {sorted(set(got) - set(want))}")
    if missed:
        raise Fail("\n".join(missed))


def right(ctx):
    refused = []
    for text in programs(ctx, "right.txt"):
        for verb in ("check", "run"):
            p = said(ctx, text, verb)
            if p.returncode or p.stderr:
                refused.append(f"{text}{verb}: {p.stderr}")
    if refused:
        raise Fail("\n".join(refused))


def tests(ctx):
    yield Test("unseen/wrong", lambda: wrong(ctx), ROWS)
    yield Test("unseen/exact", lambda: exact(ctx, "exact.txt"), ROWS)
    yield Test("unseen/newcomers", lambda: exact(ctx, "newcomers.txt"), ROWS)
    yield Test("unseen/warned", lambda: warned(ctx), ROWS)
    yield Test("unseen/right", lambda: right(ctx), ROWS)
