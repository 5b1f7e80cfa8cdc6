"""Bundles with code for GPUs: what is in them, by the tools that know the format; and how they run, by the driver of the tests."""
import json
import os
import pathlib
import pickle
import re
import shutil
import struct
import sys

from harness import process
from harness.test import Fail, Skip, Test

from .bundles import FUNCTIONS, STATE, build, cases, compiler, expect, expected, in_folder, numpy, reseal, run, same_bits

# A process that calls a bundle on a device: cases in, results and errors out. "use NAME", "reset" and "seed" are what they say.
CHILD = '''
import importlib.util, pickle, sys, threading
spec = importlib.util.spec_from_file_location("call", sys.argv[1])
call = importlib.util.module_from_spec(spec)
spec.loader.exec_module(call)
bundle, out, todo = call.Bundle(sys.argv[2]), [], pickle.load(open(sys.argv[3], "rb"))
for name, args in todo:
    try:
        if name == "use": out.append(bundle.use(*args))
        elif name == "weight": out.append(bundle.weight(*args))
        elif name == "reset": out.append(bundle.check(bundle.lib.tsr_reset(bundle.bundle)))
        elif name == "into":
            f, a = bundle.function(args[0]), bundle.view(args[1])
            room = call.np.full(args[2], 7, call.np.float32)[args[3]]
            r = call.Array(data=room.ctypes.data, dtype=18, rank=room.ndim)
            r.shape[:room.ndim], r.stride[:room.ndim] = room.shape, [s // 4 for s in room.strides]
            bundle.check(bundle.lib.tsr_call(f, call.ctypes.byref(a[0]), 1, call.ctypes.byref(r), 1))
            out.append((room.copy(),))
        else: out.append(bundle.call(name, *args))
    except call.BundleError as e:
        out.append((e.code, str(e)))
if "threads" in sys.argv:
    def again():
        for k in range(3):
            for (name, args), o in zip(todo, out):
                if name != "use" and any(a.tobytes() != b.tobytes() for a, b in zip(bundle.call(name, *args), o)): differ.append(name)
    differ, some = [], [threading.Thread(target=again) for _ in range(4)]
    [t.start() for t in some], [t.join() for t in some]
    out.append(differ)
bundle.close()
pickle.dump(out, open(sys.argv[4], "wb"))
'''


def calls(ctx, d, folder, todo, how="memory=1000", driver=True, more=()):
    """What a caller in another process gets, and what the driver counted."""
    (d / "child.py").write_text(CHILD)
    with open(d / "cases.pickle", "wb") as f:
        pickle.dump(list(todo), f)
    log = d / "log"
    log.unlink(missing_ok=True)
    env = {**process.fake_driver(ctx.tessera, how), "FAKE_CUDA_LOG": str(log)} if driver else {"TESSERA_CUDA_LIBRARY": ""}
    run(sys.executable, d / "child.py", ctx.root / "examples/bundle/call.py", folder, d / "cases.pickle", d / "out.pickle", *more, env=env)
    with open(d / "out.pickle", "rb") as f:
        out = pickle.load(f)
    return out, dict(l.split() for l in log.read_text().splitlines()) if log.exists() else {}


def native(ctx, d, text, name="functions"):
    """A bundle for the driver of the tests."""
    (d / f"{name}.tsr").write_text(text)
    run(ctx.tessera, "build", "--gpu=native", f"{name}.tsr", cwd=d, env=process.fake_driver(ctx.tessera))
    return d / f"{name}.tsb"


# ---- how they run


@in_folder
def bits_of_the_host(ctx, d):
    """Functions of every kind and size on the GPU give what the program gives on the host; and on the host again after that."""
    np = numpy()
    folder = native(ctx, d, FUNCTIONS)
    every = list(cases(np))
    want = list(expected(ctx, np, d, every))
    got, counted = calls(ctx, d, folder, [("use", ("gpu:0",)), *every, *every[::5], ("use", ("cpu",)), *every[::7]])
    if int(counted["launch"]) < 100:
        raise Fail(f"little ran on the GPU: {counted}")
    for (name, args), g, w in zip(every, got[1:], want):
        same_bits(np, g, w, f"{name}{[a.shape for a in args]} on gpu:0")
    for i, (g, w) in enumerate(zip(got[1 + len(every):], want[::5] + [None] + want[::7])):
        if w is not None:
            same_bits(np, g, w, f"again, {i}")


LAYERS = '''
w1, w2 = random.normal((64, 128), key=random.key(0)) * 0.1, random.normal((128, 10), key=random.key(1)) * 0.1

@export
def predict(x: Tensor["B", 64, f32]) -> Tensor["B", 10, f32]: return softmax(relu(x @ w1) @ w2, axis=-1)

@export
def attention(q: Tensor["B", "S", 16], k: Tensor["B", "T", 16], v: Tensor["B", "T", 16]): return softmax(q @ k.mT / 4.0, axis=-1) @ v

@export
def total(x: Tensor["N", f32]): return x.sum(), x.max()

@export
def look(i: Tensor["N", int64]): return w1[i] * 2.0

@export
def join(x: Tensor["N", 8, f32], y: Tensor["M", 8, f32]): return concat([x, y], axis=0), x.T.reshape((x.shape[0] * 8,))
'''


@in_folder
def kernels_are_there(ctx, d):
    """Models find their kernels at every size: nothing is done op by op, and what was on the GPU stays there."""
    np = numpy()
    folder = native(ctx, d, LAYERS, "layers")
    rng = np.random.default_rng(3)
    f32 = lambda *s: rng.normal(size=s).astype(np.float32)
    todo = [("predict", [f32(n, 64)]) for n in (1, 2, 3, 5, 31, 64, 200, 700)]
    todo += [("attention", [f32(b, s, 16), f32(b, t, 16), f32(b, t, 16)]) for b, s, t in ((1, 1, 1), (2, 5, 7), (3, 40, 100), (1, 300, 20))]
    todo += [("total", [f32(n)]) for n in (1, 50, 5000, 100000)]
    todo += [("look", [rng.integers(0, 64, n)]) for n in (1, 3, 40)] + [("join", [f32(n, 8), f32(m, 8)]) for n, m in ((1, 1), (3, 5), (40, 7))]
    host, _ = calls(ctx, d, folder, todo, driver=False)
    there, counted = calls(ctx, d, folder, [("use", ("gpu:0",)), *todo])
    for (name, args), h, t in zip(todo, host, there[1:]):
        same_bits(np, t, h, f"{name}{[a.shape for a in args]}")
    inputs, results = sum(len(args) for _, args in todo), sum(len(h) for h in host)
    if int(counted["upload"]) > inputs + 8 or int(counted["download"]) > results:
        raise Fail(f"more goes between host and GPU than {inputs} inputs, weights and {results} results: {counted}")
    for name, inputs in (("predict", ["[[" + ",".join(["0.5"] * 64) + "]]"]), ("total", ["[1, 2, 3]"])):
        shown = [run(ctx.tessera, "run", "--stats", *more, folder, name, *inputs, env=process.fake_driver(ctx.tessera)) for more in ((), ("--device", "gpu:0"))]
        expect(shown[1].stdout, shown[0].stdout, f"tessera run --device gpu:0: {name}")
        if "kernels made=0 " not in shown[1].stderr or "op-by-op=0" not in shown[1].stderr:
            raise Fail(shown[1].stderr)


@in_folder
def threads(ctx, d):
    np = numpy()
    folder = native(ctx, d, LAYERS, "layers")
    todo = [("predict", [np.full((n, 64), 0.25, np.float32)]) for n in (1, 40)] + [("total", [np.arange(5000, dtype=np.float32)])]
    out, _ = calls(ctx, d, folder, [("use", ("gpu:0",)), *todo], more=("threads",))
    expect(out[-1], [], "calls that gave something else in four threads at once")


@in_folder
def results_in_the_callers_memory(ctx, d):
    np = numpy()
    folder = native(ctx, d, "@export\ndef chain(x: Tensor['N', f32]): return tanh(x * 2.5) + 0.3\n", "one")
    x = np.linspace(-2, 2, 50, dtype=np.float32)
    todo = [("chain", [x]), ("into", ("chain", x, 50, slice(None))), ("into", ("chain", x[::-1], 100, slice(None, None, 2))),
            ("into", ("chain", np.broadcast_to(x[:1], (50,)), 50, slice(None, None, -1)))]
    host, _ = calls(ctx, d, folder, todo, driver=False)
    there, _ = calls(ctx, d, folder, [("use", ("gpu:0",)), *todo])
    for h, t in zip(host, there[1:]):
        same_bits(np, t, h, "into memory of the caller's")


@in_folder
def state_lives_there(ctx, d):
    """State, weights and random numbers go along when the device changes, and are the same on both."""
    np = numpy()
    folder = native(ctx, d, STATE, "state")
    one, two = [("counted", [np.ones(2, np.float32)]), ("track", [np.ones((2, 3), np.float32)])], [("peek", []), ("noisy", [np.zeros(3, np.float32)])]
    todo = [*one, *two, *one, ("weight", ("count",)), ("reset", ()), *one, *two]
    host, _ = calls(ctx, d, folder, todo, driver=False)
    mixed = [("use", ("gpu:0",)), *todo[:3], ("use", ("cpu",)), *todo[3:5], ("use", ("gpu:0",)), *todo[5:]]
    there, counted = calls(ctx, d, folder, mixed)
    there = [g for (name, _), g in zip(mixed, there) if name != "use"]
    for (name, _), h, t in zip(todo, host, there):
        if name == "weight":
            expect(t.tolist(), h.tolist(), "the weight")
        elif h is not None:
            same_bits(np, t, h, name)


@in_folder
def what_is_missing_runs_on_the_host(ctx, d):
    np = numpy()
    folder = native(ctx, d, LAYERS, "layers")
    x = np.linspace(-1, 1, 64 * 7, dtype=np.float32).reshape(7, 64)
    host, _ = calls(ctx, d, folder, [("predict", [x])], driver=False)
    for what, change in (("none", lambda m: m.update(gpu_kernels=[])), ("every second one", lambda m: m.update(gpu_kernels=m["gpu_kernels"][::2]))):
        shutil.copytree(folder, d / "less", dirs_exist_ok=True)
        reseal(d / "less", change)
        there, _ = calls(ctx, d, d / "less", [("use", ("gpu:0",)), ("predict", [x])])
        same_bits(np, there[1], host[0], f"a bundle with {what} of its kernels")


# ---- what goes wrong


@in_folder
def errors_have_numbers(ctx, d):
    """No driver, no GPU, no code, a GPU that fails: each says so, and the CPU goes on."""
    np = numpy()
    text = "@export\ndef chain(x: Tensor['N', f32]): return tanh(x * 2.5) + 0.3\n"
    x = ("chain", [np.ones(3, np.float32)])
    plain = build(ctx, d, text, name="plain")
    real = build(ctx, d, text, "--gpu=sm_80", name="real")
    fake = native(ctx, d, text, "fake")
    todo = [("use", ("gpu:0",)), x, ("use", ("cpu",)), x]
    for folder, how, driver, code, said in ((plain, "", True, 24, "build the bundle with --gpu"), (fake, "", False, 23, "E0740"), (fake, "devices=0", True, 23, "E0741"),
                                            (fake, "version=9000", True, 23, "E0742"), (real, "", True, 24, "(sm_0): build it with --gpu=native there")):
        got, _ = calls(ctx, d, folder, todo, how or "1", driver)
        if got[0][0] != code or said not in got[0][1] or got[1][0].tolist() != got[3][0].tolist() or got[2] is not None:
            raise Fail(f"{folder.name}, {how}: {got}")
    for name in ("gpu:7", "gpu:-1", "tpu", ""):
        got, _ = calls(ctx, d, fake, [("use", (name,)), x])
        if got[0][0] != 23 or len(got[1]) != 1:
            raise Fail(f"{name}: {got}")
    got, _ = calls(ctx, d, fake, [("use", ("gpu:0",)), x, x, ("use", ("cpu",)), x], "fail-at=2:700")
    codes = [g[0] for g in got[1:3] if isinstance(g, tuple) and isinstance(g[0], int)]
    if 25 not in codes or not got[4][0].shape == (3,):
        raise Fail(f"a GPU that fails: {got}")
    got, _ = calls(ctx, d, fake, [("use", ("gpu:0",)), ("chain", [np.ones(8 << 20, np.float32)]), x], "memory=8")
    if got[1][0] != 2 or "E0744" not in got[1][1] or len(got[2]) != 1:
        raise Fail(f"a GPU that is full: {got[1:]}")
    p = run(ctx.tessera, "build", "--debug", "--gpu=sm_80", "plain.tsr", cwd=d, ok=False)
    if p.returncode != 2 or "leave one of them out" not in p.stderr:
        raise Fail(f"--debug and --gpu: {p.returncode} {p.stderr}")
    for text, said in (("sm_70", "--gpu takes sm_80"), ("", "--gpu is empty"), ("sm_80,", None), ("sm_90b", "--gpu takes sm_80"), ("native", "E0740")):
        p = run(ctx.tessera, "build", f"--gpu={text}", "plain.tsr", "-o", "x.tsb", cwd=d, ok=False)
        if said and (p.returncode != 2 or said not in p.stderr):
            raise Fail(f"--gpu={text}: {p.returncode} {p.stderr}")


def row(m):
    return m["gpu_kernels"][0]


FRAMES = ("", "threads 0 shared 0", "threads 2000 shared 0", "threads 1 shared -1", "threads 1 shared 99999999999", "threads 1 shared 0 and more", "threads", 7, None)
MANIFESTS = [("no key", lambda m: row(m).pop("key"), 4), ("a key in words", lambda m: row(m).update(key="key"), 4), ("no file", lambda m: row(m).pop("fatbin"), 4),
             ("a file that is not listed", lambda m: row(m).update(fatbin="objects/gpu/none.fatbin"), 4), ("a file outside", lambda m: row(m).update(fatbin="../x"), 4),
             ("a header for code", lambda m: row(m).update(fatbin="fake.h"), 8), ("no frames", lambda m: row(m).pop("frames"), 4), ("kernels as text", lambda m: m.update(gpu_kernels="all"), 0),
             ("kernels of numbers", lambda m: m.update(gpu_kernels=[1, 2]), 4), ("frames of numbers", lambda m: row(m).update(frames=[1]), 4),
             ("chips of numbers", lambda m: m["target"].update(gpu=[1, "sm_800"]), 24), ("no chips", lambda m: m["target"].pop("gpu"), 24), ("no kernels", lambda m: m.pop("gpu_kernels"), 24)]
MANIFESTS += [(f"frame {f!r}", lambda m, f=f: row(m).update(frames={"sm_0": f}), 4) for f in FRAMES]


@in_folder
def damage(ctx, d):
    """A fat binary that was changed, cut off, lost; one that is none though its hash is right; manifests that say what cannot be."""
    numpy()
    folder = native(ctx, d, "@export\ndef chain(x: Tensor['N', f32]): return tanh(x * 2.5) + 0.3\n", "fake")
    use = lambda: calls(ctx, d, folder, [("use", ("gpu:0",))])[0][0]
    path = sorted((folder / "objects/gpu").iterdir())[0]
    data, manifest = path.read_bytes(), (folder / "manifest.json").read_bytes()
    for bad, code in ((data[:-1], 7), (data[:70] + bytes([data[70] ^ 1]) + data[71:], 7), (b"", 7), (data + b"\\0", 7), (None, 3)):
        path.unlink() if bad is None else path.write_bytes(bad)
        expect((use() or (0,))[0], code, "damage")
    import hashlib
    head = lambda b: b[:8] + struct.pack("<Q", len(b) - 16) + b[16:]
    for bad in (b"\\0" * 16, data[:16], head(data[:40]), head(data[:-8]), data[:24] + struct.pack("<Q", 1 << 63) + data[32:], data[:20] + struct.pack("<I", 1 << 31) + data[24:],
                data[:20] + struct.pack("<I", 0) + data[24:], b"X" + data[1:]):
        path.write_bytes(bad)
        listed = lambda m: [f.update(bytes=len(bad), sha256=hashlib.sha256(bad).hexdigest()) for f in m["files"] if f["path"].endswith(path.name)]
        (folder / "manifest.json").write_bytes(manifest)
        reseal(folder, listed)
        got = use()
        if got is not None and got[0] != 8:
            raise Fail(f"{bad[:32]!r}: {got}")
    path.write_bytes(data)
    for what, change, code in MANIFESTS:
        (folder / "manifest.json").write_bytes(manifest)
        reseal(folder, change)
        expect((use() or (0,))[0], code, what)


# ---- what is in them


def images(fatbin):
    """(kind, sm, its own) of each entry of a fat binary."""
    magic, version, header, size = struct.unpack("<IHHQ", fatbin[:16])
    expect((magic, version, header, size), (0xBA55ED50, 1, 16, len(fatbin) - 16), "a fat binary's header")
    at = 16
    while at < len(fatbin):
        kind, version, header, size = struct.unpack("<HHIQ", fatbin[at:at + 16])
        sm, flags = struct.unpack("<I", fatbin[at + 28:at + 32])[0], struct.unpack("<Q", fatbin[at + 40:at + 48])[0]
        yield {1: "ptx", 2: "elf"}[kind], sm, bool(flags & 0x100000)
        at += header + size


SMALL = "@export\ndef chain(x: Tensor['N', f32]): return (x * 2.5).sum() + 0.3\n"


@in_folder
def every_chip_is_in_it(ctx, d):
    """Machine code for each chip that was asked for, PTX for later ones; the same bytes each time; inspect says which."""
    folder = build(ctx, d, SMALL, "--gpu=sm_80,sm_90a", name="chips")
    files = sorted((folder / "objects/gpu").iterdir())
    m = json.loads((folder / "manifest.json").read_text())
    expect(m["target"]["gpu"], ["sm_80", "sm_90a"], "target")
    expect(sorted(f"objects/gpu/{f.name}" for f in files), [r["fatbin"] for r in m["gpu_kernels"]], "kernels")
    cubins = [("elf", 80, False), ("elf", 90, True)] if m["target"]["cubins"] else []
    for f in files:
        expect(list(images(f.read_bytes())), cubins + [("ptx", 80, False), ("ptx", 90, True)], f.name)
    shown = run(ctx.tessera, "inspect", folder).stdout
    if not re.search(r"^kernels for GPUs sm_80, sm_90a: [1-9]\d* fat binaries of (machine code and )?PTX, [1-9]\d* bytes$", shown, re.M):
        raise Fail(shown)
    (d / "again").mkdir()
    again = build(ctx, d / "again", SMALL, "--gpu=sm_80,sm_90a", name="chips")
    if differ := [f.name for f in folder.rglob("*") if f.is_file() and f.read_bytes() != (again / f.relative_to(folder)).read_bytes()]:
        raise Fail(f"differ: {differ}")
    so = folder / "libchips.so"
    if so.stat().st_size >= 1_200_000:
        raise Fail(f"the library with the part for GPUs has {so.stat().st_size} bytes")
    if shutil.which("readelf"):
        needed = set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", so).stdout))
        names = set(re.findall(r"GLOBAL\s+DEFAULT\s+\d+ (\w+)", run("readelf", "--dyn-syms", "-W", so).stdout))
        if needed - {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0"} or [n for n in names if not n.startswith("tsr_")]:
            raise Fail(f"it needs {needed} and exports {names}")
    run(ctx.tessera, "run", folder, "chain", "[1, 2]")


@in_folder
def without_an_assembler(ctx, d):
    """PTX alone, and a word about it."""
    (d / "chips.tsr").write_text(SMALL)
    p = run(ctx.tessera, "build", "--gpu=sm_90a", "chips.tsr", cwd=d, env={"TESSERA_PTXAS": "", "TESSERA_NVJITLINK": ""})
    if "neither ptxas nor nvJitLink is here" not in p.stderr:
        raise Fail(p.stderr)
    for f in (d / "chips.tsb/objects/gpu").iterdir():
        expect(list(images(f.read_bytes())), [("ptx", 80, False), ("ptx", 90, True)], f.name)


def cuobjdump():
    for name in (shutil.which("cuobjdump"), "/usr/local/cuda/bin/cuobjdump", os.environ.get("TESSERA_CUOBJDUMP")):
        if name and pathlib.Path(name).exists():
            return name
    raise Skip("no cuobjdump")


@in_folder
def cuobjdump_lists_each_chip(ctx, d):
    tool = cuobjdump()
    folder = build(ctx, d, SMALL, "--gpu=sm_80,sm_89,sm_90a", name="chips")
    if not json.loads((folder / "manifest.json").read_text())["target"]["cubins"]:
        raise Skip("neither ptxas nor nvJitLink")
    for f in (folder / "objects/gpu").iterdir():
        expect(re.findall(r"\.(sm_\w+)\.cubin", run(tool, "--list-elf", f).stdout), ["sm_80", "sm_89", "sm_90a"], f.name)
        expect(re.findall(r"\.(sm_\w+)\.ptx", run(tool, "--list-ptx", f).stdout), ["sm_80", "sm_90a"], f.name)


@in_folder
def examples_on_a_gpu(ctx, d):
    """The callers in C and Python give the same there."""
    env = process.fake_driver(ctx.tessera)
    run(ctx.tessera, "build", "--gpu=native", ctx.root / "examples/bundle/classifier.tsr", "-o", "classifier.tsb", cwd=d, env=env)
    folder = d / "classifier.tsb"
    run(compiler(ctx), "-std=c99", "-Wall", "-Werror", "-I", folder, ctx.root / "examples/bundle/main.c", "-o", "main", "-L", folder, "-lclassifier",
        f"-Wl,-rpath,{folder}", cwd=d)
    expect(run(d / "main", "gpu:0", env=env).stdout, run(d / "main", env=env).stdout, "the caller in C")
    p = run(d / "main", "gpu:1", env=env, ok=False)
    if p.returncode != 1 or not p.stderr.startswith("gpu:1: B23: "):
        raise Fail(p.stderr)
    numpy()
    call = (sys.executable, ctx.root / "examples/bundle/call.py", folder)
    expect(run(*call, "gpu:0", env=env).stdout, run(*call, env=env).stdout, "the caller in Python")


ROWS = {"kernels_are_there": ("DEP-07",), "every_chip_is_in_it": ("CG-10", "DET-11"), "cuobjdump_lists_each_chip": ("CG-10",)}
TESTS = (bits_of_the_host, kernels_are_there, threads, results_in_the_callers_memory, state_lives_there, what_is_missing_runs_on_the_host, errors_have_numbers, damage,
         every_chip_is_in_it, without_an_assembler, cuobjdump_lists_each_chip, examples_on_a_gpu)


def tests(ctx):
    for f in TESTS:
        yield Test(f"gpu_bundles/{f.__name__}", lambda f=f: f(ctx), ROWS.get(f.__name__, ()))
