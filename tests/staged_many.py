#!/usr/bin/env python3
"""More of suites/staged.py's programs than a test run has time for: staged_many.py TESSERA SECONDS [FIRST]

Each program has 100 random functions of its own seed, FIRST and counting (100,000 unless given; the suite's are below), and
one of the suite's configurations, in turn.  One program runs on each core, with one thread.  Prints what differs, and at
the end how many functions were compared.
"""
import os
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from harness.test import Fail
from suites import staged


def main(tessera, seconds, first=100_000):
    ctx, end, bad = SimpleNamespace(tessera=pathlib.Path(tessera).resolve()), time.time() + float(seconds), []
    os.environ["TESSERA_THREADS"] = "1"

    def one(n):
        if time.time() > end:
            return 0
        name, flags, _ = staged.RUNS[n % len(staged.RUNS)]
        try:
            staged.compare(ctx, flags, int(first) + n, timeout=300)
        except Fail as e:
            bad.append(f"{name}-{int(first) + n}: {e}")
            print(bad[-1], flush=True)
        return staged.FUNCTIONS

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        functions = sum(pool.map(one, range(100_000)))
    print(f"{functions} functions, {len(bad)} programs of {functions // staged.FUNCTIONS} differ")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
