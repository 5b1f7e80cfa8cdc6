"""GPUs without a GPU: the driver of the tests (tests/fake), what is said where there is none, and that nobody looks for one unasked."""
import json
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test

MOVES = """x = arange(1000, dtype=f32).to("gpu:0")
y = x.reshape(10, 100).T
print(y[3].tolist()[:3], y.sum().item(), x.device)
"""


def run(ctx, *argv, text=None, how="1", env=None):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "program.tsr"
        path.write_text(text or "")
        p = process.run([ctx.tessera, *argv, *([path] if text is not None else [])], env={**process.fake_driver(ctx.tessera, how), **(env or {})})
    if why := process.died(p):
        raise Fail(why)
    return p


def counters(ctx, text):
    """What the driver counted while the program ran; None: nobody asked for a GPU."""
    with tempfile.TemporaryDirectory() as d:
        log = pathlib.Path(d) / "log"
        p = run(ctx, "run", text=text, env={"FAKE_CUDA_LOG": str(log)})
        if p.returncode:
            raise Fail(p.stderr)
        return {k: int(v) for k, v in map(str.split, log.read_text().splitlines())} if log.exists() else None


def opened_when_asked(ctx):
    """Programs that name no GPU start no driver, whatever they compute."""
    for text in ("print(1)", "x = ones(3)\nprint((x + x).sum())", "@jit\ndef f(x): return x * 2\nprint(f(ones(4)), current_device())",
                 "with device('cpu'): print(zeros(2).device)"):
        if (c := counters(ctx, text)) is not None:
            raise Fail(f"{text!r} asked for a GPU: {c}")
    if (c := counters(ctx, MOVES)) is None or not c["init"]:
        raise Fail(f"a program on a GPU did not: {c}")


def copies_once(ctx):
    """Bytes go up once and come down once, however often they are read; views and headers cost nothing."""
    c = counters(ctx, MOVES + "for i in range(20): x.tolist(), float(x[i])\n")
    if c["upload"] != 1 or c["download"] != 2:             # the elements, and the sum, which a kernel makes
        raise Fail(f"one upload and two downloads, not {c}")
    c = counters(ctx, "with device('gpu:0'):\n    a = zeros((100, 100))\n    b = a.to('gpu:0')\nprint(a.device)")
    if c["upload"] or c["download"]:
        raise Fail(f"zeros are made on the device, not {c}")


PARTS = """x = arange(1000000, dtype=f32).reshape(1000, 1000).to("gpu:0")
y = x * 1.0
HOW
"""


def parts(ctx):
    """Of a large tensor of a GPU as much comes to the host as is asked for; who asks again and again gets all of it before that has cost twice as much."""
    large = 4000000
    for how, said, most in (("print(y[3, 4].item(), float(y[5, 6]), int(y[7, 8]), bool(y[0, 0]), y.item(9999))", "3004.0 5006.0 7008 False 9999.0", 30),
                            ("print(y[7:9, 1:3].tolist())", "[[7001.0, 7002.0], [8001.0, 8002.0]]", 20),
                            ("print(y[:, 3].tolist()[999], y.T[4].tolist()[1])", "999003.0 1004.0", 8000),
                            ("print(y)", "Tensor([[0.0, 1.0, 2.0, ..., 997.0, 998.0, 999.0],", 150),
                            ("print(y.reshape(10, 100, 1000)[:, 3:5])", "Tensor([[[3000.0, 3001.0, 3002.0, ..., 3997.0, 3998.0, 3999.0],", 600),
                            ("print(y.reshape(-1)[::7])", "Tensor([0.0, 7.0, 14.0, ..., 999985.0, 999992.0, 999999.0], shape=(142858,), dtype=f32)", 30),
                            ("if y[2, 2] > 1: print(y[:2, y[0, 5].to(int32)].tolist())", "[5.0, 1005.0]", 20),
                            ("print(zeros_like(y)[3].tolist()[:2])", "[0.0, 0.0]", 0),
                            ("print(sum([float(y[i, i]) for i in range(100)]))", "4954950.0", large + 100)):
        text = PARTS.replace("HOW", how)
        out, c = run(ctx, "run", text=text).stdout, counters(ctx, text)
        if out.splitlines()[0] != said or c["down"] > most:
            raise Fail(f"{how}: {out[:300]}, {c}")
    c = counters(ctx, PARTS.replace("HOW", "print(sum([float(y[i, i]) for i in range(100)]))"))
    if c["down"] < large or c["download"] > 20:
        raise Fail(f"elements one by one: {c}")
    out = run(ctx, "run", text=PARTS.replace("HOW", "print(y[3, 4].item())\ny[3, 4] = 7.0\nprint(y[3, 4].item(), y.sum().item())\ny += 1.0\nprint(y[3, 4].item())")).stdout
    if out.split() != ["3004.0", "7.0", "499999506432.0", "8.0"]:
        raise Fail(out)


WRITTEN = """@kernel.schedule(Schedule(block_m=16, block_n=16))
def doubled(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    tile.store(y[block_m:block_m+BM, block_n:block_n+BN], tile.load(x[block_m:block_m+BM, block_n:block_n+BN]) * 2.0)

@kernel.schedule(Schedule(block_m=16, block_n=16))
def added(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    there = tile.load(y[block_m:block_m+BM, block_n:block_n+BN])
    tile.store(y[block_m:block_m+BM, block_n:block_n+BN], there + tile.load(x[block_m:block_m+BM, block_n:block_n+BN]))

@kernel.schedule(Schedule(block_m=16, block_n=16))
def early(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    at = block_m - 12
    tile.store(y[at:at+BM, block_n:block_n+BN], tile.load(x[at:at+BM, block_n:block_n+BN]) * 2.0)

x = ones((100, 50)).to("gpu:0")
with device("gpu:0"):
    y = zeros((100, 50))
HOW
print(y.sum().to("cpu").item())
"""


def zeros_wait(ctx):
    """Zeros that a kernel writes over, all of them, are never written; those that it reads, or leaves, are, before it runs."""
    for how, fills, total in (("doubled(x, y)", 0, "10000.0"), ("doubled.launch(grid=(7, 4))(x, y)", 0, "10000.0"), ("doubled.launch(grid=(6, 4))(x, y)", 1, "9600.0"),
                              ("doubled.launch(grid=(7, 3))(x, y)", 1, "9600.0"), ("early.launch(grid=(7, 4))(x, y)", 0, "10000.0"),
                              ("early.launch(grid=(6, 4))(x, y)", 1, "8400.0"), ("added(x, y)", 1, "5000.0"), ("z = y\ndoubled(x, y)\nprint(z.sum().item())", 1, "0.0"),
                              ("doubled(x, y[:, :])", 1, "10000.0"), ("y = y + 1.0", 1, "5000.0")):
        text = WRITTEN.replace("HOW", how)
        said = run(ctx, "run", text=text).stdout.split()[0]
        c = counters(ctx, text)
        if said != total or c["fill"] != fills or c["upload"] > 3:
            raise Fail(f"{how}: {said}, {c}")


def memory_goes_back(ctx):
    """Memory of tensors that are gone is used again: a loop over fresh ones takes a segment or two from the driver."""
    c = counters(ctx, "for i in range(500):\n    x = full((1000,), float(i)).to('gpu:0')\nprint(x.sum().item())")
    if c["alloc"] > 2 or c["upload"] != 500:
        raise Fail(f"{c}")


CLEARS = """with device("gpu:0"):
    x = arange(6000000, dtype=f32)
    x.sum().item()
    del x
    kept = [arange(300000, dtype=f32) + float(i) for i in range(3)]
    y = arange(6000000, dtype=f32) * 2.0
    print(y[-1].item(), [(k.sum().item(), k[0].item(), k[-1].item()) for k in kept])
@jit
def step(k, n):
    a = (k[:, None] + arange(20, dtype=f32)).sum(axis=1)
    return a * 2.0
print(step(kept[2], 3)[5].item(), step(kept[2], 3)[5].item())
"""


def clears_the_way(ctx):
    """What lies in the middle of a large free piece is moved, and keeps its elements, before the driver is asked for more."""
    p = run(ctx, "run", "--stats", text=CLEARS, how="memory=200")
    want = run(ctx, "run", text=CLEARS.replace('"gpu:0"', '"cpu"')).stdout
    if p.stdout != want or not want:
        raise Fail(f"{p.stdout!r} for {want!r}")
    found = re.search(r"held=([\d.]+) MB blocks=\d+ segments=\d+ moved=(\d+)", p.stderr)
    if not found or float(found[1]) > 85 or int(found[2]) < 1:
        raise Fail(p.stderr)


def doctor(ctx):
    p = run(ctx, "doctor", how="devices=2")
    if p.returncode or p.stderr or "gpu:1     Tessera Fake GPU, sm_0, 4 multiprocessors" not in p.stdout or "CUDA 13.0" not in p.stdout:
        raise Fail(p.stdout + p.stderr)
    for how, code, advice in (("devices=0", "E0741", "CUDA_VISIBLE_DEVICES"), ("version=11040", "E0742", "newer NVIDIA driver"), ("init=802", "E0743", "nvidia-smi")):
        p = run(ctx, "doctor", "--json", how=how)
        said = json.loads(p.stdout)
        if p.returncode or not said["driver"]["error"].startswith(code) or advice not in " ".join(said["advice"]) or said["gpus"]:
            raise Fail(f"{how}: {p.stdout}{p.stderr}")
    said = json.loads(run(ctx, "doctor", "--json", how="fail-at=1:700").stdout)
    if not said["gpus"][0]["error"].startswith("E0745"):
        raise Fail(said)
    p = process.run([ctx.tessera, "doctor"])
    if p.returncode or "driver    E0740" not in p.stdout or "- " not in p.stdout:
        raise Fail(p.stdout + p.stderr)


def shown(ctx):
    p = run(ctx, "devices", how="devices=2")
    if p.stdout != "gpu:0: Tessera Fake GPU\ngpu:1: Tessera Fake GPU\n":
        raise Fail(p.stdout + p.stderr)
    if "of a multiprocessor: 256 KB of registers, 228 KB shared; of a group: 227 KB shared" not in run(ctx, "devices", "--memory").stdout:
        raise Fail("devices --memory")
    p = run(ctx, "devices", "--sim-devices", "1")                   # simulated ones take the place of real ones
    if p.stdout != "gpu:0: simulated\n":
        raise Fail(p.stdout + p.stderr)


def failures(ctx):
    """Wherever the driver fails, the program ends with a numbered error, and never with a crash; what it can catch, it catches."""
    text = """x = zeros((300, 300)).to("gpu:0")
for i in range(4):
    try:
        x = x + ones((300, 300)).to("gpu:0")
        print(float(x.sum()))
    except (RuntimeError, MemoryError) as e:
        print(str(e)[:5])
y = x.to("cpu")
"""
    for how in [f"oom-at={n}" for n in (1, 2, 3)] + [f"oom-once={n}" for n in (1, 2)] + [f"fail-at={n}:{code}" for n in (1, 2, 3, 5) for code in (700, 719, 801)]:
        p = run(ctx, "run", text=text, how=how)
        if p.returncode not in (0, 1) or (p.returncode and ": E07" not in p.stderr):
            raise Fail(f"{how}: exit code {p.returncode}: {p.stdout}{p.stderr}")


# An assembler that gives its text back once three of it are at work.
SLOW = """#!/bin/sh
touch "$FOLDER/begun.$$"
n=0
until [ $(ls "$FOLDER" | grep -c begun) -ge 3 ]; do
    n=$((n + 1)); [ $n -gt 300 ] && { touch "$FOLDER/alone"; exit 1; }
    sleep 0.1
done
for word; do case $last in -o) out=$word;; esac; case $word in *.ptx) text=$word;; esac; last=$word; done
cp "$text" "$out"
"""

SMALL = """with device("gpu:0"):
    a = ones((3, 5))
    b = [a + 1.0, exp(a), a.sum(), tanh(a) * 2.0, a.to(f64), zeros((200, 200)) + 1.0, a > 0.0]
for x in b:
    c = x.tolist()
"""


def assembled_meanwhile(ctx):
    """Small kernels one after the other wait for no assembler: theirs work side by side, and what is asked of the device is done all the same."""
    counted = []
    for sync in ("", "1"):
        with tempfile.TemporaryDirectory() as d:
            script, log = pathlib.Path(d) / "ptxas", pathlib.Path(d) / "log"
            script.write_text(SLOW if not sync else SLOW.replace("-ge 3", "-ge 1"))
            script.chmod(0o755)
            more = {"TESSERA_PTXAS": str(script), "FOLDER": d, "TESSERA_GPU_SYNC": sync, "TESSERA_CACHE": "", "FAKE_CUDA_LOG": str(log)}
            p = run(ctx, "run", text=SMALL, how="chip=90,memory=500", env=more)
            if p.returncode or p.stderr or (pathlib.Path(d) / "alone").exists():
                raise Fail(p.stderr or "one waits for another")
            counted.append({k: int(v) for k, v in map(str.split, log.read_text().splitlines()) if k in ("launch", "upload", "fill", "module", "used", "download")})
    if counted[0] != counted[1] or counted[0]["module"] < 5 or counted[0]["launch"] < 7:
        raise Fail(f"waiting for nothing {counted[0]}, for each launch {counted[1]}")


def tests(ctx):
    yield Test("gpu/assembled_meanwhile", lambda: assembled_meanwhile(ctx))
    yield Test("gpu/opened_when_asked", lambda: opened_when_asked(ctx))
    yield Test("gpu/copies_once", lambda: copies_once(ctx))
    yield Test("gpu/parts", lambda: parts(ctx))
    yield Test("gpu/zeros_wait", lambda: zeros_wait(ctx))
    yield Test("gpu/memory_goes_back", lambda: memory_goes_back(ctx))
    yield Test("gpu/clears_the_way", lambda: clears_the_way(ctx))
    yield Test("gpu/doctor", lambda: doctor(ctx))
    yield Test("gpu/devices", lambda: shown(ctx))
    yield Test("gpu/failures", lambda: failures(ctx))
