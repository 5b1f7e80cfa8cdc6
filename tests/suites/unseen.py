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
    yield Test("unseen/right", lambda: right(ctx), ROWS)
