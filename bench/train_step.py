#!/usr/bin/env python3
"""One training step of a character transformer (B8 S256 D256 H8 L6, AdamW): Tessera, PyTorch and JAX in one run.

    python3 bench/train_step.py [--threads N] [--rounds N] [--python INTERPRETER]... [--peers WORD,...]

Each runs in a process of its own, in turns, so that a busy machine hurts all; with one thread all count processor time.
Peers are those that the interpreters (this one, unless --python names others) can import.  Prints one JSON object a line:
{"name", "peer", "threads", "ms" (median of all steps but the first three), "first_s" (the first step with all compiling),
"cached_s" (Tessera: the same with kernels from the disk cache), "peak_mb", "loss" (after the last step), "tok_s"};
then "ratio" lines: times Tessera ("of": as it is, under fast numerics, and there with products in tf32) is faster than a peer, and its part of the
peer's memory. Peers named -high are PyTorch with set_float32_matmul_precision("high").
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESSERA = pathlib.Path(__file__).resolve().parent.parent / "build/tessera"
OWN = {"tessera": ([], None), "tessera-fast": (["--mode=fast-math"], None), "tessera-tf32": (["--mode=fast-math"], "tf32")}       # flags, and what products compute in
STEPS = 10
BATCH, LENGTH, SIZE, HEADS, LAYERS, VOCABULARY = 8, 256, 256, 8, 6, 256

OURS = """

def normal(shape, scale):
    return random.normal(shape) * scale

def linear(n, m):
    return {"w": normal((n, m), n ** -0.5), "b": zeros(m)}

def norm():
    return {"w": ones(SIZE), "b": zeros(SIZE)}

def block():
    return {"norm1": norm(), "qkv": linear(SIZE, 3 * SIZE), "out": linear(SIZE, SIZE), "norm2": norm(),
            "up": linear(SIZE, 4 * SIZE), "down": linear(4 * SIZE, SIZE)}

def dense(x, p):
    return x @ p["w"] + p["b"]

def normed(x, p):
    return layer_norm(x) * p["w"] + p["b"]

def heads_of(x):
    batch, length, _ = x.shape
    return x.reshape(batch, length, HEADS, SIZE // HEADS).transpose(1, 2)

def attention(x, p):
    batch, length, _ = x.shape
    q, k, v = split(dense(x, p["qkv"]), 3, axis=-1)
    scores = heads_of(q) @ heads_of(k).mT * (SIZE // HEADS) ** -0.5
    allowed = arange(length)[:, None] >= arange(length)[None, :]
    mixed = softmax(where(allowed, scores, -1e9), dim=-1) @ heads_of(v)
    return dense(mixed.transpose(1, 2).reshape(batch, length, SIZE), p["out"])

def loss_of(params, ids):
    x = params["token"][ids[:, :-1]] + params["position"]
    for p in params["blocks"]:
        x = x + attention(normed(x, p["norm1"]), p)
        x = x + dense(gelu(dense(normed(x, p["norm2"]), p["up"])), p["down"])
    logits = normed(x, params["norm"]) @ params["token"].T
    return cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))

@jit
def step(params, state, ids):
    with tessera.numerics(compute=COMPUTE):
        loss, grads = value_and_grad(loss_of)(params, ids)
    params, state = adamw(lr=3e-4).update(params, grads, state)
    return loss, params, state

random.seed(0)
params = {"token": normal((VOCABULARY, SIZE), 0.05), "position": normal((LENGTH, SIZE), 0.05), "blocks": [block() for _ in range(LAYERS)],
          "norm": norm()}
state = adamw(lr=3e-4).init(params)
ids = random.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
for i in range(STEPS):
    start = now()
    loss, params, state = step(params, state, ids)
    value = loss.item()
    print(now() - start, value)
"""

TORCH = """
import torch, torch.nn.functional as F
torch.set_num_threads(THREADS)
torch.set_float32_matmul_precision(PRECISION)
torch.manual_seed(0)
te, pe = torch.nn.Embedding(VOCABULARY, SIZE), torch.nn.Embedding(LENGTH, SIZE)
with torch.no_grad():
    te.weight.mul_(0.05); pe.weight.mul_(0.05)
blocks = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(SIZE, HEADS, 4 * SIZE, 0.0, "gelu", batch_first=True, norm_first=True)
                             for _ in range(LAYERS))
norm = torch.nn.LayerNorm(SIZE)
opt = torch.optim.AdamW([*te.parameters(), *pe.parameters(), *blocks.parameters(), *norm.parameters()], lr=3e-4)
ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)

def forward(x):
    h = te(x) + pe(torch.arange(LENGTH))
    for b in blocks:
        h = b(h, src_mask=mask)
    return norm(h) @ te.weight.T

if COMPILED:
    forward = torch.compile(forward)

for i in range(STEPS):
    start = now()
    loss = F.cross_entropy(forward(ids[:, :-1]).reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
    opt.zero_grad(); loss.backward(); opt.step()
    value = loss.item()
    print(now() - start, value)
"""

JAX = """
import jax, jax.numpy as jnp
key = jax.random.key(0)

def normal(shape, scale):
    global key
    key, sub = jax.random.split(key)
    return jax.random.normal(sub, shape) * scale

linear = lambda n, m: {"w": normal((n, m), n ** -0.5), "b": jnp.zeros(m)}
new_norm = lambda: {"w": jnp.ones(SIZE), "b": jnp.zeros(SIZE)}
new_block = lambda: {"norm1": new_norm(), "qkv": linear(SIZE, 3 * SIZE), "out": linear(SIZE, SIZE), "norm2": new_norm(),
                     "up": linear(SIZE, 4 * SIZE), "down": linear(4 * SIZE, SIZE)}
params = {"token": normal((VOCABULARY, SIZE), 0.05), "position": normal((LENGTH, SIZE), 0.05), "blocks": [new_block() for _ in range(LAYERS)],
          "norm": new_norm()}
dense = lambda x, p: x @ p["w"] + p["b"]
heads_of = lambda x: x.reshape(BATCH, LENGTH, HEADS, SIZE // HEADS).transpose(0, 2, 1, 3)

def normed(x, p):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + 1e-5) * p["w"] + p["b"]

def attention(x, p):
    q, k, v = jnp.split(dense(x, p["qkv"]), 3, axis=-1)
    scores = heads_of(q) @ heads_of(k).transpose(0, 1, 3, 2) * (SIZE // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    mixed = jax.nn.softmax(scores, -1) @ heads_of(v)
    return dense(mixed.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, SIZE), p["out"])

def loss_of(params, ids):
    x = params["token"][ids[:, :-1]] + params["position"]
    for p in params["blocks"]:
        x = x + attention(normed(x, p["norm1"]), p)
        x = x + dense(jax.nn.gelu(dense(normed(x, p["norm2"]), p["up"]), approximate=False), p["down"])
    logits = (normed(x, params["norm"]) @ params["token"].T).reshape(-1, VOCABULARY)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), ids[:, 1:].reshape(-1, 1), 1).mean()

def adamw(p, g, m, v, t):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p * (1 - 3e-4 * 0.01) - 3e-4 * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8), m, v

@jax.jit
def step(params, m, v, t, ids):
    loss, grads = jax.value_and_grad(loss_of)(params, ids)
    leaves, tree = jax.tree.flatten(params)
    new = [adamw(*x, t) for x in zip(leaves, *map(jax.tree.leaves, (grads, m, v)))]
    return loss, *(tree.unflatten([n[k] for n in new]) for k in range(3))

m = jax.tree.map(jnp.zeros_like, params)
v = jax.tree.map(jnp.zeros_like, params)
ids = jax.random.randint(jax.random.key(1), (BATCH, LENGTH + 1), 0, VOCABULARY)
for i in range(STEPS):
    start = now()
    loss, params, m, v = step(params, m, v, i + 1.0, ids)
    value = float(loss)
    print(now() - start, value)
"""


def settings(threads, **more):
    names = dict(STEPS=STEPS, BATCH=BATCH, LENGTH=LENGTH, SIZE=SIZE, HEADS=HEADS, LAYERS=LAYERS, VOCABULARY=VOCABULARY, **more)
    return "".join(f"{k} = {v!r}\n" for k, v in names.items()) + \
        f"THREADS = {threads}\nfrom time import {'process_time' if threads == 1 else 'perf_counter'} as now\n"


def environment(threads, cache):
    flags = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'} intra_op_parallelism_threads={threads}"
    return {**os.environ, "TESSERA_THREADS": str(threads), "TESSERA_CACHE": str(cache), "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads), "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


def measure(argv, env):
    """Seconds of each step, the last loss, and the most memory that the process had."""
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.Popen([str(a) for a in argv], stdout=out, stderr=subprocess.PIPE, env=env, text=True)
        err = p.stderr.read()
        status, usage = os.wait4(p.pid, 0)[1:]
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        rows = [tuple(map(float, line.split())) for line in out.read().splitlines()]
    if p.returncode:
        raise RuntimeError(err.strip()[-400:])
    return {"steps": [s for s, _ in rows], "loss": rows[-1][1], "peak_mb": round(usage.ru_maxrss / 1024)}


def can_import(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def contestants(options, folder):
    for name, (flags, compute) in OWN.items():
        path = folder / f"{name}.tsr"
        path.write_text(settings(options.threads, COMPUTE=compute) + OURS)
        yield name, [TESSERA, "run", *flags, path]
    torch = [(name + more, "torch", TORCH, {"COMPILED": compiled, "PRECISION": precision})
             for more, precision in (("", "highest"), ("-high", "high")) for name, compiled in (("torch-eager", False), ("torch-compile", True))]
    for name, module, text, more in (*torch, ("jax-jit", "jax", JAX, {})):
        python = next((p for p in options.python if can_import(p, module)), None)
        if python and (not options.peers or name in options.peers.split(",")):
            path = folder / f"{name}.py"
            path.write_text(settings(options.threads, **more) + text)
            yield name, [python, path]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--python", action="append")
    p.add_argument("--peers", default="")
    options = p.parse_args()
    options.python = options.python or [sys.executable]
    name, runs = f"char_transformer_train_b{BATCH}s{LENGTH}d{SIZE}l{LAYERS}", {}
    with tempfile.TemporaryDirectory() as d:
        folder = pathlib.Path(d)
        all_of_them = list(contestants(options, folder))
        for _ in range(options.rounds):
            for peer, argv in all_of_them:
                try:
                    runs.setdefault(peer, []).append(measure(argv, environment(options.threads, folder / "kernels")))
                except RuntimeError as e:
                    print(json.dumps({"name": name, "peer": peer, "error": str(e)}), flush=True)
    rows = {}
    for peer, all_runs in runs.items():
        steps = sorted(s for r in all_runs for s in r["steps"][3:])
        ms = steps[len(steps) // 2] * 1e3
        rows[peer] = {"name": name, "peer": peer, "threads": options.threads, "ms": round(ms, 1), "first_s": round(all_runs[0]["steps"][0], 3),
                      "peak_mb": max(r["peak_mb"] for r in all_runs), "loss": round(all_runs[-1]["loss"], 4), "tok_s": round(BATCH * LENGTH / ms * 1e3)}
        if peer in OWN and len(all_runs) > 1:
            rows[peer]["cached_s"] = round(min(r["steps"][0] for r in all_runs[1:]), 3)
        print(json.dumps(rows[peer]), flush=True)
    for own in OWN.keys() & rows.keys():
        for peer in rows.keys() - OWN.keys():
            print(json.dumps({"name": name, "of": own, "peer": peer, "ratio": round(rows[peer]["ms"] / rows[own]["ms"], 3),
                              "memory": round(rows[own]["peak_mb"] / rows[peer]["peak_mb"], 3)}), flush=True)


main()
