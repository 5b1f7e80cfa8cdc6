#!/usr/bin/env python3
"""Are products the same bits with every instruction set of this machine?  bench/cpu_check.py [--tessera=BINARY]

One JSON object a line for each of TESSERA_CPU=base, v3, v4 and the machine's own (AVX512-VNNI and AMX for bytes, where there are):
{"cpu", "is", "products", "same", "seconds"}; "same" compares with the evaluator on the least machine, base.  Products of f32, f64, bf16,
f16 and bytes, of all layouts, in sizes around the edges of tiles, few rows and columns, batches, and with what fuses behind and before them.
Exit 1 when some differ.  For machines that the tests do not run on: it needs nothing but the binary.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = """

SIZES = [(1, 1, 1), (1, 40, 300), (2, 33, 257), (3, 17, 9), (4, 70, 513), (5, 16, 256), (7, 31, 8), (13, 29, 40), (14, 32, 64), (15, 65, 31),
         (28, 48, 600), (56, 96, 256), (61, 130, 300), (100, 10, 784), (130, 1, 70), (129, 257, 255), (300, 520, 40), (1060, 270, 257),
         (9, 70, 300), (23, 131, 520), (30, 300, 1), (17, 261, 2), (70, 290, 3), (7, 300, 300), (11, 610, 301), (32, 1000, 32), (300, 4, 270),
         (200, 24, 257), (33, 32, 1500), (150, 150, 150)]
count = 0
def made(*shape):
    n = 1
    for s in shape: n *= s
    return ((arange(n).to(f32) * 0.37).sin() * 3.0).reshape(shape)
def tell(y):
    global count
    count += 1
    print(count, y.shape, y.dtype, repr(y.to(f64).flatten().tolist()))
for m, n, k in SIZES:
    a, b = made(m, k), made(k, n)
    at, bt = a.T.contiguous(), b.T.contiguous()
    for dtype in (f32, f64, bf16, f16):
        x, y, xt, yt = a.to(dtype), b.to(dtype), at.to(dtype), bt.to(dtype)
        for r in (x @ y, x @ yt.T, xt.T @ y, xt.T @ yt.T):
            tell(r)
    for p, q in ((int8, int8), (uint8, int8), (uint8, uint8)):
        x, y = (a * 40.0).round().to(int32).to(p), (b * 40.0).round().to(int32).to(q)
        tell(matmul(x, y))
        tell(matmul(x, y.T.contiguous().T))
for m, n, k in ((20, 33, 50), (64, 64, 64)):
    tell(made(3, m, k) @ made(3, k, n))
    tell(made(3, m, k) @ made(3, n, k).mT)
dense = tessera.fusion.auto(lambda x, w, b: gelu(layernorm(x) @ w + b))
tell(dense(made(200, 48), made(48, 90), made(90,)))
tell(jit(lambda q, k, v: softmax(q @ k.mT) @ v)(made(2, 70, 16), made(2, 70, 16), made(2, 70, 16)))
"""


def main(argv):
    tessera = pathlib.Path(next((a[10:] for a in argv if a.startswith("--tessera=")), ROOT / "build/tessera")).resolve()
    version = subprocess.run([tessera, "version"], capture_output=True, text=True).stdout
    bad, want = False, None
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "products.tsr"
        path.write_text(PROGRAM)
        for cpu in ("base", "v3", "v4", ""):
            env = {k: v for k, v in os.environ.items() if k != "TESSERA_CPU"} | ({"TESSERA_CPU": cpu} if cpu else {})
            began = time.time()
            p = subprocess.run([tessera, "run", f"--backend={'eval' if cpu == 'base' else 'cpu'}", path], capture_output=True, text=True, env=env)
            lines = p.stdout.splitlines()
            want = want or lines
            differ = [a.split(" tensor")[0][:40] for a, b in zip(lines, want) if a != b]
            same = not p.returncode and lines == want
            bad |= not same
            told = {"cpu": cpu or "native", "is": version.strip().splitlines()[-1][:120], "products": len(lines), "same": same, "seconds": round(time.time() - began, 1)}
            if not same:
                told |= {"differ": differ[:5], "error": p.stderr[-300:]}
            print(json.dumps(told), flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
