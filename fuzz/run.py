#!/usr/bin/env python3
"""Build and run the fuzzers: ./dev fuzz [NAME] [SECONDS]

Without a NAME every target runs; SECONDS (default 60) is the time for each.  Inputs start from fuzz/corpus/NAME and the
repository's programs; what is found on the way is kept in build-fuzz/corpus/NAME, crashes in build-fuzz/crashes.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-fuzz"
TEXT_TARGETS = ("lex", "parse", "check", "eval")        # start from programs


def targets():
    return re.findall(r"^  '(\w+)',", (ROOT / "fuzz/meson.build").read_text(), re.M)


def seeds(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    sources = [ROOT / "fuzz/corpus" / name]
    if name in TEXT_TARGETS:
        sources += [ROOT / d for d in ("tests", "stdlib", "examples")] + [ROOT.parent / "shared/corpus"]
    if name == "graph":
        sources += [ROOT / "tests/ir"]
    for source in sources:
        pattern = "*.tsr" if name in TEXT_TARGETS and source.name != name else "*"
        for i, f in enumerate(sorted(source.rglob(pattern)) if source.is_dir() else []):
            if f.is_file() and f.stat().st_size < 8192:
                shutil.copy(f, folder / f"seed-{source.name}-{i}-{f.name}")


def run(name, seconds):
    corpus, crashes = BUILD / "corpus" / name, BUILD / "crashes"
    crashes.mkdir(parents=True, exist_ok=True)
    seeds(name, corpus)
    argv = [BUILD / f"fuzz/fuzz_{name}", corpus, f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/{name}-",
            "-timeout=10", "-rss_limit_mb=4096", "-malloc_limit_mb=1000000000", "-max_len=8192", "-print_final_stats=1", "-close_fd_mask=1"]
    leaks = "detect_leaks=0" if name == "eval" else "detect_leaks=1"        # parsed signatures live for the session
    argv += ["-" + leaks]
    dictionary = ROOT / "fuzz" / f"{'tessera' if name in TEXT_TARGETS else name}.dict"
    argv += [f"-dict={dictionary}"] if dictionary.exists() else []
    # A program may ask for any size; what cannot be had is its MemoryError, not a finding.
    env = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=1024:detect_stack_use_after_return=0:" + leaks}
    p = subprocess.run([str(a) for a in argv], stderr=subprocess.PIPE, text=True, errors="replace", env=env)
    execs = re.search(r"number_of_executed_units: (\d+)", p.stderr)
    state = "clean" if p.returncode == 0 else "CRASH"
    print(f"fuzz {name}: {state}, {execs.group(1) if execs else '?'} executions in {seconds} s", flush=True)
    if p.returncode:
        print(p.stderr[-4000:])
    return p.returncode == 0


def main(argv):
    names = [a for a in argv if not a.isdigit()] or targets()
    seconds = int(next((a for a in argv if a.isdigit()), "60"))
    unknown = [n for n in names if n not in targets()]
    if unknown:
        sys.exit(f"no such target: {unknown[0]}; there are {', '.join(targets())}")
    if subprocess.run(["ninja", "-C", BUILD, *[f"fuzz/fuzz_{n}" for n in names]], stdout=subprocess.DEVNULL).returncode:
        return 1
    return 0 if all([run(n, seconds) for n in names]) else 1


sys.exit(main(sys.argv[1:]))
