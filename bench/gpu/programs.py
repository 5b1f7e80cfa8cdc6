"""Programs with expectations on a GPU: python3 bench/gpu/programs.py TESSERA [FOLDER ...]

Every .tsr program of the folders (tests/ unless told) that runs, with tensors made on the GPU, against its own comments: what the CPU prints is what the
GPU must print.  Prints a JSON line for each that passes and launched kernels there, with the rows that it names and the hash of its text
(dev rows counts a row as shown on a GPU by that), one for each that fails, and one in all.  When no folder is told, the tests of tests/suites/gpu_runs.py
as well: what profiles say there.
"""
import hashlib, json, os, pathlib, re, sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from harness import markers, process
from harness.test import Fail, rows_in
from suites import gpu_runs

DRIVER = {"TESSERA_CUDA_LIBRARY": os.environ.get("TESSERA_CUDA_LIBRARY", "libcuda.so.1")}
OWN = {"gpu", "sim", "needs", "cmd", "flags", "debug"}       # such programs say themselves where and how they run


def programs(folders):
    for folder in folders:
        for f in sorted(pathlib.Path(folder).resolve().rglob("*.tsr")):
            e = markers.parse(f.read_text())
            if not f.name.startswith("_") and f.parent.name != "python" and not e.errors and (e.out or e.contains) and not OWN & set(e.options):
                yield f, e


def one(job):
    tessera, (f, e) = job
    try:
        p = process.run(markers.command(tessera, f, e, ["--device", "gpu:0", "--stats"]), timeout=200, cwd=f.parent, env=DRIVER, memory=None)
        if why := process.died(p):
            raise Fail(why)
        markers.compare_output(e, p)
    except Fail as why:
        return f, 0, str(why)
    m = re.search(r"stats: gpu launches=(\d+)", p.stderr)
    return f, int(m.group(1)) if m else 0, ""


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def profiles(tessera):
    """The tests of gpu_runs: how many failed."""
    failed = 0
    for name, (test, rows) in gpu_runs.ON_GPUS.items():
        try:
            test(tessera, DRIVER)
        except Fail as why:
            failed += 1
            print(json.dumps({"test": name, "fails": str(why)[:600]}), flush=True)
        else:
            path = pathlib.Path(gpu_runs.__file__)
            print(json.dumps({"test": name, "program": os.path.relpath(path, ROOT), "rows": list(rows), "sha256": hash_of(path)}), flush=True)
    return failed


def main():
    tessera, folders = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or [ROOT / "tests"]
    count = {"passed": 0, "launched": 0, "failed": 0}
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "12"))) as pool:
        for f, launches, why in pool.map(one, [(tessera, p) for p in programs(folders)]):
            name = os.path.relpath(f, ROOT)
            count["failed" if why else "passed"] += 1
            count["launched"] += launches > 0
            if why:
                print(json.dumps({"program": name, "fails": why[:600]}), flush=True)
            elif launches:
                print(json.dumps({"program": name, "launches": launches, "rows": list(rows_in(f.read_text())), "sha256": hash_of(f)}), flush=True)
    if not sys.argv[2:]:
        count["profiles failed"] = profiles(tessera)
    print(json.dumps({"check": "programs with --device gpu:0", **count}))


main()
