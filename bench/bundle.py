#!/usr/bin/env python3
"""What calls of a bundle cost from C: builds one and prints bench/bundle_call.c's line of JSON.

    ninja -C build tessera bench/bench_bundle_call && python3 bench/bundle.py [ROUNDS]
"""
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"
PROGRAM = """
@export
def small(x: Tensor["N", f32], y: Tensor["N", f32]):
    return x * 2.0 + y
"""


def main():
    rounds = sys.argv[1] if len(sys.argv) > 1 else "51"
    with tempfile.TemporaryDirectory() as d:
        folder = pathlib.Path(d)
        (folder / "small.tsr").write_text(PROGRAM)
        subprocess.run([BUILD / "tessera", "build", "small.tsr"], cwd=d, check=True)
        sys.exit(subprocess.run([BUILD / "bench/bench_bundle_call", folder / "small.tsb", folder / "small.tsb/libsmall.so", rounds]).returncode)


main()
