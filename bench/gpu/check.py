"""Random functions on the GPU against the CPU: python3 bench/gpu/check.py TESSERA SECONDS [FIRST]

Programs of tests/harness/staged.py, whose results are printed, run twice: as they are, and with --device gpu:0, where tensors are
made on the GPU and what has a kernel runs there.  The outputs must be the same text: the bits are promised to be.  Prints JSON lines.
"""
import json, os, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests"))
from harness import staged

staged.PRELUDE = staged.PRELUDE[:staged.PRELUDE.index("def compare")] + '''
def compare(name, f, cases):
    g = jit(f)
    for xs in cases:
        print(name, [list(x.shape) for x in xs], str(outcome(g, xs))[:3000])
        print(name, "eager", str(outcome(f, xs))[:3000])
'''


def run(tessera, path, *more):
    p = subprocess.run([tessera, "run", "--backend=cpu", "--stats", *more, path], capture_output=True, text=True, timeout=500)
    return p.stdout.splitlines(), p.stderr.splitlines(), p.returncode


def one(job):
    tessera, seed = job
    with tempfile.NamedTemporaryFile("w", suffix=".tsr") as f:
        f.write(staged.program(seed, 20))
        f.flush()
        try:
            here, _, _ = run(tessera, f.name)
            there, err, code = run(tessera, f.name, "--device", "gpu:0")
        except subprocess.TimeoutExpired:
            return seed, 0, ["timeout"], []
    bad = [f"cpu {a[:700]}\ngpu {b[:700]}" for a, b in zip(here, there) if a != b]
    if len(here) != len(there):
        bad.append(f"exit {code}: {len(here)} lines and {len(there)}: {err[-3:]}")
    return seed, len(here), bad, [l for l in err if l.startswith("stats: kernels")]


def main():
    tessera, seconds = sys.argv[1], float(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    end, done, lines, bad = time.time() + seconds, 0, 0, []
    with ThreadPoolExecutor(8) as pool:
        while time.time() < end:
            for seed, n, wrong, stats in pool.map(one, [(tessera, first + done + i) for i in range(16)]):
                lines += n
                bad += [(seed, w) for w in wrong]
                last = stats
            done += 16
    for seed, w in bad[:12]:
        print("differs", seed, w)
    print(json.dumps({"check": "random functions", "programs": done, "results": lines, "differ": len(bad),
                      "seeds": sorted({s for s, _ in bad})[:20], "stats": last}))


main()
