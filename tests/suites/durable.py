"""Training runs that are killed, interrupted, or run out of room: the last checkpoint is whole, and going on from it gives the same bits."""
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import time

from harness import process
from harness.test import Fail, Skip, Test

KILLS = 100

# A small run with a checkpoint after every step. It says "step N" once the step is saved.
TRAINING = """
import os, sys
path, steps = sys.argv[1], int(sys.argv[2])

def loss(params, x, y):
    h = tanh(x @ params["a"])
    return ((h @ params["b"] - y) ** 2).mean()

x = random.normal((16, 8), key=random.key(1))
y = random.normal((16, 1), key=random.key(2))
params = {"a": random.normal((8, 64), key=random.key(3)), "b": random.normal((64, 1), key=random.key(4))}
momentum = tree_map(zeros_like, params)
start = 0
try:
    if os.path.exists(path):
        (params, momentum), info = load_checkpoint(path, (params, momentum))
        start = info["step"]
        print("from", start, flush=True)
    for step in range(start, steps):
        noise = 0.01 * random.normal(x.shape, key=random.key(5000 + step))
        g = grad(loss)(params, x + noise, y)
        momentum = tree_map(lambda m, d: 0.9 * m + d, momentum, g)
        params = tree_map(lambda p, m: p - 0.05 * m, params, momentum)
        save_checkpoint(path, (params, momentum), step=step + 1)
        print("step", step + 1, flush=True)
except KeyboardInterrupt:
    print("the last checkpoint is", path, flush=True)
    sys.exit(130)
"""


def command(ctx, folder, path, steps):
    program = folder / "training.tsr"
    program.write_text(TRAINING)
    return [str(a) for a in (ctx.tessera, "run", program, path, steps)]


def finish(ctx, folder, path, steps):
    p = process.run(command(ctx, folder, path, steps), timeout=60)
    if p.returncode:
        raise Fail(f"exit code {p.returncode}: {p.stderr[-600:]}")
    return p.stdout


def last_number(text, word):
    return max((int(line.split()[1]) for line in text.splitlines() if line.startswith(word + " ")), default=0)


def kill_nine(ctx):
    """Killed at random moments again and again: what was said to be saved is there, and the end has the same bits."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        chance = random.Random(7)
        saved = kills = 0
        steps = 400
        while kills < KILLS:
            p = subprocess.Popen(command(ctx, d, d / "run", steps), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            first = p.stdout.readline()             # it runs
            time.sleep(chance.random() * 0.02)
            p.kill()
            out, err = p.communicate()
            kills += 1
            if err:
                raise Fail(f"after kill {kills}: {err[-600:]}")
            if first.startswith("from") and int(first.split()[1]) < saved:
                raise Fail(f"step {saved} was saved; the next run began at {first}")
            saved = max(saved, last_number(first + out, "step"), last_number(first, "from"))
            if saved >= steps - 20:
                steps += 400
        finish(ctx, d, d / "run", steps)
        finish(ctx, d, d / "whole", steps)
        if (d / "run").read_bytes() != (d / "whole").read_bytes():
            raise Fail(f"after {kills} kills the end differs from that of one run")
        left = sorted(f.name for f in d.iterdir() if f.name not in ("run", "whole", "training.tsr"))
        if len(left) > 1:
            raise Fail(f"temporary files pile up: {len(left)}: {left[:5]}")


def ctrl_c_names_the_checkpoint(ctx):
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        code, out, err = process.interrupted(command(ctx, d, d / "run", 100000))
        if code != 130 or f"the last checkpoint is {d}/run" not in out or err:
            raise Fail(f"exit code {code}: {out[-200:]!r} {err[-600:]!r}")
        if "from" not in finish(ctx, d, d / "run", 3):
            raise Fail("it does not go on from there")


def no_room_keeps_the_old_one(ctx):
    """A checkpoint that does not fit (RLIMIT_FSIZE, as a full disk does) is an OSError; the one before stays as it was."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        finish(ctx, d, d / "run", 2)
        before = (d / "run").read_bytes()
        p = process.run(command(ctx, d, d / "run", 5), file_size=1024)
        if p.returncode != 1 or "OSError" not in p.stderr or "File too large" not in p.stderr:
            raise Fail(f"exit code {p.returncode}: {p.stderr[-600:]}")
        if (d / "run").read_bytes() != before:
            raise Fail("the checkpoint changed")
        if left := [f.name for f in d.iterdir() if f.name not in ("run", "training.tsr")]:
            raise Fail(f"left behind: {left}")
        finish(ctx, d, d / "run", 3)


def read_only_folder(ctx):
    if os.geteuid() == 0 and subprocess.run(["sh", "-c", "command -v setpriv"], stdout=subprocess.DEVNULL).returncode:
        raise Skip("as root every folder may be written, and setpriv is missing")
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        d.chmod(0o755)
        inner = d / "closed"
        inner.mkdir()
        argv = command(ctx, d, inner / "run", 1)
        inner.chmod(0o555)
        drop = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        p = process.run(drop + argv)
        inner.chmod(0o755)
        if p.returncode == 126 or p.returncode == 127:
            raise Skip("another user cannot start the binary here")
        if p.returncode != 1 or "PermissionError" not in p.stderr or "run" not in p.stderr:
            raise Fail(f"exit code {p.returncode}: {p.stderr[-600:]}")


def links_and_pipes_stay(ctx):
    """A file behind a link is replaced, the link stays; a pipe is written to."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "target").write_bytes(b"old")
        (d / "link").symlink_to("target")
        os.mkfifo(d / "pipe")
        p = process.run([ctx.tessera, "run", "-e", f"save_npy('{d}/link', ones(3))"])
        if p.returncode or not (d / "link").is_symlink() or not (d / "target").read_bytes().startswith(b"\x93NUMPY"):
            raise Fail(f"the link: {p.stderr[-600:]}")
        reader = subprocess.Popen(["cat", d / "pipe"], stdout=subprocess.PIPE)
        p = process.run([ctx.tessera, "run", "-e", f"save_npy('{d}/pipe', ones(3))"])
        if p.returncode or not (d / "pipe").is_fifo():
            reader.kill()
            raise Fail(f"the pipe: {p.stderr[-600:]}")
        if reader.communicate(timeout=10)[0] != (d / "target").read_bytes():
            raise Fail("other bytes came through the pipe")


def header(text):
    return struct.pack("<Q", len(text)) + text.encode()


# name, what stands in the checkpoint's place given a good one, what the one line of the error says
DAMAGE = [
    ("empty", lambda good: b"", "too short"),
    ("cut-off", lambda good: good[:len(good) // 2], "ValueError"),
    ("cut-header", lambda good: good[:40], "header does not fit"),
    ("one-byte-more", lambda good: good + b"x", "do not cover"),
    ("no-json", lambda good: header("{'a': 1}") + b"", "JSON"),
    ("not-ours", lambda good: header("{}"), "not a checkpoint of Tessera"),
    ("huge-header", lambda good: b"\xff" * 8 + good[8:], "does not fit"),
    ("noise", lambda good: random.Random(3).randbytes(5000), "ValueError"),
]


def damaged(ctx, make, want):
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        finish(ctx, d, d / "run", 1)
        (d / "run").write_bytes(make((d / "run").read_bytes()))
        p = process.run(command(ctx, d, d / "run", 2))
        last = (p.stderr.strip().splitlines() or [""])[-1]
        if p.returncode != 1 or not last.startswith("ValueError") or want not in last:
            raise Fail(f"exit code {p.returncode}: {p.stderr[-600:]}")


def of_another_model(ctx):
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        finish(ctx, d, d / "run", 1)
        for change, want in (("(8, 64)", "'0.a' is f32[8, 64] there, f32[8, 32] here"), ('"b": random', "no tensor '0.c'")):
            text = TRAINING.replace("(8, 64)", "(8, 32)").replace("(64, 1)", "(32, 1)") if change == "(8, 64)" else \
                TRAINING.replace('"b"', '"c"')
            (d / "other.tsr").write_text(text)
            p = process.run([ctx.tessera, "run", d / "other.tsr", d / "run", "2"])
            if p.returncode != 1 or "a checkpoint of another model" not in p.stderr or want not in p.stderr:
                raise Fail(f"exit code {p.returncode}: {p.stderr[-600:]}")


def tests(ctx):
    for f in (kill_nine, ctrl_c_names_the_checkpoint, no_room_keeps_the_old_one, read_only_folder, of_another_model,
              links_and_pipes_stay):
        yield Test(f"durable/{f.__name__}", lambda f=f: f(ctx))
    for name, make, want in DAMAGE:
        yield Test(f"durable/damaged/{name}", lambda make=make, want=want: damaged(ctx, make, want))
