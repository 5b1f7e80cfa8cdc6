#!/usr/bin/env python3
"""List the inventory's rows with the tests that show them, from the last test run: ./dev rows [PREFIX ...]

A test names its rows in its first lines (`# row: SYN-12`).  A row is shown when at least one of its tests passed and
none failed; a row whose acceptance asks for GPUs and was shown without one is marked `sim`, and `gpu` where one of its passing
programs, as it is now, also passed on a GPU (bench/gpu/programs.py; results/programs.jsonl).  What GPUs' code is made of needs none.
Tests live in this repository, row ids in ../shared/inventory.md; without that file the ids named by tests are listed.
"""
import hashlib
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INVENTORY = ROOT.parent / "shared/inventory.md"
RECORD = ROOT / "bench/gpu/results/programs.jsonl"
ASKS_GPU = r"\bGPU(?! target|: IR target)"


def inventory():
    """id -> does its acceptance ask for a GPU; in the file's order."""
    rows = {}
    if INVENTORY.exists():
        for line in INVENTORY.read_text().splitlines():
            if m := re.match(r"\| ([A-Z]+-\d+) \|(.*)", line):
                if not m.group(1).startswith("C-"):
                    rows[m.group(1)] = bool(re.search(ASKS_GPU, m.group(2).rsplit("|", 2)[-2] if "|" in m.group(2) else ""))
    return rows


def results():
    path = ROOT / "build/test-results.json"
    if not path.exists():
        sys.exit("no test run yet: ./dev test")
    by_row = {}
    for name, r in json.loads(path.read_text()).items():
        for row in r["rows"]:
            by_row.setdefault(row, []).append((name, r["state"]))
    return by_row


def ran_on_gpus():
    """Programs and tests that passed on a GPU and have not changed since."""
    ran = set()
    for line in RECORD.read_text().splitlines() if RECORD.exists() else []:
        r = json.loads(line)
        path = ROOT / r.get("program", "")
        if "sha256" in r and path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest().startswith(r["sha256"]):
            ran.add(r.get("test", r["program"]))
    return ran


def main(prefixes):
    by_row = results()
    on_gpus = ran_on_gpus()
    rows = inventory() or {row: False for row in sorted(by_row)}
    shown = 0
    for row, gpu in rows.items():
        if prefixes and not any(row.startswith(p) for p in prefixes):
            continue
        found = by_row.get(row, [])
        passing = [n for n, s in found if s == "pass"]
        failing = [n for n, s in found if s == "fail"]
        good = bool(passing) and not failing
        shown += good
        state = ("gpu" if on_gpus & set(passing) else "sim" if gpu else "yes") if good else "FAIL" if failing else "-"
        print(f"{row:8} {state:4} {', '.join(passing[:3] + [f + ' (failed)' for f in failing[:2]])}"
              + (f" and {len(passing) - 3} more" if len(passing) > 3 else ""))
    unknown = sorted(set(by_row) - set(rows))
    if unknown:
        print(f"not in the inventory: {', '.join(unknown)}")
    print(f"{shown} of {len(rows)} rows are shown by passing tests")


main(sys.argv[1:])
