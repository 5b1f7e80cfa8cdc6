#!/usr/bin/env python3
"""Run the tests: tests/run.py [WORD ...] [-v] [-j N] [--build DIR] [--no-sanitizers] [--write-golden]

WORDs select the tests whose names contain one of them.  Ends with one line,
`N passed, N failed, N skipped`, and exit code 1 when something failed.
The results land in BUILD/test-results.json, which `./dev rows` reads.
"""
import argparse
import concurrent.futures
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from harness.test import Context, Fail, Skip  # noqa: E402

ORDER = ("style", "cli", "cache", "bundles", "tune", "profile", "unit", "graphs", "schedules", "staged", "compiled", "passes", "programs", "kernels", "gpu", "gpu_kernels", "gpu_convolutions", "gpu_graphs", "gpu_runs", "gpu_on_host", "gpu_bundles", "targets", "faults", "clean", "models", "peers", "arrays", "dist", "syntax", "grammar", "watch", "documents", "explain", "fix", "traces", "types", "unseen", "repl", "pathological",
         "durable", "examples", "gpt2", "robust", "leaks", "sanitized")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("words", nargs="*")
    p.add_argument("-v", "--verbose", action="store_true", help="name every test")
    p.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    p.add_argument("--build", default=str(ROOT / "build"))
    p.add_argument("--no-sanitizers", action="store_true", help="leave the second build and its tests out")
    p.add_argument("--write-golden", action="store_true", help="keep what is shown now as what is expected (tests/golden)")
    return p.parse_args()


def collect(ctx, words):
    found = []
    for name in ORDER:
        path = ROOT / "tests/suites" / f"{name}.py"
        if path.exists():
            found += importlib.import_module(f"suites.{name}").tests(ctx)
    return [t for t in found if not words or any(w in t.name for w in words)]


def outcome(test):
    """(state, why, seconds) of one test. Whatever else it raises is a failure of the test itself."""
    start = time.monotonic()
    try:
        test.run()
        state, why = "pass", ""
    except Skip as e:
        state, why = "skip", str(e)
    except Fail as e:
        state, why = "fail", str(e)
    except Exception as e:
        state, why = "fail", f"the test broke: {type(e).__name__}: {e}"
    return state, why, time.monotonic() - start


def run_all(tests, jobs, verbose):
    results, lock = {}, threading.Lock()

    def one(test):
        state, why, seconds = outcome(test)
        with lock:
            results[test.name] = {"state": state, "why": why, "seconds": round(seconds, 3), "rows": list(test.rows)}
            if state == "fail" or verbose:
                print(f"{state} {test.name}" + (f": {why}" if why else ""), flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, tests))
    return results


def report_skips(results):
    """Skipped tests are named, grouped by what they lack."""
    by_reason = {}
    for name, r in results.items():
        if r["state"] == "skip":
            by_reason.setdefault(r["why"], []).append(name)
    for why, names in sorted(by_reason.items()):
        print(f"skipped {len(names)} ({why}): {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}")


def build_sanitized(folder):
    """The second build: clang, warnings as errors, address and undefined-behaviour sanitizers. None: it failed."""
    if not (folder / "build.ninja").exists():
        cmd = ["meson", "setup", folder, "-Dbuildtype=debugoptimized", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
        if subprocess.run(cmd, cwd=ROOT, env={**os.environ, "CC": "clang"}, stdout=subprocess.DEVNULL).returncode:
            return None
    p = subprocess.run(["ninja", "-C", folder, "tessera", "tests/robust/replay"], stdout=subprocess.PIPE, text=True)
    if p.returncode:
        print(p.stdout[-3000:])
        return None
    return str(folder / "tessera")


def leak_checker(build):
    """The target of the leaks suite; a compiler without LeakSanitizer has none."""
    p = subprocess.run(["ninja", "-C", build, "-t", "query", "tests/robust/tessera_leaks"], capture_output=True)
    return [] if p.returncode else ["tests/robust/tessera_leaks"]


def main():
    a = arguments()
    build = pathlib.Path(a.build).resolve()
    results = {}
    ctx = Context(ROOT, build, ROOT.parent / "shared", str(build / "tessera"), write_golden=a.write_golden)
    if subprocess.run(["ninja", "-C", build, "meson-test-prereq", "tests/robust/oom", "tests/robust/replay", "tests/robust/checks",
                       *leak_checker(build)], stdout=subprocess.DEVNULL).returncode:
        results["build/tests"] = {"state": "fail", "why": "the unit tests do not build", "seconds": 0, "rows": []}
        print("fail build/tests: the unit tests do not build")
    if not a.no_sanitizers:
        ctx.san = build_sanitized(ROOT / "build-san")
        state = "pass" if ctx.san else "fail"
        results["build/clang-sanitized"] = {"state": state, "why": "", "seconds": 0, "rows": []}
        if not ctx.san:
            print("fail build/clang-sanitized")
    with tempfile.TemporaryDirectory(prefix="tessera-kernels-") as kernels:
        os.environ["TESSERA_CACHE"] = kernels           # not the user's
        os.environ["TESSERA_VERIFY"] = "1"              # behind every pass
        os.environ["TESSERA_SCHEDULES"] = f"{kernels}/schedules"
        results.update(run_all(collect(ctx, a.words), a.jobs, a.verbose))
    report_skips(results)
    (build / "test-results.json").write_text(json.dumps(results, indent=0, sort_keys=True))
    count = {s: sum(r["state"] == s for r in results.values()) for s in ("pass", "fail", "skip")}
    print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped")
    return 1 if count["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
