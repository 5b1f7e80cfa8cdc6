#!/usr/bin/env python3
"""Random eager operations on random views of every dtype, on a GPU and on the host: python3 bench/gpu/views.py [--tessera BIN] [--first SEED] [--programs N]

Each program makes tensors of a dtype, empty ones, numbers and large ones among them, looks at them through slices, steps backwards, transposes, stretched
axes and picked rows, applies an operation, and prints what comes out or which error. Both runs must print the same. --write DIR keeps the programs
(PATH.gpu.tsr, PATH.cpu.tsr) and runs none."""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
DTYPES = "f32 f64 bf16 f16 fp8_e4m3 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool c64".split()
FLOATS = ["f32", "f64", "bf16", "f16"]
SHAPES = [(), (1,), (0,), (5,), (257,), (3, 4), (0, 3), (3, 0, 2), (1, 7), (7, 1), (2, 3, 4), (1, 1, 1), (33, 65), (4, 1, 6), (2, 2, 2, 3), (300, 5), (5, 300), (1000,), (2, 3, 2, 2, 2, 3)]
UNARY = ["-A", "abs(A)", "A.sum()", "A.sum(axis=-1)", "A.max()", "A.min(axis=0)", "A.any()", "A.all(axis=-1)", "A.prod()", "A.reshape(-1)", "A.T", "sort(A)", "argsort(A)",
         "A.argmax()", "A.argmin(axis=-1)", "cumsum(A, axis=-1)", "cummax(A, axis=0)", "nonzero(A)", "A[A == A]", "A.to(f32)", "A.to(int32)", "A.to(bool)", "A.to(bf16)", "A.to(f64)", "unique(A)",
         "concat([A, A])", "stack([A, A], axis=-1)", "flip(A, axis=-1)", "A.mean()", "A.tolist()", "str(A)", "pad(A, [(1, 1)] * A.ndim)", "A[None]", "A.item()", "A[-1]", "A[..., 0]", "A + 0 * A",
         "A.reshape(A.shape)", "roll(A, 1)", "tril(A)", "where(A == A, A, A)", "A ** 2", "A @ A.T", "repeat(A, 2)", "A.to(\"cpu\")", "len(A)", "[x for x in A]", "topk(A, 1)", "median(A)", "zeros_like(A) + A",
         "A.copy() if hasattr(A, \"copy\") else A", "A[:, :1]", "A[[0, -1]]", "put(A)", "put_mask(A)", "add(A)", "A * 2", "A // 2", "A % 3", "1 - A", "A == A", "~(A == A)", "A.std()", "A.var(axis=-1)"]
FLOATING = ["exp(A)", "sqrt(A)", "sin(A)", "tanh(A)", "sigmoid(A)", "softmax(A, axis=-1)", "log_softmax(A, axis=0)", "gelu(A)", "A.mean(axis=-1)", "floor(A)", "round(A)", "isnan(A)", "norm(A)",
            "grad(lambda x: (x * x).sum())(A)", "grad(lambda x: exp(x).sum())(A)", "logsumexp(A, axis=-1)", "atan2(A, B)", "jit(lambda x: x * 2 + 1)(A)", "jit(lambda x: softmax(x, axis=-1).sum())(A)"]
BINARY = ["A + B", "A - B", "A * B", "A / B", "A == B", "A < B", "maximum(A, B)", "where(A < B, A, B)", "A & B", "A | B", "A // B", "A % B", "B[A != 0]", "concat([A, B])", "A @ B", "searchsorted(sort(A), B)"]

HEAD = '''def put(a):
    z = a + 0 * a
    z[0] = z[-1]
    return z
def put_mask(a):
    z = a + 0 * a
    z[z == z[0]] = z[-1]
    return z
def add(a):
    return index_add(a, a[:1], zeros(1, dtype=int32).to(a.device))
def show(r):
    if isinstance(r, (list, tuple)):
        return [show(x) for x in r]
    return (str(r.device == WHERE or r.device == "cpu"), r.dtype, r.shape, str(r.tolist())[:3000]) if is_tensor(r) else str(r)[:3000]
def made(n, dt):
    x = (arange(n) * 37 % 101 - 50)
    return (x if dt != bool else x % 2).to(f32).to(dt) if dt != c64 else x.to(f32).to(c64) * (1 + 2j)
def unsigned(n, dt):
    return (arange(n) * 37 % 101).to(dt)
'''


def view(r, name, shape):
    """A view's code: what it is of, and how."""
    code = name
    for _ in range(r.randrange(3)):
        n = len(shape)
        how = r.choice(["step", "back", "turn", "stretch", "cut", "none"])
        if how == "step" and n:
            code, shape = f"{code}[::2]", ((shape[0] + 1) // 2, *shape[1:])
        elif how == "back" and n:
            code = f"flip({code}, axis={r.randrange(n)})"
        elif how == "turn" and n > 1:
            code, shape = f"{code}.T", shape[::-1]
        elif how == "cut" and n and shape[-1] > 1:
            code, shape = f"{code}[..., 1:]", (*shape[:-1], shape[-1] - 1)
        elif how == "stretch" and n < 5:
            code, shape = f"broadcast_to({code}, (2, *{code}.shape))", (2, *shape)
    return code


def program(seed):
    r = random.Random(seed)
    dtype = r.choice(DTYPES)
    lines = [HEAD]
    for i in range(40):
        shape = r.choice(SHAPES)
        n = 1
        for s in shape:
            n *= s
        maker = "unsigned" if dtype.startswith("uint") else "made"
        lines.append(f'a = {maker}({n}, {dtype}).reshape{shape if shape else "(())"}.to(WHERE)')
        other = shape if r.random() < 0.7 else r.choice(SHAPES)
        m = 1
        for s in other:
            m *= s
        lines.append(f'b = {maker}({m + 3}, {dtype})[3:].reshape{other if other else "(())"}.to(WHERE)')
        ops = UNARY + BINARY + (FLOATING if dtype in FLOATS else [])
        op = r.choice(ops)
        if dtype in ("bf16", "f16", "fp8_e4m3", "int8", "uint8") and "@" in op:
            op = "A + A"
        lines.append(f"def op{i}(A, B): return {op}")
        lines.append(f"try: print({i}, show(op{i}({view(r, 'a', shape)}, {view(r, 'b', other)})))")
        lines.append(f'except Exception as e: print({i}, {op!r}, str(e)[:200].replace("gpu:0", "cpu"))')
    return "\n".join(lines) + "\n"


def run(tessera, text, path):
    path.write_text(text)
    p = subprocess.run([tessera, "run", path], capture_output=True, text=True, timeout=300)
    return p.stdout, p.stderr, p.returncode


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tessera", default=HERE / "build" / "tessera")
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--programs", type=int, default=10)
    p.add_argument("--write")
    args = p.parse_args()
    bad = lines = 0
    with tempfile.TemporaryDirectory() as d:
        for seed in range(args.first, args.first + args.programs):
            text = {w: program(seed).replace("WHERE", f'"{w}"') for w in ("gpu:0", "cpu")}
            if args.write:
                for w in text:
                    (pathlib.Path(args.write) / f"view{seed}.{w[:3]}.tsr").write_text(text[w])
                continue
            out = {w: run(args.tessera, text[w], pathlib.Path(d) / "p.tsr") for w in text}
            here, there = out["cpu"][0].splitlines(), out["gpu:0"][0].splitlines()
            lines += len(here)
            if out["gpu:0"][2] != out["cpu"][2] or len(here) != len(there):
                bad += 1
                print(f"{seed}: exit {out['cpu'][2]} and {out['gpu:0'][2]}: {len(here)} and {len(there)} lines: {out['gpu:0'][1][-400:]}")
            for a, b in zip(here, there):
                if a != b:
                    bad += 1
                    i = a.split()[0]
                    code = [l for l in program(seed).splitlines() if f"op{i}(" in l]
                    print(f"{seed}: {code}\n  cpu {a[:300]}\n  gpu {b[:300]}")
    print({"programs": args.programs, "lines": lines, "differ": bad})
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
