"""Tuning from one process to the next: what is measured stays measured, whatever is wrong with the records a program runs as without them."""
import json
import re
import subprocess
import tempfile
import pathlib

from harness import process
from harness.test import Fail, Test

KERNEL = """
import sys
budget = float(sys.argv[2])
@kernel.autotune(space=dict(BM=[8, 16, 32, 64], BN=[16, 32, 64], BK=[8, 16]), metric="latency_ms", budget_ms=budget, cache=sys.argv[1])
def gemm(A: Tensor["M", "K", f32], B: Tensor["K", "N", f32], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK]), tile.load(B[k:k+BK, block_n:block_n+BN]), acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], tile.load(C[block_m:block_m+BM, block_n:block_n+BN]) + acc)
A = ((arange(65 * 40) * 7) % 17 - 8).to(f32).reshape(65, 40)
B = ((arange(40 * 33) * 11) % 13 - 6).to(f32).reshape(40, 33)
C = ones((65, 33))
gemm(A, B, C)
gemm(A, B, C)
print(C.tolist() == (A @ B * 2.0 + 1.0).tolist())
"""

PROGRAM = """
import sys
where, dtype, *more = sys.argv[1:]
@tessera.autotune(configs=[dict(tile_m=64, tile_n=64, warps=4), dict(tile_m=128, tile_n=128, warps=8)] + [dict(tile_m=int(m)) for m in more],
                  metric="latency", cache=where, budget_ms=1e6)
def f(a, b):
    return matmul(a, b)
x = arange(6).reshape(2, 3).to(float64 if dtype == "f64" else float32)
print(f(x, x.T).tolist())
"""
WANT = "[[5.0, 14.0], [14.0, 50.0]]\n"


class Folder:
    def __init__(self, ctx, d):
        self.ctx, self.d = ctx, pathlib.Path(d)
        self.program = self.d / "program.tsr"
        self.program.write_text(PROGRAM)
        self.want = WANT

    def trials(self, *args, records="records", env=None, options=()):
        """The trials of a run; the last line of the trace is the best of them."""
        p = process.run([self.ctx.tessera, "run", "--autotune-trace", *options, self.program, self.d / records, *args], timeout=60, env=env)
        if p.returncode or p.stdout != self.want:
            raise Fail(f"exit code {p.returncode}: {p.stdout!r} {p.stderr[-800:]}")
        self.said = p.stderr
        found = [(m[1], float(m[2])) for m in re.finditer(r"trial \d+ (.*) predicted_ms=\S+ measured_ms=([\d.e-]+)\n", p.stderr)]
        self.predicted = [float(t) for t in re.findall(r"predicted_ms=([\d.e-]+) measured_ms=[\d.]", p.stderr)]
        best = re.search(r"^best: (.*) ([\d.e-]+) ms$", p.stderr, re.M)
        last = [float(t) for t in re.findall(r": again .* measured_ms=([\d.e-]+)\n", p.stderr)] or [t for _, t in found]
        if not best or (found and float(best[2]) != min(last) and "hit" not in p.stderr and len(found) > 1):
            raise Fail(f"no best, or not the least: {p.stderr}")
        return len(found)

    def expect(self, n, *args, **more):
        if self.trials(*args, **more) != n:
            raise Fail(f"not {n} trials: {self.said}")

    def tune(self, *args, records="records", code=0):
        p = process.run([self.ctx.tessera, "tune", "--records", self.d / records, *args], timeout=60)
        if p.returncode != code:
            raise Fail(f"exit code {p.returncode}: {p.stdout!r} {p.stderr!r}")
        return p.stdout + p.stderr


def measured_once(f):
    """A second process measures nothing; another dtype everything, another config only itself."""
    f.expect(2, "f32")
    f.expect(0, "f32")
    if "cache hit" not in f.said:
        raise Fail(f.said)
    f.expect(2, "f64")
    f.expect(1, "f32", "32")
    f.expect(0, "f32", "32")
    f.expect(0, "f32")


def kernels(f):
    """A kernel's trials leave its outputs alone, have a prediction each, stop by the budget, and are made once."""
    f.program.write_text(KERNEL)
    f.want = "True\n"
    f.expect(24, "1e6")
    if len(f.predicted) != 24 or not all(t > 0 for t in f.predicted) or not (f.d / "records").exists():
        raise Fail(f.said)
    f.expect(0, "1e6")
    if "cache hit" not in f.said:
        raise Fail(f.said)
    f.expect(1, "0", records="other")
    f.expect(0, "0", records="other")


def carried(f):
    """Records travel as text: on an empty file of records they are hits."""
    f.expect(2, "f32")
    if f.tune("export", f.d / "a.tsched") != "exported: 2\n" or f.tune("import", f.d / "a.tsched", records="other") != "imported: 2\n":
        raise Fail("other counts")
    f.expect(0, "f32", records="other")
    listed = f.tune("show", records="other")
    if not re.fullmatch(r"f\(f32\[2, 3\], f32\[3, 2\]\) on cpu .*\n(    tile_m=\d+ tile_n=\d+ warps=\d  [\d.e-]+ ms\n){2}", listed):
        raise Fail(listed)
    if f.tune("clear", records="other") != "removed: 2\n" or f.tune(records="other") != "":
        raise Fail("records stayed")
    f.expect(2, "f32", records="other")


def of_one_device(f):
    """What was measured on the host says nothing of a GPU."""
    f.expect(2, "f32")
    f.program.write_text(PROGRAM.replace("print(f(x", "with device('gpu:0'):\n    print(f(x"))
    f.expect(2, "f32", options=("--sim-devices", "1"))
    f.expect(0, "f32", options=("--sim-devices", "1"))


def damaged(f):
    """A file that is no database, is cut, is of another format, or cannot be made: said once, and the program runs."""
    (f.d / "text").write_text("not a database, and long enough to be one by its size" * 100)
    f.expect(2, "f32", records="text")
    if f.said.count("is not kept") != 1 or "not a database" not in f.said or (f.d / "text").stat().st_size != 5300:
        raise Fail(f.said)
    f.expect(2, "f32")
    whole = (f.d / "records").read_bytes()
    for at in (0, 20, 100, 4096, 5000, len(whole) // 2):
        (f.d / "cut").write_bytes(whole[:at] + b"\xff" * 16 + whole[at + 16:])
        f.trials("f32", records="cut")
        (f.d / "cut").write_bytes(whole[:at])
        f.trials("f32", records="cut")
    f.expect(2, "f32", records="no/such/folder/records")
    f.expect(2, "f32", records="")                          # the folder itself
    subprocess.run(["python3", "-c", f"import sqlite3; c = sqlite3.connect({str(f.d / 'records')!r}); c.execute('PRAGMA user_version = 7'); c.commit()"], check=True)
    f.expect(2, "f32")
    if "E0642" not in f.said or "E0642" not in f.tune(code=1) or "E0642" not in f.tune("clear", code=1):
        raise Fail(f.said)


def at_once(f):
    """Processes that tune together all run, and the records have every trial."""
    argv = [str(f.ctx.tessera), "run", str(f.program), str(f.d / "records"), "f32"]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    for p in running:
        out, err = p.communicate(timeout=60)
        if out != WANT or err:
            raise Fail(f"{out!r} {err!r}")
    f.expect(0, "f32")


def usual_place(f):
    """The file that cache= names unless told: TESSERA_SCHEDULES, empty for none."""
    f.program.write_text(PROGRAM.replace("cache=where, ", ""))
    env = {"TESSERA_SCHEDULES": str(f.d / "mine")}
    f.expect(2, "f32", env=env)
    f.expect(0, "f32", env=env)
    f.expect(2, "f32", env={"TESSERA_SCHEDULES": ""})
    f.expect(2, "f32", env={**env, "TESSERA_SCHEDULES": str(f.d / "other")})


def repeated_effects(f):
    """A function that prints is called once for each call, and is not tuned."""
    f.program.write_text(PROGRAM.replace("    return", "    print('called')\n    return"))
    p = process.run([f.ctx.tessera, "run", f.program, f.d / "records", "f32"], timeout=60)
    if p.stdout != "called\n" + WANT or p.returncode:
        raise Fail(f"{p.stdout!r} {p.stderr!r}")


def usage(f):
    for args, code in ((("show", "x"), 2), (("export",), 2), (("forget",), 2), (("import", f.d / "absent"), 1), (("import", f.program), 1)):
        said = f.tune(*args, code=code)
        if not said.startswith("error: ") or said.count("\n") != 1:
            raise Fail(said)
    if f.tune() != "" or f.tune("export", f.d / "none") != "exported: 0\n":
        raise Fail("records from nowhere")


def traced(f):
    """The trials as lines of JSON in a file."""
    trials = f.d / "trials.jsonl"
    for option in (["--autotune-trace", trials], [f"--autotune-trace={trials}"]):
        p = process.run([f.ctx.tessera, "run", *option, f.program, f.d / f"records{len(option)}", "f32", "256"], timeout=60)
        lines = [json.loads(line) for line in trials.read_text().splitlines()]
        if p.returncode or p.stdout != WANT or p.stderr or len(lines) != 3:
            raise Fail(f"{p.stderr} {lines}")
        if [l["config"] for l in lines][0] != {"tile_m": 64, "tile_n": 64, "warps": 4} or any(l["status"] != "ok" or not l["measured_ms"] > 0 for l in lines):
            raise Fail(f"{lines}")
        if any(set(l) != {"kernel", "shapes", "config", "predicted_ms", "measured_ms", "status"} for l in lines):
            raise Fail(f"{lines}")


def drawn(f):
    """The trials as a plot: what was measured and the best so far, two curves a call; without trials an empty one."""
    picture = f.d / "trials.svg"
    for points in (3, 0):
        p = process.run([f.ctx.tessera, "run", f"--autotune-trace={picture}", f.program, f.d / "records", "f32", "256"], timeout=60)
        curves = [[float(y) for y in re.findall(r",([0-9.]+)", c)] for c in re.findall(r'points="([^"]*)"', picture.read_text())]
        if p.returncode or p.stdout != WANT or p.stderr or [len(c) for c in curves] != [points] * 2 * (points > 0):
            raise Fail(f"{p.stderr} {curves}")
        if points and (curves[1] != sorted(curves[1]) or max(curves[0]) != curves[1][-1]):       # heights grow downwards
            raise Fail(f"{curves}")


LIBRARY = """
from tessera.stdlib import flash_attention_2, efficient_layernorm, stable_softmax, fused_adam, rotary_embedding, fused_matmul
x = (arange(2 * 40 * 16).to(f32) * 0.3).sin().reshape(2, 40, 16)
near = [abs(flash_attention_2(x) - softmax(x @ x.mT / 4.0, axis=-1) @ x).max().item() < 1e-5,
        abs(efficient_layernorm(x) - layernorm(x)).max().item() < 1e-5, abs(stable_softmax(x) - softmax(x, axis=-1)).max().item() < 1e-6,
        fused_adam(x, x, zeros_like(x), zeros_like(x), 1)[0].shape == x.shape, rotary_embedding(x).shape == x.shape]
for m, n in ((5, 40), (70, 40), (100, 300)):
    a, b = (arange(m * 33).to(f32) * 0.2).sin().reshape(m, 33), (arange(33 * n).to(f32) * 0.7).cos().reshape(33, n)
    near.append(abs(fused_matmul(a, b) - a @ b).max().item() < 1e-4)
    near.append((fused_matmul(a, b) == fused_matmul(a, b, schedule=Schedule(block=(32, 32), block_k=16))).all().item())
print(all(near), len(near))
"""


def library(f):
    """The library's kernels come with their schedules: a first run tries nothing and leaves no records, and says which it took."""
    f.program.write_text(LIBRARY)
    p = process.run([f.ctx.tessera, "run", "--autotune-trace", f.program], timeout=60, env={"HOME": str(f.d), "TESSERA_SCHEDULES": str(f.d / "records")})
    if p.returncode or p.stdout != "True 11\n" or "trial" in p.stderr or (f.d / "records").exists():
        raise Fail(p.stdout + p.stderr)
    chosen = re.findall(r"^tune: matmul\(f32, (\d+) x (\d+)\): shipped block_m=(\d+) block_n=(\d+) block_k=(\d+)$", p.stderr, re.M)
    if [c[:3] for c in chosen] != [("5", "40", "8"), ("70", "40", "8"), ("100", "300", "8")]:
        raise Fail(f"{chosen} {p.stderr}")


ROWS = {traced: ("PRF-09",), measured_once: ("SCH-10", "SCH-15"), carried: ("SCH-15",), kernels: ("SCH-14", "SCH-16"), of_one_device: ("SCH-18",), library: ("LIB-18",)}
FUNCTIONS = (measured_once, kernels, carried, of_one_device, damaged, at_once, usual_place, repeated_effects, traced, drawn, usage, library)


def tests(ctx):
    def one(function):
        with tempfile.TemporaryDirectory(prefix="tessera-tune-") as d:
            function(Folder(ctx, d))
    for f in FUNCTIONS:
        yield Test(f"tune/{f.__name__}", lambda f=f: one(f), ROWS.get(f, ()))
