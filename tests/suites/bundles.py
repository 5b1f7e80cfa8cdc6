"""Bundles: what `tessera build` makes is called from C and from Python, has the program's bits, and refuses whatever is wrong with a number."""
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

from harness import process
from harness.test import Fail, Skip, Test

FUNCTIONS = '''
import sys, json

W = random.normal((5, 3), key=random.key(1))
b = arange(3).to(f32) * 0.1
params = {"w": W * 2.0, "layers": [ones(3), zeros(3)]}

@export
def chain(x: Tensor["N", f32]): return tanh(x * 2.5) + exp(-x * x) * 0.3

@export
def rows(x: Tensor["A", "B", f32]): return softmax(x, axis=-1), x.sum(axis=0), x.max()

@export
def affine(x: Tensor["N", 5, f32]): return x @ W + b

@export
def pair(x: Tensor["N", f64], y: Tensor["N", f64]): return {"sum": x + y, "apart": (x - y, x * y)}

@export
def whole(x: Tensor["A", "B", int32]): return x * 3 - x // 2, (x > 0).sum(), cumsum(x, axis=1)

@export
def truth(x: Tensor["N", bool]): return ~x, x & (arange(x.shape[0]) > 2)

@export
def turned(x: Tensor["A", "B", f32]): return (x.T * 2.0 + 1.0).T.sum(axis=1), x.T

@export
def picked(x: Tensor["N", f32], i: Tensor["M", int64]): return x[i] * 2.0

@export
def ordered(x: Tensor["N", f32]): return sort(x), argsort(x)

@export
def collatz(n: Tensor["N", int64]):
    steps = zeros_like(n)
    while (n > 1).any():
        odd = n % 2 == 1
        steps = steps + (n > 1).to(int64)
        n = where(n > 1, where(odd, 3 * n + 1, n // 2), n)
    return steps

@export
def branch(x: Tensor["N", f32]):
    if x.sum() > 0.0:
        return x * 2.0
    return x - 1.0

@export(args={"p": params})
def tree(p, x: Tensor["N", 5]): return (x @ p["w"] + p["layers"][1]) * p["layers"][0]

@export
def both(xy: tuple[Tensor["N"], Tensor["N"]], scale=2.0): return (xy[0] - xy[1]) * scale

@export
def same(x: Tensor["N", f32]): return x, x

@export
def wide(x: Tensor["N", c64]): return x * x, abs(x)

@export
def half(x: Tensor["N", f16]): return x * x + 1.0

@export
def batch(x: Tensor["B", 4]):
    if x.shape[0] == 1:
        return x * 10.0
    return x - x.mean(axis=0)
'''

# What a program prints is JSON that reads back as the same bits.
DRIVER = '''
import functions, json, math, sys
def flat(v):
    if isinstance(v, dict): return [t for k in v for t in flat(v[k])]
    if isinstance(v, (tuple, list)): return [t for x in v for t in flat(x)]
    return [v]
def plain(v):
    if isinstance(v, list): return [plain(x) for x in v]
    return [v.real, v.imag] if isinstance(v, complex) else v
for case in json.loads(open(sys.argv[1]).read()):
    args = [tensor(v, dtype=getattr(tessera, d)).reshape(tuple(s)) for d, s, v in case["args"]]
    f = getattr(functions, case["name"])
    if case["name"] == "tree": out = f({"w": args[0], "layers": args[1:3]}, args[3])
    elif case["name"] == "both": out = f((args[0], args[1]))
    else: out = f(*args)
    print(json.dumps([[str(t.dtype), list(t.shape), plain(t.reshape((math.prod(t.shape),)).tolist())] for t in flat(out)]))
'''


def numpy():
    try:
        import numpy
        return numpy
    except ImportError:
        raise Skip("python3 has no numpy") from None


def caller(ctx):
    """examples/bundle/call.py as a module."""
    numpy()
    spec = importlib.util.spec_from_file_location("call", ctx.root / "examples/bundle/call.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*argv, cwd=None, env=None, ok=True, timeout=300):
    p = process.run(argv, timeout=timeout, cwd=cwd, env=env, memory=None)
    if why := process.died(p):
        raise Fail(why)
    if ok and p.returncode:
        raise Fail(f"{' '.join(map(str, argv))}: exit code {p.returncode}: {p.stderr[-800:]}")
    return p


def build(ctx, folder, text, *options, name="functions"):
    (folder / f"{name}.tsr").write_text(text)
    run(ctx.tessera, "build", *options, f"{name}.tsr", cwd=folder)
    return folder / f"{name}.tsb"


def in_folder(f):
    def test(ctx):
        with tempfile.TemporaryDirectory(prefix="tessera-bundle-") as d:
            f(ctx, pathlib.Path(d))
    test.__name__ = f.__name__
    return test


def expect(got, want, what):
    if got != want:
        raise Fail(f"{what}: {got!r}, wanted {want!r}")


# ---- the same bits as the program


def cases(np):
    rng = np.random.default_rng(5)
    f32 = lambda *s: rng.normal(size=s).astype(np.float32)
    for n in (0, 1, 2, 7, 64, 300):
        yield "chain", [f32(n)]
        yield "affine", [f32(n, 5)]
        yield "pair", [rng.normal(size=n), rng.normal(size=n)]
        yield "truth", [rng.random(n) > 0.5]
        yield "ordered", [f32(n)]
        yield "both", [f32(n), f32(n)]
        yield "same", [f32(n)]
        yield "wide", [(f32(n) + 1j * f32(n)).astype(np.complex64)]
        yield "half", [f32(n).astype(np.float16)]
        yield "tree", [f32(5, 3), f32(3), f32(3), f32(n, 5)]
        yield "batch", [f32(n, 4)] if n else [f32(3, 4)]
        yield "whole", [rng.integers(-9, 9, (n, 3)).astype(np.int32)]
        yield "collatz", [rng.integers(0, 30, n + 1)]
    for a, b in ((1, 1), (3, 4), (1, 40), (33, 1), (17, 260), (0, 4)):
        yield "turned", [f32(a, b)]
        if a:
            yield "rows", [f32(a, b)]
    yield "branch", [np.abs(f32(9))]
    yield "branch", [-np.abs(f32(9))]
    yield "picked", [f32(20), np.array([3, 0, 19, -1])]


def views(np, x):
    """The same values in other places and orders of memory."""
    yield x
    yield np.asfortranarray(x)
    yield x[::-1].copy()[::-1]
    spread = np.zeros(tuple(2 * s for s in x.shape), x.dtype)
    spread[tuple(slice(None, None, 2) for _ in x.shape)] = x
    yield spread[tuple(slice(None, None, 2) for _ in x.shape)]
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:]          # not aligned to its elements
    odd[:] = np.frombuffer(x.tobytes(), np.uint8)
    yield odd.view(x.dtype).reshape(x.shape)


TESSERA = {"float32": "f32", "float64": "f64", "float16": "f16", "complex64": "c64", "int32": "int32", "int64": "int64", "bool": "bool"}


def as_json(x):
    flat = x.flatten().tolist()
    return [TESSERA[x.dtype.name], list(x.shape), flat if x.dtype.kind != "c" else [[v.real, v.imag] for v in flat]]


def expected(ctx, np, folder, all_cases):
    """What the program gives, as arrays."""
    usable = [(name, args) for name, args in all_cases]
    text = [{"name": name, "args": [as_json(a) for a in args]} for name, args in usable]
    driver = DRIVER.replace("tensor(v, dtype", "tensor([complex(*z) for z in v] if d == 'c64' else v, dtype")
    (folder / "driver.tsr").write_text(driver)
    (folder / "cases.json").write_text(json.dumps(text))
    lines = run(ctx.tessera, "run", "driver.tsr", "cases.json", cwd=folder).stdout.splitlines()
    dtypes = {v: k for k, v in TESSERA.items()}
    for line in lines:
        yield tuple(np.array([complex(*z) for z in v] if d == "c64" else v, dtypes[d]).reshape(s) for d, s, v in json.loads(line))


def same_bits(np, got, want, what):
    expect(len(got), len(want), f"{what}: results")
    for i, (g, w) in enumerate(zip(got, want)):
        expect((g.dtype.name, g.shape), (w.dtype.name, w.shape), f"{what}: result {i}")
        nan = (g != g) & (w != w)
        bits = lambda v: np.where(nan, np.zeros_like(v), v).tobytes()
        if bits(g) != bits(w):
            raise Fail(f"{what}: result {i} differs: {g.flatten()[:4]} and {w.flatten()[:4]}")


@in_folder
def bits_of_the_program(ctx, d):
    np, module = numpy(), caller(ctx)
    bundle = module.Bundle(build(ctx, d, FUNCTIONS))
    every = list(cases(np))
    for (name, args), want in zip(every, expected(ctx, np, d, every)):
        shapes = [a.shape for a in args]
        for _ in range(2):                              # the second call takes the short way where there is one
            same_bits(np, bundle.call(name, *args), want, f"{name}{shapes}")
    for (name, args), want in list(zip(every, expected(ctx, np, d, every)))[::3]:
        for k, x in enumerate(views(np, args[0])):
            same_bits(np, bundle.call(name, x, *args[1:]), want, f"{name}, view {k} of {args[0].shape}")
    line = np.arange(300, dtype=np.float32)
    same_bits(np, bundle.call("chain", np.broadcast_to(line[:1], (50,))), bundle.call("chain", np.repeat(line[:1], 50)), "stride 0")
    bundle.close()


@in_folder
def every_target_has_the_bits(ctx, d):
    """Code for several CPUs in one bundle; which one is used makes no difference."""
    np, module = numpy(), caller(ctx)
    folder = build(ctx, d, FUNCTIONS, "--target=base,v3,v4")
    for name in ("base", "v3", "v4"):
        if not list((folder / "objects" / name).glob("*.o")):
            raise Fail(f"no objects for {name}")
    every = [c for c in cases(np) if c[0] in ("chain", "rows", "affine", "pair")]
    want = list(expected(ctx, np, d, every))
    only = d / "only"
    for cpu in ("base", "v3"):
        shutil.rmtree(only, ignore_errors=True)
        shutil.copytree(folder, only)
        reseal(only, lambda m: m["target"].update(cpu=[cpu]))
        bundle = module.Bundle(only)
        for (name, args), w in zip(every, want):
            same_bits(np, bundle.call(name, *args), w, f"{name} for {cpu}")
        bundle.close()


@in_folder
def results_in_the_callers_memory(ctx, d):
    """Rows, turned, with gaps, at an odd place, and where an argument lies; by the long way and by the short one."""
    np, module = numpy(), caller(ctx)
    bundle = module.Bundle(build(ctx, d, FUNCTIONS))
    c, f = module.ctypes, bundle.function("chain")
    x = np.linspace(-2, 2, 50, dtype=np.float32)
    want = bundle.call("chain", x)[0]

    def into(given, room):
        a, keep = bundle.view(given)
        r = module.Array(data=room.ctypes.data, dtype=18, rank=1)
        r.shape[0], r.stride[0] = 50, room.strides[0] // 4
        bundle.check(bundle.lib.tsr_call(f, c.byref(a), 1, c.byref(r), 1))
        same_bits(np, (room.copy(),), (want,), f"strides {room.strides}")

    for _ in range(3):
        into(x, np.zeros(50, np.float32))
        into(x, np.zeros(100, np.float32)[::2])
        into(x, np.zeros(50, np.float32)[::-1])
        both = x.copy()
        into(both, both)
        over = np.zeros(60, np.float32)
        over[:50] = x
        into(over[:50], over[7:57])
    rows = np.random.default_rng(1).normal(size=(6, 9)).astype(np.float32)
    one, two, three = bundle.call("rows", rows)
    again = bundle.call("rows", rows)
    same_bits(np, again, (one, two, three), "rows again")
    bundle.close()


# ---- state, random numbers, prints

STATE = '''
count = zeros((), dtype=f32)
class Norm:
    def __init__(self): self.mean = zeros(3)
norm = Norm()

@export
def counted(x: Tensor["N", f32]):
    global count
    count = count + 1.0
    return x * count

@export
def peek(): return count, norm.mean

@export
def track(x: Tensor["B", 3]):
    norm.mean = norm.mean * 0.5 + x.mean(axis=0) * 0.5
    return x - norm.mean

@export
def noisy(x: Tensor["N"]): return x + random.normal((x.shape[0],))

random.seed(7)
early = random.normal(3)
'''

STATE_CALLS = '''
print(counted(ones(2)).tolist(), counted(ones(2)).tolist())
print(track(ones((2, 3))).tolist())
print([t.tolist() for t in peek()])
print(noisy(zeros(3)).tolist(), noisy(zeros(2)).tolist())
random.seed(11)
print(noisy(zeros(3)).tolist())
'''


@in_folder
def state_and_random_numbers(ctx, d):
    """The bundle goes on where the program ended: its state and its random numbers are those of further calls in the program."""
    np, module = numpy(), caller(ctx)
    bundle = module.Bundle(build(ctx, d, STATE, name="state"))
    (d / "calls.tsr").write_text(STATE + STATE_CALLS)
    want = run(ctx.tessera, "run", "calls.tsr", cwd=d).stdout
    one = lambda *n: np.ones(n, np.float32)
    zero = lambda n: np.zeros(n, np.float32)

    def calls():
        text = [f"{bundle.call('counted', one(2))[0].tolist()} {bundle.call('counted', one(2))[0].tolist()}"]
        text += [str(bundle.call("track", one(2, 3))[0].tolist()), str([t.tolist() for t in bundle.call("peek")])]
        text += [f"{json.dumps(bundle.call('noisy', zero(3))[0].tolist())} {json.dumps(bundle.call('noisy', zero(2))[0].tolist())}"]
        bundle.check(bundle.lib.tsr_seed(bundle.bundle, module.ctypes.c_uint64(11)))
        return text + [json.dumps(bundle.call("noisy", zero(3))[0].tolist())]

    floats = lambda text: np.array(re.findall(r"-?\d[\d.e-]*", text), np.float32).tobytes()
    expect(floats("\n".join(calls())), floats(want), "calls in turn")
    expect(bundle.weight("count").tolist(), 2.0, "state")
    bundle.check(bundle.lib.tsr_reset(bundle.bundle))
    expect(floats("\n".join(calls())), floats(want), "after tsr_reset")
    bundle.close()


@in_folder
def failed_calls_leave_state(ctx, d):
    np, module = numpy(), caller(ctx)
    bundle = module.Bundle(build(ctx, d, STATE + '''
@export
def careful(x: Tensor["N", f32], i: Tensor["M", int64]):
    global count
    count = count + 1.0
    return x[i] + random.normal((i.shape[0],))
''', name="state"))
    good, bad = np.array([0, 1]), np.array([0, 9])
    x = np.zeros(3, np.float32)
    first = bundle.call("careful", x, good)[0].tolist()
    bundle.check(bundle.lib.tsr_reset(bundle.bundle))
    try:
        bundle.call("careful", x, bad)
        raise Fail("an index out of range passed")
    except module.BundleError as e:
        expect((e.code, str(e)[:4]), (18, "B18:"), "index")
    expect(bundle.weight("count").tolist(), 0.0, "state after a failed call")
    expect(bundle.call("careful", x, good)[0].tolist(), first, "random numbers after a failed call")
    bundle.close()


@in_folder
def prints_the_same(ctx, d):
    """On a machine without the program, tessera run of the bundle prints what tessera run of the program does."""
    text = '''
w = random.normal((3, 2), key=random.key(4))

@export
def main():
    total = zeros(2)
    for i in range(3):
        total = total + w[i]
        print("row", i, w[i], total)
    print("done", total.sum())

@export
def apply(x: Tensor["N", 3, f32]): return tanh(x @ w) + 1.0
main()
'''
    folder = build(ctx, d, text, name="prog")
    want = run(ctx.tessera, "run", "prog.tsr", cwd=d).stdout
    with tempfile.TemporaryDirectory() as elsewhere:
        shutil.move(str(folder), elsewhere)
        (d / "prog.tsr").unlink()
        expect(run(ctx.tessera, "run", pathlib.Path(elsewhere) / "prog.tsb").stdout, want, "what the bundle prints")
        shown = run(ctx.tessera, "inspect", pathlib.Path(elsewhere) / "prog.tsb").stdout
    for word in ("graph: graphs/main.tgir", "function main() -> ()", "graph: graphs/apply.tgir", "schedules: ", "weight w: f32[3, 2]", "hash "):
        if word not in shown:
            raise Fail(f"inspect says nothing of {word!r}:\n{shown}")
    if not re.search(r"^kernels for (base|v3|v4): [1-9]\d* objects, [1-9]\d* bytes$", shown, re.M):
        raise Fail(f"inspect shows no code:\n{shown}")


@in_folder
def debug_builds_check(ctx, d):
    """--debug: the bundle names the operation and the index that are wrong, and says that it checks; a release build does not."""
    text = '''
@export
def chain(x: Tensor["N", f32]): return tanh(exp(x * 2.0) - log(x)) + 1.0
@export
def picked(x: Tensor["N", f32], i: Tensor["M", int64]): return x[i] * 2.0
'''
    for options, checks in (("--debug",), "bounds, races, sentinels"), ((), "none"):
        folder = build(ctx, d, text, *options, name="prog")
        shown = run(ctx.tessera, "inspect", folder).stdout
        expect(re.search(r"^checks: (.*)$", shown, re.M).group(1), checks, "the checks of a bundle")
        good = run(ctx.tessera, "run", folder, "chain", "[1.0, 2.0]").stdout
        expect(good, "Tensor([1.9999993, 2.0], shape=(2,), dtype=f32)\n", "what a bundle gives")
        bad = run(ctx.tessera, "run", folder, "chain", "[1.0, 0.0]", ok=not options)
        if options and "B21: chain: infinity produced by log" not in bad.stderr:
            raise Fail(f"a sentinel says nothing of the logarithm:\n{bad.stderr}")
        out = run(ctx.tessera, "run", folder, "picked", "[1.0, 2.0]", "[5]", ok=False)
        if "B18: picked: index 5 is out of range" not in out.stderr:
            raise Fail(f"an index out of range is no error:\n{out.stderr}")
    racy = '''
@kernel
def shift(x: Tensor["N", f32]):
    i = tile.local_id()
    if i + 1 < N:
        x[i] = x[i + 1]
x = arange(8).to(f32)
shift.launch(grid=1, block=8)(x)
@export
def same(x: Tensor["N", f32]): return x
'''
    (d / "racy.tsr").write_text(racy)
    run(ctx.tessera, "build", "racy.tsr", cwd=d)
    said = run(ctx.tessera, "build", "--debug", "racy.tsr", cwd=d, ok=False).stderr
    if "E0624" not in said:
        raise Fail(f"the race of the program is not told:\n{said}")


@in_folder
def kernels_are_there(ctx, d):
    """Small, usual and large sizes find their kernels in the bundle: nothing is compiled, and nothing runs op by op instead."""
    folder = build(ctx, d, FUNCTIONS + '''
@export
def attention(q: Tensor["B", "S", 8], k: Tensor["B", "T", 8], v: Tensor["B", "T", 8]):
    return softmax(q @ k.mT * 0.35, axis=-1) @ v + 1.0

@export
def layer(x: Tensor["B", 5]):
    h = gelu(x @ W + b)
    return (h - h.mean(axis=-1, keepdims=True)) / (h.var(axis=-1, keepdims=True) + 1e-5)

@export
def columns(x: Tensor["A", "B"]): return x.sum(axis=0) * 2.0, (x * x).mean(axis=1)
''')
    rows = lambda *s: json.dumps(eval("[" * len(s) + "0.5" + "".join(f"]*{n}" for n in reversed(s))))
    for name, shapes in (("chain", [(1,), (5,), (700,)]), ("rows", [(1, 1), (3, 40), (9, 700), (300, 2)]), ("affine", [(1, 5), (2, 5), (99, 5)]),
                         ("layer", [(1, 5), (8, 5), (33, 5)]), ("columns", [(1, 7), (7, 1), (30, 30), (3, 500)]), ("attention", [(1, 1, 8), (2, 7, 8), (3, 33, 8)])):
        for s in shapes:
            p = run(ctx.tessera, "run", "--stats", folder, name, *[rows(*s)] * (3 if name == "attention" else 1))
            m = re.search(r"made=0 launches=(\d+) op-by-op=(\d+)", p.stderr)
            if not m or int(m[2]) or not int(m[1]):
                raise Fail(f"{name}{s}: {p.stderr}")


@in_folder
def run_takes_json_and_npy(ctx, d):
    folder = build(ctx, d, FUNCTIONS)
    (d / "x.json").write_text("[1, 2, 3]")
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    (d / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<3f", 1, 2, 3))
    want = run(ctx.tessera, "run", folder, "chain", "[1, 2, 3]").stdout
    for arg in ("x.json", "x.npy"):
        expect(run(ctx.tessera, "run", folder, "chain", arg, cwd=d).stdout, want, arg)
    for args, said in ((("chain",), "takes 1 inputs, 0 are given"), (("nothing",), "has no function 'nothing'"), (("chain", "[1, [2]]"), "is no f32"),
                       (("chain", "x.txt"), "it is no JSON"), (("chain", "no.npy"), "No such file"), (("affine", "[[1]]"), "B15: x: axis 1 has size 1, expected 5")):
        p = run(ctx.tessera, "run", folder, *args, cwd=d, ok=False)
        if p.returncode not in (1, 2) or said not in p.stderr:
            raise Fail(f"{args}: {p.stderr!r} does not say {said!r}")


# ---- C


def compiler(ctx):
    cc = shutil.which("cc") or shutil.which("gcc")
    if not cc:
        raise Skip("there is no C compiler")
    return cc


def classifier(ctx, d):
    run(ctx.tessera, "build", ctx.root / "examples/bundle/classifier.tsr", "-o", "classifier.tsb", cwd=d)
    return d / "classifier.tsb"


@in_folder
def example_in_c(ctx, d):
    cc = compiler(ctx)
    classifier(ctx, d)
    run(cc, "-Wall", "-Wextra", "-Werror", "-I", "classifier.tsb", ctx.root / "examples/bundle/main.c", "-L", "classifier.tsb", "-lclassifier",
        "-Wl,-rpath,$ORIGIN/classifier.tsb", "-o", "main", cwd=d)
    expect(run("./main", cwd=d).stdout.splitlines(),
           ["(0, 0) is inside", "(0.5, 0.5) is inside", "(1, 1) is outside", "(-2, 0) is outside", "2 of 4", "2 of 8",
            "15, B15: x: axis 1 has size 4, expected 2"], "what main.c prints")


@in_folder
def example_in_python(ctx, d):
    module = caller(ctx)
    p = subprocess.run([os.sys.executable, module.__file__, classifier(ctx, d)], capture_output=True, text=True, timeout=60)
    expect(p.stdout.splitlines(), ["predict(x: f32[B, 2]) -> f32[B]", "[True, True, False, False]", "[False, False, True, True]",
                                   "B15: x: axis 1 has size 4, expected 2"], "what call.py prints")


@in_folder
def header_compiles_alone(ctx, d):
    cc = compiler(ctx)
    folder = build(ctx, d, FUNCTIONS)
    build(ctx, d, STATE, name="state")
    strict = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only")
    (d / "one.c").write_text(f'#include "{folder}/functions.h"\nint main(void) {{ return 0; }}\n')
    (d / "two.c").write_text(f'#include "{folder}/functions.h"\n#include "{d}/state.tsb/state.h"\nint main(void) {{ return 0; }}\n')
    for file in ("one.c", "two.c"):
        for std in ("c99", "c11", "c17"):
            run(cc, f"-std={std}", *strict, file, cwd=d)
        cxx = shutil.which("c++")
        for std in ("c++11", "c++17", "c++20") if cxx else ():
            run(cxx, f"-std={std}", *strict, "-x", "c++", file, cwd=d)


# Twice 4 threads: some calls are wrong, each must hear of its own mistakes and of no others'.
THREADS = r'''
#include "functions.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static tsr_bundle *bundle;

static void *work(void *arg)
{
    long me = (long)(intptr_t)arg;
    for (int round = 0; round < 300; round++) {
        float x[64], y[64], want[64];
        int64_t n = 1 + (me * 7 + round) % 60;
        char said[64];
        tsr_array a, r;
        for (int i = 0; i < n; i++)
            x[i] = (float)(me + i) * 0.01f;
        a = tsr_rows(TSR_F32, x, 1, &n);
        r = tsr_rows(TSR_F32, y, 1, &n);
        if (functions_chain(bundle, &a, &r))
            return (void *)tsr_message();
        memcpy(want, y, sizeof(float) * (size_t)n);
        a = tsr_rows(round % 2 ? TSR_F64 : TSR_F32, x, 1, &n);
        r.shape[0] = round % 2 ? n : n + me + 1;
        if (functions_chain(bundle, &a, &r) != (round % 2 ? TSR_DTYPE : TSR_RESULT))
            return "a wrong call passed";
        snprintf(said, sizeof said, "array for it %ld", (long)n + me + 1);
        if (!strstr(tsr_message(), round % 2 ? "x is f64" : said) || tsr_code() != (round % 2 ? TSR_DTYPE : TSR_RESULT))
            return "another thread's message";
        a = tsr_rows(TSR_F32, x, 1, &n);
        r = tsr_result();
        if (functions_chain(bundle, &a, &r) || *tsr_message() || memcmp(r.data, want, sizeof(float) * (size_t)n))
            return "other bits";
        tsr_release(&r);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[8];
    if (tsr_open(NULL, &bundle))
        return puts(tsr_message()), 1;
    for (long i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < 8; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        if (bad)
            return puts(bad), 1;
    }
    tsr_close(bundle);
    puts("done");
    return 0;
}
'''


@in_folder
def threads(ctx, d):
    cc = compiler(ctx)
    build(ctx, d, FUNCTIONS)
    (d / "threads.c").write_text(THREADS)
    run(cc, "-Wall", "-Wextra", "-I", "functions.tsb", "threads.c", "-L", "functions.tsb", "-lfunctions", "-Wl,-rpath,$ORIGIN/functions.tsb", "-pthread",
        "-o", "threads", cwd=d)
    expect(run("./threads", cwd=d).stdout, "done\n", "threads")


@in_folder
def two_bundles_in_one_process(ctx, d):
    np, module = numpy(), caller(ctx)
    a, b = module.Bundle(build(ctx, d, FUNCTIONS)), module.Bundle(build(ctx, d, STATE, name="state"))
    again = module.Bundle(d / "functions.tsb")
    x = np.ones(4, np.float32)
    want = a.call("chain", x)[0].tolist()
    for _ in range(2):
        expect(b.call("peek")[0].tolist(), 0.0, "the other bundle")
        expect(again.call("chain", x)[0].tolist(), want, "opened twice")
        a.close()
    b.close()
    again.close()


# ---- wrong calls


@in_folder
def wrong_calls_have_numbers(ctx, d):
    np, module = numpy(), caller(ctx)
    bundle = module.Bundle(build(ctx, d, FUNCTIONS))
    lib, c = bundle.lib, module.ctypes
    f32 = lambda *s: np.zeros(s, np.float32)

    def fails(code, said, name, *args):
        try:
            bundle.call(name, *args)
        except module.BundleError as e:
            if e.code != code or not str(e).startswith(f"B{code:02d}: ") or said not in str(e):
                raise Fail(f"{name}: {e.code} {e}, wanted {code} {said!r}") from None
            return
        raise Fail(f"{name} passed, wanted {code} {said!r}")

    fails(11, "has no function 'nothing'", "nothing")
    fails(12, "takes 1 arrays and gives 1", "chain")
    fails(13, "x is f64, expected f32", "chain", np.zeros(3))
    fails(14, "x has 2 axes, expected 1", "chain", f32(3, 3))
    fails(15, "x: axis 1 has size 4, expected 5", "affine", f32(2, 4))
    fails(15, "y: axis 0 has size 3, expected N = 2", "pair", np.zeros(2), np.zeros(3))
    fails(18, "", "picked", f32(3), np.array([7]))
    for change, code in ((dict(dtype=99), 13), (dict(rank=17), 14), (dict(rank=-1), 14), (dict(data=None), 1)):
        a, keep = bundle.view(f32(3))
        for k, v in change.items():
            setattr(a, k, v)
        out = module.Array()
        expect(lib.tsr_call(bundle.function("chain"), c.byref(a), 1, c.byref(out), 1), code, f"{change}")
    a, keep = bundle.view(f32(3))
    a.shape[0] = -3
    expect(lib.tsr_call(bundle.function("chain"), c.byref(a), 1, c.byref(module.Array()), 1), 1, "a size below zero")
    a.shape[0], a.stride[0] = 1 << 62, 1 << 62
    expect(lib.tsr_call(bundle.function("chain"), c.byref(a), 1, c.byref(module.Array()), 1), 1, "a size beyond all memory")
    expect(lib.tsr_call(None, None, 0, None, 0), 1, "no function")
    expect(lib.tsr_open(b"/nowhere", c.byref(c.c_void_p())), 3, "no folder")
    expect(lib.tsr_open(b"/nowhere", None), 1, "no place for the bundle")
    for change, said in ((dict(dtype=19), "is f32, the array for it f64"), (dict(rank=2), "has 1 axes, the array for it 2")):
        a, keep = bundle.view(f32(3))
        out, room = bundle.view(f32(3))
        for k, v in change.items():
            setattr(out, k, v)
        expect(lib.tsr_call(bundle.function("chain"), c.byref(a), 1, c.byref(out), 1), 17, said)
        if said not in lib.tsr_message().decode():
            raise Fail(lib.tsr_message())
    expect(lib.tsr_weight(bundle.bundle, b"W", c.byref(module.Array())), 0, "a weight")
    expect(lib.tsr_weight(bundle.bundle, b"V", c.byref(module.Array())), 11, "no such weight")
    a, keep = bundle.view(f32(5, 3))
    before = bundle.call("affine", np.ones((2, 5), np.float32))[0]
    expect(lib.tsr_set_weight(bundle.bundle, b"W", c.byref(a)), 0, "another weight")
    expect(bundle.call("affine", np.ones((2, 5), np.float32))[0].tolist(), [bundle.weight("b").tolist()] * 2, "its use")
    bundle.check(lib.tsr_reset(bundle.bundle))
    same_bits(np, bundle.call("affine", np.ones((2, 5), np.float32)), (before,), "after tsr_reset")
    a, keep = bundle.view(f32(3, 3))
    expect(lib.tsr_set_weight(bundle.bundle, b"W", c.byref(a)), 15, "a weight of another shape")
    bundle.close()


@in_folder
def guards(ctx, d):
    """Sizes that a function asks about: forms for those that it was staged for, B16 for all others."""
    np, module = numpy(), caller(ctx)
    bundle = module.Bundle(build(ctx, d, '''
@export(sizes=[{"N": 6}, {"N": 300}])
def sized(x: Tensor["N", f32]):
    if x.shape[0] > 200:
        return x * 3.0
    if x.shape[0] < 10:
        return x * 2.0
    raise ValueError("between")
'''))
    expect(bundle.call("sized", np.ones(5, np.float32))[0].tolist(), [2.0] * 5, "the first form")
    expect(bundle.call("sized", np.ones(201, np.float32))[0].tolist(), [3.0] * 201, "the second form")
    try:
        bundle.call("sized", np.ones(50, np.float32))
        raise Fail("sizes that no form serves passed")
    except module.BundleError as e:
        expect(e.code, 16, str(e))
        if "sized was not built for these sizes, but for where" not in str(e):
            raise Fail(str(e)) from None
    bundle.close()


# ---- what is in it


@in_folder
def the_runtime_part(ctx, d):
    """Below a megabyte, with nothing in it but libc and libm, and no compiler."""
    folder = build(ctx, d, FUNCTIONS)
    so = folder / "libfunctions.so"
    if so.stat().st_size >= 1_000_000:
        raise Fail(f"{so.stat().st_size} bytes")
    data = so.read_bytes()
    if b"LLVM" in data or b"llvm" in data:
        raise Fail("there is something of LLVM in it")
    if shutil.which("readelf"):
        needed = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", so).stdout)
        if set(needed) - {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0"}:
            raise Fail(f"it needs {needed}")
        names = re.findall(r"GLOBAL\s+DEFAULT\s+\d+ (\w+)", run("readelf", "--dyn-syms", "-W", so).stdout)
        if [n for n in names if not n.startswith("tsr_")]:
            raise Fail(f"it exports {[n for n in names if not n.startswith('tsr_')]}")


UNITS = """
A = arange(70 * 320).reshape(70, 320)
B = arange(320 * 48).reshape(320, 48)

@export
def bytes_of(x: Tensor["M", 320, int8]): return (x @ (B % 251 - 125).to(int8)).to(int32)

@export
def halves_of(x: Tensor["M", 320, f32]): return (x.to(bf16) @ (B % 7 - 3).to(bf16)).to(f32)

x = A % 13 - 6
print((bytes_of(x.to(int8)) * 1.0).sum().item(), halves_of(x.to(f32)).sum().item())
"""


@in_folder
def matrix_units(ctx, d):
    """CG-05: the library of a bundle has the units' instructions, and others for machines without; whole numbers have the same values by all of them."""
    if not shutil.which("objdump"):
        raise Skip("no objdump")
    folder = build(ctx, d, UNITS, "--mode=fast-math")
    library = next(folder.glob("lib*.so"))
    text = run("objdump", "-d", "--no-show-raw-insn", library).stdout
    for op in ("tdpbf16ps", "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud", "vdpbf16ps", "vpdpbusd", "vfmadd231ps"):
        if op not in text:
            raise Fail(f"{library.name} has no {op}")
    np, module = numpy(), caller(ctx)
    bundle, x, b = module.Bundle(folder), np.arange(70 * 320).reshape(70, 320) % 13 - 6, np.arange(320 * 48).reshape(320, 48)
    expect(bundle.call("bytes_of", x.astype(np.int8))[0].tolist(), (x @ (b % 251 - 125)).astype(np.int8).tolist(), "bytes")
    expect(bundle.call("halves_of", x.astype(np.float32))[0].shape, (70, 48), "halves")
    said = {cpu: run(ctx.tessera, "run", "--mode=fast-math", d / "functions.tsr", env={"TESSERA_CPU": cpu}).stdout for cpu in ("base", "v3", "v4")}
    expect(set(said.values()), {said["base"]}, "instruction sets")


@in_folder
def two_builds_are_the_same_bytes(ctx, d):
    for name in ("one", "two/deeper"):
        (d / name).mkdir(parents=True)
        build(ctx, d / name, FUNCTIONS, "--target=base,v3,v4")
    files = lambda f: {str(p.relative_to(f)): p.read_bytes() for p in f.rglob("*") if p.is_file()}
    one, two = files(d / "one/functions.tsb"), files(d / "two/deeper/functions.tsb")
    expect(sorted(one), sorted(two), "files")
    if differ := [k for k in one if one[k] != two[k]]:
        raise Fail(f"differ: {differ}")
    if b"/one/" in one["manifest.json"]:
        raise Fail("the manifest says where it was built")


@in_folder
def the_manifest(ctx, d):
    folder = build(ctx, d, FUNCTIONS, "--target=v3")
    m = json.loads((folder / "manifest.json").read_text())
    f = {x["name"]: x for x in m["functions"]}
    expect(f["affine"]["signature"], "affine(x: f32[N, 5]) -> f32[N, 3]", "signature")
    expect(f["affine"]["parameters"], [{"name": "x", "dtype": "f32", "shape": ["N", 5]}], "parameters")
    expect([p["name"] for p in f["tree"]["parameters"]], ["p.w", "p.layers.0", "p.layers.1", "x"], "a tree of parameters")
    expect([r["name"] for r in f["pair"]["results"]], ["result.sum", "result.apart.0", "result.apart.1"], "a tree of results")
    expect(m["target"], {"arch": "x86_64", "cpu": ["v3"]}, "target")
    on_disk = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {"manifest.json"}
    expect({x["path"] for x in m["files"]}, on_disk, "files")
    for x in m["files"]:
        data = (folder / x["path"]).read_bytes()
        expect((x["bytes"], x["sha256"]), (len(data), hashlib.sha256(data).hexdigest()), x["path"])
    head = (folder / "weights.safetensors").read_bytes()
    names = json.loads(head[8:8 + struct.unpack("<Q", head[:8])[0]])
    expect(set(names) - {"__metadata__"}, {w["name"] for w in m["weights"]}, "weights")


@in_folder
def only_bundles_are_replaced(ctx, d):
    build(ctx, d, STATE, name="state")
    first = (d / "state.tsb/manifest.json").read_bytes()
    build(ctx, d, STATE.replace("0.5", "0.25"), name="state")
    if (d / "state.tsb/manifest.json").read_bytes() == first:
        raise Fail("the bundle was not replaced")
    (d / "other.tsb").mkdir()
    (d / "other.tsb/letter").write_text("dear")
    p = run(ctx.tessera, "build", "state.tsr", "-o", "other.tsb", cwd=d, ok=False)
    if p.returncode != 1 or "is there and no bundle" not in p.stderr or (d / "other.tsb/letter").read_text() != "dear":
        raise Fail(p.stderr)
    left = sorted(p.name for p in d.iterdir())
    expect(left, ["other.tsb", "state.tsb", "state.tsr"], "what is left")


# ---- damage


def seal(text):
    """A manifest's bytes up to its hash, with the hash."""
    return text + f'"manifest_sha256": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'


def reseal(folder, change):
    """Change the manifest as someone would who knows how it is sealed."""
    m = json.loads((folder / "manifest.json").read_text())
    del m["manifest_sha256"]
    change(m)
    (folder / "manifest.json").write_text(seal(json.dumps(m)[:-1] + ", "))


def opens(ctx, folder):
    """The number of the error that opening the bundle gives."""
    p = run(ctx.tessera, "run", folder, "chain", "[1]", ok=False)
    m = re.match(r"error: .*?: B(\d\d): .", p.stderr)
    if not m or p.returncode != 1:
        raise Fail(f"{folder.name}: exit code {p.returncode}: {p.stderr!r} {p.stdout!r}")
    return int(m[1])


@in_folder
def damage(ctx, d):
    """Every file, with a byte changed, cut off, longer, missing: nothing of it is used."""
    folder = build(ctx, d, FUNCTIONS, "--target=native")
    used = [f for f in sorted(folder.rglob("*")) if f.is_file() and f.suffix not in (".h", ".so")]
    for f in used:
        data = f.read_bytes()
        for k, bad in enumerate((data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:], data[:-1], data[:3], b"", data + b"\n", None)):
            if bad is None:
                f.unlink()
                if f.name == "manifest.json":           # then it is no bundle
                    f.write_bytes(data)
                    continue
            else:
                f.write_bytes(bad)
            code = opens(ctx, folder)
            wanted = (3,) if bad is None else (4, 5, 7) if f.name == "manifest.json" else (7,)
            if code not in wanted:
                raise Fail(f"{f.name}, damage {k}: B{code:02d}, wanted one of {wanted}")
            f.write_bytes(data)
    run(ctx.tessera, "run", folder, "chain", "[1]")
    (folder / "functions.h").write_text("")
    p = run(ctx.tessera, "inspect", folder, ok=False)
    if p.returncode != 1 or "functions.h: hash mismatch" not in p.stdout or "B07" not in p.stderr:
        raise Fail(p.stdout + p.stderr)


def first(m, name="chain"):
    return next(f for f in m["functions"] if f["name"] == name)


# What is wrong with a manifest that is sealed well, and the number that says so.
MANIFESTS = (
    ("format 2", lambda m: m.update(tessera_bundle=2), 5),
    ("no format", lambda m: m.pop("tessera_bundle"), 4),
    ("format in words", lambda m: m.update(tessera_bundle="one"), 4),
    ("no name", lambda m: m.pop("name"), 4),
    ("another machine", lambda m: m["target"].update(arch="aarch64"), 6),
    ("no machine", lambda m: m.pop("target"), 6),
    ("a CPU of the future", lambda m: m["target"].update(cpu=["v9"]), 6),
    ("no CPU", lambda m: m["target"].update(cpu=[]), 6),
    ("no seed", lambda m: m.pop("random"), 4),
    ("a seed of words", lambda m: m["random"].update(seed="zoo"), 4),
    ("draws below zero", lambda m: m["random"].update(draws=-1), 4),
    ("no functions", lambda m: m.update(functions=[]), 4),
    ("functions of numbers", lambda m: m.update(functions=[1, 2]), 4),
    ("functions as text", lambda m: m.update(functions="all"), 4),
    ("functions in another order", lambda m: m["functions"].reverse(), 4),
    ("a function twice", lambda m: m["functions"].insert(0, m["functions"][0]), 4),
    ("a function without forms", lambda m: first(m).update(forms=[]), 4),
    ("a parameter too many", lambda m: first(m)["parameters"].append({"name": "z", "dtype": "f32", "shape": []}), 9),
    ("a result too few", lambda m: first(m).update(results=[]), 9),
    ("a form without a graph", lambda m: first(m)["forms"][0].pop("graph"), 4),
    ("another function's graph", lambda m: first(m)["forms"][0].update(graph="graphs/pair.tgir"), 9),
    ("a graph that is a header", lambda m: first(m)["forms"][0].update(graph="functions.h"), 9),
    ("a graph outside", lambda m: first(m)["forms"][0].update(graph="../../etc/passwd"), 4),
    ("a graph that is not listed", lambda m: first(m)["forms"][0].update(graph="graphs/none.tgir"), 4),
    ("captures that are missing", lambda m: first(m)["forms"][0].pop("captures"), 4),
    ("a weight that is missing", lambda m: first(m)["forms"][0].update(captures=["no"]), 10),
    ("captures too many", lambda m: first(m)["forms"][0].update(captures=["W"]), 9),
    ("stores too many", lambda m: first(m)["forms"][0].update(stores=["W"]), 9),
    ("captures of another shape", lambda m: first(m, "affine")["forms"][0].update(captures=["b", "W"]), 9),
    ("no kernels' objects", lambda m: m["kernels"][0].pop("objects"), 4),
    ("a kernel's key in words", lambda m: m["kernels"][0].update(key="hello"), 4),
    ("a kernel that is a graph", lambda m: m["kernels"][0]["objects"].update({c: "graphs/pair.tgir" for c in m["target"]["cpu"]}), 8),
    ("a file outside", lambda m: [f.update(path="../" + f["path"]) for f in m["files"]], 10),
    ("a file's size as text", lambda m: [f.update(bytes="9") for f in m["files"]], 4),
    ("no files", lambda m: m.update(files=[]), 10),
    ("files' hashes exchanged", lambda m: [f.update(sha256="0" * 64) for f in m["files"]], 7),
)


@in_folder
def manifests(ctx, d):
    folder = build(ctx, d, FUNCTIONS)
    whole = (folder / "manifest.json").read_bytes()
    reseal(folder, lambda m: None)
    run(ctx.tessera, "run", folder, "chain", "[1]")
    for what, change, code in MANIFESTS:
        (folder / "manifest.json").write_bytes(whole)
        reseal(folder, change)
        got = opens(ctx, folder)
        if got != code:
            raise Fail(f"{what}: B{got:02d}, wanted B{code:02d}")
    for text in (b"", b"{}", b"[]", b"null", b"{\"tessera_bundle\": 1}", b"\xff\xfe", b"{" * 100000, whole[:-20], whole + b" "):
        (folder / "manifest.json").write_bytes(text)
        if opens(ctx, folder) not in (4, 7):
            raise Fail(f"{text[:40]!r}")


def documented(ctx):
    """docs/bundles.md lists every number of errors.def, in its words."""
    rows = re.findall(r'^FAULT\((\w+),\s*(\d+),\s*"([^"]+)"\)', (ctx.root / "src/bundle/errors.def").read_text(), re.M)
    page = (ctx.root / "docs/bundles.md").read_text()
    for name, number, text in rows:
        if not re.search(rf"\| B{int(number):02d} \| `TSR_{name}` \| {re.escape(text)}", page):
            raise Fail(f"B{int(number):02d} TSR_{name}: {text}")


SAVES = """
import sys

class Net(Module):
    def __init__(self):
        self.a, self.b = Linear(4, 8), Linear(8, 3)

    def forward(self, x: Tensor["B", 4]):
        return softmax(self.b(relu(self.a(x))))

class Other(Net):
    def forward(self, x: Tensor["B", 4]):
        return self.b(tanh(self.a(x)))

random.seed(5)
net = Net()
x = arange(20.0).reshape(5, 4) / 7.0
told = {"version": "1.0", "requirements": {"memory": "8GB", "compute": "7.0"}, "performance": {"throughput": "1M tokens/sec"}}
"""


@in_folder
def models_are_saved(ctx, d):
    """tessera.save and load: bits of the model, in this program and in one that does not have it; metadata; one file of it damaged."""
    (d / "save.tsr").write_text(SAVES + 'tessera.save(net, "net.tsb", metadata=told)\nm = tessera.load("net.tsb")\n'
                                'print(net(x).tolist())\nprint(m(x).tolist() == net(x).tolist(), m(x[:1]).tolist() == net(x[:1]).tolist(), m.metadata == told)\n')
    (d / "use.tsr").write_text('m = tessera.load("net.tsb")\nprint(m(arange(20.0).reshape(5, 4) / 7.0).tolist())\nprint(m)\n')
    (d / "model.tsr").write_text("")
    want = run(ctx.tessera, "run", "save.tsr", cwd=d).stdout.splitlines()
    expect(want[1], "True True True", "in the program")
    (d / "save.tsr").unlink()
    for backend in ("auto", "cpu", "eval"):
        got = run(ctx.tessera, "run", f"--backend={backend}", "use.tsr", cwd=d).stdout.splitlines()
        expect(got, [want[0], "SavedModel('net.tsb', main(x: f32[B, 4]) -> f32[B, 3])"], f"elsewhere, {backend}")
    info = run(ctx.tessera, "bundle", "info", "net.tsb", cwd=d).stdout
    for line in ("metadata version: 1.0", "metadata requirements.memory: 8GB", "metadata requirements.compute: 7.0",
                 "metadata performance.throughput: 1M tokens/sec", "graph_version 1", "    graph: graphs/main.tgir where 3*B >= 1", "weight self.a.weight: f32[4, 8]"):
        if line not in info.splitlines():
            raise Fail(f"bundle info lacks {line!r}:\n{info}")
    if not re.search(r"^    schedules: ", info, re.M) or not re.search(r"^kernels for v\d: \d+ objects", info, re.M):
        raise Fail(info)


KERNELS = """
from tessera.stdlib import flash_attention, fused_softmax

@kernel.schedule(Schedule(block_m=16, block_n=16, block_k=8))
def product(A: Tensor["M", "K", f32], B: Tensor["K", "N", f32], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK]), tile.load(B[k:k+BK, block_n:block_n+BN]), acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], maximum(acc, 0.0))

W = random.normal((4, 4), key=random.key(1))

@kernel
def outside(x: Tensor["N", 4, f32], y: Tensor["N", 4, f32], scale: float):
    i = tile.linear_id()
    if i < N * 4:
        acc = 0.0
        for k in range(4):
            acc += x[i // 4, k] * W[k, i % 4]
        y[i // 4, i % 4] = acc * scale

@kernel
def tile_sums(x: Tensor["M", "N", f32], y: Tensor["M", "T", f32]):
    r, c = tile.group_id() // T, tile.group_id() % T
    j = c * 32 + tile.local_id()
    s = tile.warp.reduce_sum(x[r, j] if j < N else 0.0)
    if tile.local_id() == 0:
        y[r, c] = s

@kernel
def total(x: Tensor["N", f32], y: Tensor[1, f32], by: int):
    i = tile.linear_id() * by
    if i < N:
        tile.atomic_add(y, 0, x[i])

def matrices(A: Tensor["K", "M", f32], B: Tensor["K", "N", f32]):
    C = zeros((A.shape[1], B.shape[1]))
    product(A.T, B, C)
    return C

def lines(x: Tensor["N", 4, f32], by: Tensor[1, f32]):
    y = zeros_like(x)
    outside(x, y, by[0])
    return y, grown(y)

@jit
def grown(y):
    outside(y, y, 1.5)
    return y

def sums(x: Tensor["M", "N", f32]):
    t = (x.shape[1] + 31) // 32
    y = zeros((x.shape[0], t))
    tile_sums.launch(grid=(x.shape[0] * t,), block=32)(x, y)
    return y

def each(x: Tensor["B", "N", f32]):
    def one(r):
        y = zeros(1)
        total.launch(grid=(r.shape[0] + 63) // 64, block=64)(r, y, 2)
        return y[0]
    return vmap(one)(x)

def rounds(x: Tensor["N", 4, f32]):
    def step(c, _):
        y = zeros_like(c)
        outside(c, y, 0.25)
        return y, y.sum()
    return scan(step, x, arange(3))

def attend(q: Tensor["B", 2, "S", 8, f32], k: Tensor["B", 2, "S", 8, f32], v: Tensor["B", 2, "S", 8, f32]):
    return flash_attention(q, k, v, causal=True), fused_softmax(q)

def calls(m):
    out = []
    for n in [1, 2, 5, 40, 130]:
        x = (arange(n * 12).to(f32) * 0.37 % 1.0 - 0.5)
        a = x.reshape(3, n, 4).permute(1, 0, 2)
        q = x.reshape(n, 12)[:, :8].reshape(1, 1, n, 8).broadcast_to((3, 2, n, 8))
        out.append(m["matrices"](x.reshape(n, 12), x.reshape(12, n).T))
        out.append(m["lines"](x.reshape(3 * n, 4), tensor([0.5])))
        out.append(m["sums"](x.reshape(3, 4 * n)))
        out.append(m["sums"](x.reshape(4, 3 * n).T))
        out.append(m["each"](x.reshape(3, 4 * n)))
        out.append(m["rounds"](x.reshape(3 * n, 4)))
        out.append(m["attend"](q, q * 0.5, q + 1.0))
    return tree_map(lambda t: t.tolist(), out)
"""


@in_folder
def kernels_of_programs(ctx, d):
    """Functions that launch kernels: the bits of the program in a process that has neither it nor a compiler, for any sizes and operands that lie anyhow."""
    functions = "dict(matrices=matrices, lines=lines, sums=sums, each=each, rounds=rounds, attend=attend)"
    (d / "save.tsr").write_text(KERNELS + f'tessera.save({functions}, "k.tsb")\nprint(calls({functions}))\n')
    (d / "use.tsr").write_text("def calls(m):" + KERNELS.split("def calls(m):")[1] +
                               'm = tessera.load("k.tsb")\nprint(calls({n: getattr(m, n) for n in "matrices lines sums each rounds attend".split()}))\n')
    want = run(ctx.tessera, "run", "--backend=oracle", "save.tsr", cwd=d).stdout
    (d / "save.tsr").unlink()
    got = run(ctx.tessera, "run", "--backend=eval", "use.tsr", cwd=d).stdout
    if not want or got != want:
        raise Fail(f"the bundle gives {got[:300]}\nthe program {want[:300]}")
    for f in ("matrices", "sums", "rounds"):
        text = (d / f"k.tsb/graphs/{f}.tgir").read_text()
        if "launch(" not in text or "==" in text.split("{")[0]:
            raise Fail(f"{f} is not for all sizes:\n{text[:500]}")


RETURNING = """
@kernel.schedule(Schedule(block=(16, 16)))
def half(x: Tile["M", "N", f32]):
    return x * 0.5

@kernel.schedule(Schedule(block=(16, 16), block_k=8))
def product(A: Tile["M", "K", f32], B: Tile["K", "N", f32]) -> Tile["M", "N", f32]:
    return tile.dot(A, B)

@kernel
def total(x: Tensor["N", f32]):
    s = 0.0
    for i in range(N):
        s += x[i]
    return s

@kernel.schedule(Schedule(block=(8, 8)))
def both(x: Tile["M", "N", f32]):
    return x * 2.0, -x

def halves(x: Tensor["M", "N", f32]):
    return half(half(x) + 1.0)

def products(a: Tensor[20, 12, f32], b: Tensor[12, 40, f32]):
    return product(a, b) - 1.0

def totals(x: Tensor["N", f32]):
    return total(x) * 2.0

@kernel.schedule(Schedule(block=(16, 8)))
def rows_scaled(x: Tile["M", 12, f32], y: Tile[12, "N", f32], w: Tensor[12, f32]):
    s = (x * tile.load(w[0:12])[None, :]).sum(dim=1)
    return tile.dot(x, y) + s[:, None]

def scaled(x: Tensor["M", 12, f32], y: Tensor[12, "N", f32]):
    return rows_scaled(x, y, arange(12).to(f32))

def pairs(x: Tensor["M", "N", f32]):
    a, b = both(x)
    return a + b, b

def calls(m):
    out = []
    for n in [1, 2, 15, 16, 17, 40, 130]:
        x = (arange(n * 12).to(f32) * 0.37 % 1.0 - 0.5)
        out.append(m["halves"](x.max() + arange(480).to(f32).reshape(40, 12)))
        out.append(m["halves"](x.reshape(n, 12)))
        out.append(m["halves"](x.reshape(12, n)))
        out.append(m["pairs"](x.reshape(3, 4 * n)))
        out.append(m["scaled"](x.reshape(n, 12), x.reshape(12, n)))
        out.append(m["products"](x.sum() + ones((20, 12)), x.max() * ones((12, 40))))
        out.append(m["totals"](x))
        out.append(m["pairs"](x.max() * arange(396).to(f32).reshape(33, 12).T))
    return tree_map(lambda t: (t.shape, t.tolist()) if is_tensor(t) else t, out)
"""


@in_folder
def kernels_that_return(ctx, d):
    """Tiles and numbers that kernels return are results of a bundle's functions, with the bits of the program."""
    functions = "dict(halves=halves, products=products, totals=totals, pairs=pairs, scaled=scaled)"
    (d / "save.tsr").write_text(RETURNING + f'tessera.save({functions}, "k.tsb")\nprint(calls({functions}))\n')
    (d / "use.tsr").write_text("def calls(m):" + RETURNING.split("def calls(m):")[1] +
                               'm = tessera.load("k.tsb")\nprint(calls({n: getattr(m, n) for n in "halves products totals pairs scaled".split()}))\n')
    want = run(ctx.tessera, "run", "--backend=oracle", "save.tsr", cwd=d).stdout
    (d / "save.tsr").unlink()
    got = run(ctx.tessera, "run", "--backend=eval", "use.tsr", cwd=d).stdout
    if not want or got != want:
        raise Fail(f"the bundle gives {got[:300]}\nthe program {want[:300]}")
    for f in ("halves", "pairs", "scaled"):
        expect([g.name for g in sorted((d / "k.tsb/graphs").glob(f"{f}*"))], [f"{f}.tgir"], "forms of a function for all sizes")


SUMMED = """
@kernel.schedule(Schedule(block=(16, 16)))
def shares(x: Tile["M", "N", f32]):
    return x / x.sum(dim=1, keepdim=True)

@export(sizes=[{"M": 40, "N": 40}])
def f(x: Tensor["M", "N", f32]):
    return shares(x)

g = lambda x: shares(x)
"""


@in_folder
def what_blocks_reach_over(ctx, d):
    """A kernel that shows how far its blocks reach over the ends of its tensors is not run for sizes where the program has other blocks."""
    (d / "s.tsr").write_text(SUMMED)
    run(ctx.tessera, "build", "s.tsr", "-o", "s.tsb", cwd=d)
    for m, n in ((20, 17), (40, 33)):
        (d / "p.tsr").write_text(SUMMED + f"print(g(ones(({m}, {n}))).tolist())\n")
        want = run(ctx.tessera, "run", "p.tsr", cwd=d).stdout
        got = run(ctx.tessera, "run", "s.tsb", "f", str([[1.0] * n] * m), cwd=d).stdout
        if not got.startswith("Tensor([[" + want[2:20]):
            raise Fail(f"{m}x{n}: {got[:200]}, not {want[:200]}")
    p = run(ctx.tessera, "run", "s.tsb", "f", str([[1.0] * 4] * 3), cwd=d, ok=False)
    if p.returncode != 1 or "B16" not in p.stderr or "N >= 17" not in p.stderr:
        raise Fail(p.stdout + p.stderr)


@in_folder
def damaged_models_are_refused(ctx, d):
    """What is not there is named; one byte of any file that differs is a hash mismatch."""
    (d / "save.tsr").write_text(SAVES + 'tessera.save(net, "net.tsb")\n')
    run(ctx.tessera, "run", "save.tsr", cwd=d)
    (d / "use.tsr").write_text('try:\n    tessera.load("net.tsb")\n    print("opened")\nexcept Exception as e:\n    print(type(e).__name__, e)\n')
    for f in sorted((d / "net.tsb").rglob("*")):
        if f.is_file() and f.name != "manifest.json" and not f.name.endswith((".h", ".so")):
            whole = f.read_bytes()
            for at in (0, len(whole) // 2, len(whole) - 1):
                f.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
                said = run(ctx.tessera, "run", "use.tsr", cwd=d).stdout
                if not said.startswith("ValueError net.tsb: B07: hash mismatch: "):
                    raise Fail(f"{f.name}, byte {at}: {said}")
            f.write_bytes(whole)
    expect(run(ctx.tessera, "run", "use.tsr", cwd=d).stdout, "opened\n", "mended again")
    (d / "use.tsr").write_text('tessera.load("gone/net.tsb")\n')
    p = run(ctx.tessera, "run", "use.tsr", cwd=d, ok=False)
    if p.returncode != 1 or "FileNotFoundError: gone/net.tsb: B03" not in p.stderr:
        raise Fail(p.stderr)
    p = run(ctx.tessera, "run", "-e", 'tessera.load("use.tsr")', cwd=d, ok=False)
    if "ValueError: use.tsr is a file, and what save keeps is a folder" not in p.stderr:
        raise Fail(p.stderr)


@in_folder
def graph_versions(ctx, d):
    """graph_version goes on when the graphs differ, not when only weights do; asking for another one names both."""
    (d / "save.tsr").write_text(SAVES + """
for model, scale in ((net, 1.0), (net, 2.0), (Other(), 1.0), (Other(), 3.0), (net, 1.0)):
    model.a.weight = model.a.weight * scale
    tessera.save(model, "net.tsb", metadata={"scale": scale})
    print(tessera.load("net.tsb").graph_version, tessera.load("net.tsb", graph_version=tessera.load("net.tsb").graph_version).metadata["scale"])
try:
    tessera.load("net.tsb", graph_version=1)
except ValueError as e:
    print(e)
""")
    said = run(ctx.tessera, "run", "save.tsr", cwd=d).stdout.splitlines()
    expect(said, ["1 1.0", "1 2.0", "2 1.0", "2 3.0", "3 1.0", "net.tsb: graph_version 1 is wanted, and it has 3"], "versions")


OPTIMIZED = """
class Net(Module):
    def __init__(self):
        self.a, self.b = Linear(16, 64), Linear(64, 10)

    def forward(self, x: Tensor["B", 16]):
        return softmax(self.b(relu(self.a(x) * (2.0 - 1.0))) * 2.0)

random.seed(1)
net = Net()
known = ["graph_optimization", "kernel_fusion", "memory_planning", "fp8_quantization"]
x = random.normal((8, 16))
"""


@in_folder
def models_are_optimized(ctx, d):
    """tessera.optimize: what each optimisation changed, results within fp8's reach; four specialisations in a bundle, which runs them without compiling."""
    (d / "save.tsr").write_text(OPTIMIZED + """
o = tessera.optimize(net, target="server", optimizations=known)
print((o(x) - net(x)).abs().max().item() < 5e-2, o(x).tolist() != net(x).tolist())
print(sorted(o.report().items(), key=lambda r: known.index(r[0])) and all([n > 0 for name, n in o.report().items() if name != "graph_optimization"]))
plain = tessera.optimize(net, target="server", optimizations=["kernel_fusion"])
print(plain(x).tolist() == net(x).tolist(), list(plain.report()))
for batch_size in [1, 8, 32, 128]:
    o.compile(batch_size=batch_size)
tessera.save(o, "net.tsb", metadata={"version": "1.0"})
print(o(x).tolist())
for wrong in (lambda: tessera.optimize(net, target="server", optimizations=["magic"]), lambda: tessera.optimize(net, target="toaster"), lambda: o.compile(0)):
    try:
        wrong()
    except ValueError as e:
        print(e)
""")
    said = run(ctx.tessera, "run", "save.tsr", cwd=d).stdout.splitlines()
    expect(said[0], "True True", "fp8")
    expect([l.split(":")[0] for l in said[1:5]], ["graph_optimization", "kernel_fusion", "memory_planning", "fp8_quantization"], said)
    expect(said[4], "fp8_quantization: 2 changed", said)
    want = [l for l in said if l.startswith("[[")][0]
    expect(said[-3:], ["unknown optimization 'magic'; known: graph_optimization, kernel_fusion, memory_planning, fp8_quantization",
                       "target is server; there is no back end for 'toaster' here", "batch_size is a positive int, not 0"], "errors")
    manifest = json.loads((d / "net.tsb/manifest.json").read_text())
    expect([f["name"] for f in manifest["functions"]], ["main_b1", "main_b128", "main_b32", "main_b8"], "specialisations")
    (d / "use.tsr").write_text(OPTIMIZED + 'm = tessera.load("net.tsb")\nprint(m(x).tolist())\ntry:\n    m(x[:5])\nexcept TypeError as e:\n    print(e)\n')
    p = run(ctx.tessera, "run", "--stats", "--backend=cpu", "use.tsr", cwd=d, env={"TESSERA_CACHE": ""})
    expect(p.stdout.splitlines(), [want, "net.tsb is for batches of 1, 8, 32, 128"], "elsewhere")
    if not re.search(r"kernels made=0 |^$", p.stderr) and "compiles" in p.stderr:
        raise Fail(p.stderr)


@in_folder
def functions_are_saved(ctx, d):
    """A function with an example, several by name, several results, what cannot be kept; not inside of jit."""
    (d / "save.tsr").write_text("""
def f(x, y): return x * 2.0 + y.sum(), y
def g(x: Tensor["N"]): return x.sum()
def h(x): return x
tessera.save(f, "f.tsb", example=(ones((2, 3)), ones(4)))
tessera.save({"g": g, "twice": jit(g)}, "g.tsb")
m, n = tessera.load("f.tsb"), tessera.load("g.tsb")
print([t.tolist() for t in m(ones((2, 3)), arange(4.0))], n.g(arange(5.0)).item(), n.twice(ones(2)).item(), n.functions)
for wrong in (lambda: n(ones(2)), lambda: m(ones((2, 4)), ones(4)), lambda: n.other, lambda: tessera.save(h, "h.tsb"), lambda: tessera.save(3, "h.tsb"),
              lambda: jit(n.g)(ones(2)), lambda: m(ones((2, 3)))):
    try:
        wrong()
        print("nothing said")
    except Exception as e:
        print(type(e).__name__, str(e)[:60])
""")
    said = run(ctx.tessera, "run", "save.tsr", cwd=d).stdout.splitlines()
    expect(said[0], "[[[8.0, 8.0, 8.0], [8.0, 8.0, 8.0]], [0.0, 1.0, 2.0, 3.0]] 10.0 2.0 ['g', 'twice']", "results")
    expect([l.split()[0] for l in said[1:]], ["TypeError", "ValueError", "AttributeError", "ValueError", "TypeError", "TypeError", "ValueError"], said)


@in_folder
def variants(ctx, d):
    """--arch: a function that asks for its device has a graph for each, of which the one of the device at hand runs."""
    text = """
w, v = ones((4, 4)) * 0.5, ones((4, 4)) * 0.25

def attention_v1(x): return softmax(x @ w, axis=-1)
def attention_v2(x): return tanh(x @ v)

@export
@tessera.specialize_for("A100", "H100")
def attention(x: Tensor["B", 4, f32]) -> Tensor["B", 4, f32]:
    if tessera.current_device() == "A100":
        return attention_v1(x)
    else:  # H100
        return attention_v2(x)

@export
def double(x: Tensor["B", 4, f32]) -> Tensor["B", 4, f32]: return x @ w
"""
    folder = build(ctx, d, text, "--arch=sm_80,sm_90", name="att")
    shown = run(ctx.tessera, "inspect", folder).stdout
    expect(re.findall(r"^variant (.*)$", shown, re.M), ["sm_80 for A100", "sm_90 for H100"], shown)
    first, second = ("".join(f.read_text() for f in folder.glob(f"graphs/attention.{arch}*")) for arch in ("sm_80", "sm_90"))
    expect(["= tanh(" in first, "= exp(" in first, "= tanh(" in second, "= exp(" in second], [False, True, True, False], first + second)
    expect(sorted(f.name for f in folder.glob("graphs/double*")), ["double.tgir"], "what does not ask for its device is there once")
    call = lambda device, at=folder: run(ctx.tessera, "run", at, "attention", "[[1.0, 0.0, 2.0, 3.0]]", env={"TESSERA_FAKE_DEVICE": device} if device else None).stdout
    for device in ("A100", "H100"):
        (d / "say.tsr").write_text(text + "print(attention(tensor([[1.0, 0.0, 2.0, 3.0]])))\n")
        expect(call(device), run(ctx.tessera, "run", d / "say.tsr", env={"TESSERA_FAKE_DEVICE": device}).stdout, device)
    expect([call("NVIDIA A100-SXM4-80GB"), call("T4"), call(None)], [call("A100")] * 3, "a device that no variant is for has the first")
    if call("A100") == call("H100"):
        raise Fail("both variants give the same")
    one = build(ctx, d, text, "--arch=sm_90", name="one")
    expect([sorted(f.name for f in one.glob("graphs/*")), call("A100", one)], [["attention.tgir", "double.tgir"], call("H100")], "one architecture")
    for options, program, said in ((["--arch=sm_81"], text, "--arch takes sm_70"),
                                   (["--arch=sm_80,sm_90"], text.replace("* 0.5,", "* (0.5 if current_device() == 'A100' else 0.7),"), "the weight w depends on the device"),
                                   (["--arch=sm_80"], text.replace('"H100")', '"H10O")'), "there is no model 'H10O' of a GPU")):
        (d / "bad.tsr").write_text(program)
        p = run(ctx.tessera, "build", *options, "bad.tsr", cwd=d, ok=False)
        if p.returncode not in (1, 2) or said not in p.stderr or (d / "bad.tsb").exists():
            raise Fail(f"{options}: {p.returncode} {p.stderr[-500:]}")


ROWS = {"debug_builds_check": ("SAFE-08",), "matrix_units": ("CG-05",), "variants": ("FUN-05",), "models_are_saved": ("DEP-03",), "damaged_models_are_refused": ("DEP-04",), "graph_versions": ("IR-11",), "models_are_optimized": ("DEP-01", "DEP-02"), "two_builds_are_the_same_bytes": ("DET-11",), "prints_the_same": ("DEP-07",)}
TESTS = (bits_of_the_program, results_in_the_callers_memory, every_target_has_the_bits, state_and_random_numbers, failed_calls_leave_state, prints_the_same, debug_builds_check, kernels_are_there, kernels_that_return, what_blocks_reach_over, run_takes_json_and_npy,
         example_in_c, example_in_python, header_compiles_alone, threads, two_bundles_in_one_process, wrong_calls_have_numbers, guards, matrix_units, the_runtime_part,
         two_builds_are_the_same_bytes, the_manifest, kernels_of_programs, models_are_saved, damaged_models_are_refused, graph_versions, models_are_optimized, functions_are_saved, variants, only_bundles_are_replaced, damage, manifests, documented)


def tests(ctx):
    for f in TESTS:
        yield Test(f"bundles/{f.__name__}", lambda f=f: f(ctx), ROWS.get(f.__name__, ()))
