"""The published models under mutation: single tokens changed so that a shape, a dtype, an axis or an argument is wrong.

tests/models/mutations.txt has them (mutate.py makes it).  One is reported when `check` says an error on the mutated line,
or names that line in a label.  Of all, 95 % must be reported.
"""
import json
import subprocess
import tempfile
import pathlib

from harness.test import Fail, Test

LEAST = 0.95


def read(folder):
    for row in (folder / "mutations.txt").read_text().splitlines():
        name, line, column, kind, old, new = row.split("\t")
        yield name, int(line), int(column), kind, old, new


def mutate(text, line, column, old, new):
    lines = text.split("\n")
    row = lines[line - 1]
    if row[column:column + len(old)] != old:
        raise Fail(f"line {line} has changed: run tests/models/mutate.py again")
    lines[line - 1] = row[:column] + new + row[column + len(old):]
    return "\n".join(lines)


def reported(tessera, path, line):
    """Is there an error on that line, or one that names it?"""
    r = subprocess.run([tessera, "check", "--json", str(path)], capture_output=True, text=True, timeout=60)
    found = [json.loads(x) for x in r.stdout.splitlines() if x.startswith("{")]
    lines = {d["line"] for d in found} | {l["line"] for d in found for l in d.get("labels", [])}
    return line in lines, bool(found)


def rates(tessera, folder):
    """kind -> (mutations, reported, missed); a missed one is (file:line, old, new, elsewhere)."""
    out = {}
    with tempfile.TemporaryDirectory() as tmp:
        for name, line, column, kind, old, new in read(folder):
            path = pathlib.Path(tmp) / name
            path.write_text(mutate((folder / name).read_text(), line, column, old, new))
            here, any_ = reported(tessera, path, line)
            n, ok, missed = out.get(kind, (0, 0, []))
            out[kind] = (n + 1, ok + here, missed if here else missed + [(f"{name}:{line}:{column}", old, new, any_)])
    return out


def check_rate(tessera, folder):
    found = rates(tessera, folder)
    total, ok = sum(v[0] for v in found.values()), sum(v[1] for v in found.values())
    table = "\n".join(f"{k}: {v[1]} of {v[0]}; missed {v[2]}" for k, v in sorted(found.items()))
    if total < 200 or ok < LEAST * total:
        raise Fail(f"{ok} of {total} mutations are reported\n{table}")
    return table


def tests(ctx):
    yield Test("models: mutations are reported", lambda: check_rate(ctx.tessera, ctx.root / "tests/models") and None)


if __name__ == "__main__":
    import sys
    print(check_rate(sys.argv[1], pathlib.Path(__file__).resolve().parent.parent / "models"))
