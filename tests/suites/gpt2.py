"""examples/gpt2.tsr at its smallest: it learns, goes on with the same bits, writes the same with a cache as without, and reads what it wrote."""
import json
import pathlib
import re
import struct
import subprocess
import tempfile

from harness import process
from harness.test import Fail, Test

SMALL = ["--tokens", "290", "--context", "32", "--batch", "4", "--steps", "30", "--warmup", "4", "--every", "10", "--generate", "40", "--seed", "3"]


def must(condition, what):
    if not condition:
        raise Fail(what)


def command(ctx, out, *more):
    return [str(a) for a in (ctx.tessera, "run", ctx.root / "examples/gpt2.tsr", *SMALL, "--text", ctx.root / "docs/language.md", "--out", out, *more)]


def run(ctx, out, *more):
    p = process.run(command(ctx, out, *more), timeout=120)
    if why := process.died(p) or (p.returncode and p.stderr[-600:]):
        raise Fail(why)
    return p.stdout


def header(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])


def learns(ctx):
    """The losses fall; the record has what another program needs; optimisers keep f32 beside weights of bf16."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        run(ctx, d / "out", "--record", d / "rec", "--accumulate", "2")
        how, *rows = [json.loads(line) for line in (d / "rec/losses.jsonl").read_text().splitlines()]
        must(len(rows) == how["steps"] == 30 and rows[-1]["loss"] < rows[0]["loss"] - 0.4, rows[-1])
        must(header(d / "rec/batches.safetensors")["ids"] == {"dtype": "I32", "shape": [30, 4, 33], "data_offsets": [0, 30 * 4 * 33 * 4]}, "batches")
        weights, kept = header(d / "rec/weights.safetensors"), header(d / "out/checkpoint.safetensors")
        must(weights["h.1.attn.c_attn.weight"]["shape"] == [64, 192] and weights["wte.weight"]["dtype"] == "BF16", weights)
        masters = [v["dtype"] for k, v in kept.items() if ".master." in k]
        must(masters and set(masters) == {"F32"}, kept.keys())


def goes_on(ctx):
    """Killed behind its first checkpoint, then run again: the files of the run that nothing disturbed."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        whole = run(ctx, d / "a", "--dropout", "0.1")
        p = subprocess.Popen(command(ctx, d / "b", "--dropout", "0.1"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in p.stdout:
            if line.startswith("step 10:"):
                break
        p.kill()
        p.communicate()
        rest = run(ctx, d / "b", "--dropout", "0.1")
        must(re.search(r"going on from .* at step [12]0", rest), rest)
        for name in ("checkpoint.safetensors", "model.safetensors"):
            must((d / "a" / name).read_bytes() == (d / "b" / name).read_bytes(), name)
        must(whole.splitlines()[-3:] == rest.splitlines()[-3:], (whole, rest))


def writes(ctx):
    """The text is the same with the cache and without it, also past the context, and from the weights that were saved."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        run(ctx, d / "a", "--steps", "10")
        tail = lambda text: text.split("parameters in bf16\n", 1)[1].split("\n", 1)[1]
        again = [run(ctx, d / "a", "--steps", "10", *more) for more in ([], ["--no-cache"])]
        must(tail(again[0]) == tail(again[1]) and len(tail(again[0])) > 20, again)
        files = ["--weights", d / "a/model.safetensors", "--vocab", d / "a/vocab.json", "--merges", d / "a/merges.txt", "--steps", "0"]
        loaded = [run(ctx, d / name, *files, *more) for name, more in (("b", []), ("c", ["--no-cache"]))]
        must(loaded[0] == loaded[1], loaded)


def steps_on_a_gpu(ctx):
    """Steps on the driver of the tests have the losses that they have on the host, but for the order in which long products of bf16 are summed."""
    step = ["--preset", "tiny", "--batch", "2", "--steps", "3", "--attention", "flash2"]
    env = {**process.fake_driver(ctx.tessera), "FAKE_CUDA": "memory=2000", "TESSERA_PATH": str(ctx.root / "examples"), "TESSERA_CACHE": ""}
    losses = []
    for device in ("cpu", "gpu:0"):
        p = process.run([ctx.tessera, "run", "--device", device, ctx.root / "bench/gpu/gpt2_step.tsr", *step], env=env, timeout=200)
        if why := process.died(p) or (p.returncode and p.stderr[-600:]):
            raise Fail(why)
        losses.append(json.loads(p.stdout)["losses"])
    must(losses[0][0] == losses[1][0] and len(losses[0]) == 3, str(losses))
    must(all(abs(a - b) < 2e-4 for a, b in zip(*losses)), str(losses))


def memory_of_a_step(ctx):
    """On a chip that computes nothing, a step never holds the logits (412 MB) and their derivative at once: the one takes the other's place."""
    step = ["--preset", "tiny", "--batch", "64", "--steps", "2", "--attention", "flash2"]
    env = {**process.fake_driver(ctx.tessera, "chip=90,memory=4000"), "TESSERA_PATH": str(ctx.root / "examples"), "TESSERA_CACHE": ""}
    p = process.run([ctx.tessera, "run", "--stats", "--device", "gpu:0", ctx.root / "bench/gpu/gpt2_step.tsr", *step], env=env, timeout=200)
    found = re.search(r"stats: gpu:0 memory peak=([\d.]+) held=([\d.]+) MB", p.stderr)
    must(p.returncode == 0 and found, p.stderr[-600:])
    must(412 < float(found[1]) < 1.4 * 412, found[0])


def tests(ctx):
    yield Test("gpt2/learns", lambda: learns(ctx))
    yield Test("gpt2/goes-on", lambda: goes_on(ctx))
    yield Test("gpt2/writes", lambda: writes(ctx))
    yield Test("gpt2/steps-on-a-gpu", lambda: steps_on_a_gpu(ctx))
    yield Test("gpt2/memory-of-a-step", lambda: memory_of_a_step(ctx))
