#!/usr/bin/env python3
"""Random kernels x sizes x schedules, interpreted and compiled: tests/kernels_many.py TESSERA [COUNT] [FIRST]

Runs seeds FIRST ... of tests/kernels/differential.tsr by both, in parts of 50, and prints one JSON object: how many gave the same bits and which did not. That the
schedule changes nothing is in the program. The suite `kernels` runs the first 60.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).resolve().parent / "kernels/differential.tsr"


def said(tessera, backend, path):
    p = subprocess.run([tessera, "run", f"--backend={backend}", path], capture_output=True, text=True)
    return p.stdout.splitlines(), p.stderr if p.returncode else ""


def main(tessera, count=1000, first=0):
    same, differ, failed = 0, [], []
    before = os.times()
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "part.tsr"
        for at in range(first, first + count, 50):
            path.write_text(PROGRAM.read_text() + f"for seed in range({at}, {min(at + 50, first + count)}):\n    case(seed)\n")
            (want, why), (got, other) = (said(tessera, b, path) for b in ("oracle", "cpu"))
            failed += [w[-300:] for w in (why, other) if w]
            same += sum(a == b for a, b in zip(want, got))
            differ += [a.split()[0] for a, b in zip(want, got) if a != b]
    after = os.times()
    print(json.dumps({"seeds": count, "same_bits": same, "differ": differ, "failed": failed,
                      "processor_seconds": round(after.children_user + after.children_system - before.children_user - before.children_system, 1)}))
    return 1 if differ or failed or same != count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
