"""The kernels kept on disk: found by the next process, of the same bits; whatever is wrong with the folder, a program runs as without it."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from harness import process
from harness.test import Fail, Test

KERNELS = 5

# Prints its results to the last bit; a kernel in the place of another would change them.
PROGRAM = """
x = random.normal((7, 33), key=random.key(1))
def run(f): print(jit(f)(x).tolist())
run(lambda x: tanh(x * 2.5) + x)
run(lambda x: exp(x) / (1.0 + exp(x)))
run(lambda x: (x * x + 3.0).sum(axis=1))
run(lambda x: maximum(x - 0.25, 0.0).max(axis=1))
run(lambda x: where(x > 0.0, sqrt(abs(x)), x * 0.5))
"""


# More nodes than those from which on decisions about graphs are kept too.
LARGE = """
w = [random.normal((8, 8), key=random.key(i)) * 0.3 for i in range(12)]
x = random.normal((5, 8), key=random.key(99))
def model(w, x):
    for m in w:
        x = layer_norm(x + softmax(gelu(x @ m), axis=-1))
    return (x * x).sum()
value, g = jit(value_and_grad(model))(w, x)
print(value.item(), [d.tolist() for d in g])
"""


def run(ctx, folder, *, env=None, file=None, options=(), text=PROGRAM):
    program = folder / "program.tsr"
    program.write_text(text)
    return process.run([file or ctx.tessera, "run", "--backend=cpu", "--stats", *options, program], timeout=60,
                       env={"TESSERA_CACHE": str(folder / "store"), **(env or {})})


def output(p):
    if p.returncode or "error" in p.stderr:
        raise Fail(f"exit code {p.returncode}: {p.stderr[-600:]}")
    return p.stdout


def from_cache(p):
    found = re.search(r"from-cache=(\d+)", p.stderr)
    if not found:
        raise Fail(f"no word about kernels: {p.stderr[-600:]!r}")
    return int(found[1])


def same(p, want, cached):
    if output(p) != want:
        raise Fail(f"other results: {p.stdout[:200]!r}")
    if cached is not None and from_cache(p) != cached:
        raise Fail(f"{from_cache(p)} kernels from the cache, not {cached}")


def entries(folder):
    return sorted((folder / "store").glob("*.o"))


def in_folder(f):
    def test(ctx):
        with tempfile.TemporaryDirectory(prefix="tessera-cache-") as d:
            f(ctx, pathlib.Path(d), output(run(ctx, pathlib.Path(d), env={"TESSERA_CACHE": ""})))
    test.__name__ = f.__name__
    return test


@in_folder
def found_by_the_next_process(ctx, d, want):
    same(run(ctx, d), want, 0)
    if len(entries(d)) != KERNELS:
        raise Fail(f"{len(entries(d))} entries")
    same(run(ctx, d), want, KERNELS)
    same(run(ctx, d, options=["--threads=3"]), want, KERNELS)
    if os.stat(d / "store").st_mode & 0o777 != 0o700:
        raise Fail("others may look into the folder")


@in_folder
def keys_know_the_machine(ctx, d, want):
    """Code for an older instruction set, and of another build, has other keys."""
    run(ctx, d)
    same(run(ctx, d, env={"TESSERA_CPU": "base"}), want, 0)
    same(run(ctx, d, env={"TESSERA_CPU": "base"}), want, KERNELS)
    other, text = d / "tessera", pathlib.Path(ctx.tessera).read_bytes()
    id_ = bytes.fromhex(re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-n", ctx.tessera], capture_output=True, text=True).stdout)[1])
    at = text.index(b"GNU\0" + id_) + 4
    other.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1:])
    other.chmod(0o755)
    same(run(ctx, d, file=other), want, 0)
    same(run(ctx, d), want, KERNELS)


@in_folder
def damaged_entries_are_misses(ctx, d, want):
    run(ctx, d)
    for i, place in enumerate((0, 9, 25, 41, 60, -1)):
        for f in entries(d):
            b = bytearray(f.read_bytes())
            b[place] ^= 0x10
            f.write_bytes(b)
        same(run(ctx, d), want, 0)
        same(run(ctx, d), want, KERNELS)                    # mended
    for size in (0, 20, 48, 500):
        for f in entries(d):
            os.truncate(f, size)
        same(run(ctx, d), want, 0)
    first, second = entries(d)[:2]
    shutil.copy(first, second)                              # a whole entry, under the name of another
    same(run(ctx, d), want, KERNELS - 1)


@in_folder
def decisions_about_graphs(ctx, d, _):
    """What large graphs become is found too, and decided again where that is damaged or made with other passes."""
    want = output(run(ctx, d, text=LARGE, env={"TESSERA_CACHE": ""}))
    same(run(ctx, d, text=LARGE, options=["--backend=eval"]), want, None)
    same(run(ctx, d, text=LARGE), want, 0)
    made = entries(d)
    first = run(ctx, d, text=LARGE)
    kernels = from_cache(first)
    if output(first) != want or not kernels or len(made) <= kernels or entries(d) != made:
        raise Fail(f"{kernels} kernels and {len(made)} entries, then {len(entries(d))}")
    for path in made:
        if path.stat().st_size < 16000:
            path.write_bytes(path.read_bytes()[:-1])
    same(run(ctx, d, text=LARGE), want, None)
    same(run(ctx, d, text=LARGE, options=["--no-pass=recompute"]), want, None)
    same(run(ctx, d, text=LARGE), want, kernels)


@in_folder
def folders_that_cannot_be_used(ctx, d, want):
    (d / "store").write_text("a file")
    same(run(ctx, d), want, 0)
    for folder in ("/proc/tessera", "/dev/null/x", str(d / ("long" * 100)), "/proc"):    # none that root may write to
        same(run(ctx, d, env={"TESSERA_CACHE": folder}), want, 0)
    same(run(ctx, d, env={"TESSERA_CACHE": "", "HOME": "/nonexistent"}), want, 0)


@in_folder
def no_room(ctx, d, want):
    """Files may have only 100 bytes: what was written of an entry goes again."""
    (d / "program.tsr").write_text(PROGRAM)
    p = process.run([ctx.tessera, "run", "--backend=cpu", d / "program.tsr"], env={"TESSERA_CACHE": str(d / "store")}, file_size=100)
    same(p, want, None)
    if list((d / "store").iterdir()):
        raise Fail("half-written files stayed")


@in_folder
def processes_at_once_and_killed(ctx, d, want):
    """Programs that start together and are killed at any moment leave a folder that later programs can use."""
    run(ctx, d, env={"TESSERA_CACHE": ""})
    env = {**os.environ, "TESSERA_CACHE": str(d / "store")}
    for i in range(12):
        both = [subprocess.Popen([ctx.tessera, "run", "--backend=cpu", d / "program.tsr"], env=env, stdout=subprocess.PIPE) for _ in range(2)]
        if i % 3:
            time.sleep(0.02 * i)
            both[0].kill()
        said = [p.communicate(timeout=60)[0].decode() for p in both]
        if said[1] != want or (not i % 3 and said[0] != want):
            raise Fail("other results")
        if i % 4 == 3:
            shutil.rmtree(d / "store", ignore_errors=True)
    run(ctx, d)
    same(run(ctx, d), want, KERNELS)


def where(ctx, env):
    return process.run([ctx.tessera, "cache"], env=env).stdout


@in_folder
def places(ctx, d, want):
    """TESSERA_CACHE, then XDG_CACHE_HOME, then HOME."""
    clean = f"env -u TESSERA_CACHE -u XDG_CACHE_HOME HOME={d}/home"
    for settings, folder in ((f"{clean}", "home/.cache/tessera"), (f"{clean} XDG_CACHE_HOME={d}/xdg", "xdg/tessera"),
                             (f"{clean} XDG_CACHE_HOME={d}/xdg TESSERA_CACHE={d}/own", "own")):
        subprocess.run([*settings.split(), ctx.tessera, "run", "--backend=cpu", str(d / "program.tsr")], stdout=subprocess.DEVNULL, check=True)
        if len(list((d / folder).glob("*.o"))) != KERNELS:
            raise Fail(f"not in {folder}")
        p = subprocess.run([*settings.split(), ctx.tessera, "cache"], capture_output=True, text=True)
        if p.stdout.splitlines()[:2] != [f"folder: {d / folder}", f"kernels: {KERNELS}"]:
            raise Fail(p.stdout)


@in_folder
def the_verb(ctx, d, want):
    env = {"TESSERA_CACHE": str(d / "store"), "TESSERA_CACHE_SIZE": "3MB"}
    if "made when there is something" not in where(ctx, env):
        raise Fail(where(ctx, env))
    run(ctx, d)
    (d / "store/notes.txt").write_text("mine")
    if f"kernels: {KERNELS}\n" not in where(ctx, env) or "at most 3.0 MB" not in where(ctx, env):
        raise Fail(where(ctx, env))
    p = process.run([ctx.tessera, "cache", "clear"], env=env)
    if p.stdout != f"removed: {KERNELS}\n" or os.listdir(d / "store") != ["notes.txt"]:
        raise Fail(f"{p.stdout!r}, {os.listdir(d / 'store')}")
    (d / "store").chmod(0o777)
    for argv in (["cache"], ["cache", "clear"]):
        p = process.run([ctx.tessera, *argv], env=env)
        if p.returncode != 1 or "other users may write to it" not in p.stderr or "chmod" not in p.stderr:
            raise Fail(f"exit code {p.returncode}, {p.stderr!r}")
    p = process.run([ctx.tessera, "cache"], env={**env, "TESSERA_CACHE_SIZE": "much"})
    if "TESSERA_CACHE_SIZE" not in p.stderr:
        raise Fail(p.stderr)


FUNCTIONS = (found_by_the_next_process, keys_know_the_machine, damaged_entries_are_misses, decisions_about_graphs, folders_that_cannot_be_used,
             no_room, processes_at_once_and_killed, places, the_verb)


def tests(ctx):
    for f in FUNCTIONS:
        yield Test(f"cache/{f.__name__}", lambda f=f: f(ctx))
