"""Kernels as code of GPUs, without one: which instructions stand in it, and whether estimates are near what ptxas counts."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import process
from harness.test import Fail, Skip, Test

PTXAS = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"

PRODUCT = '''
@kernel.schedule(Schedule(block=(64, 64), block_k=32, warps=4))
def gemm(A: Tensor["M", "K", bf16], B: Tensor["K", "N", bf16], C: Tensor["M", "N", f32]):
    acc = tile.zeros((BM, BN), f32)
    for k in range(0, K, BK):
        acc = tile.dot(tile.load(A[block_m:block_m+BM, k:k+BK]), tile.load(B[k:k+BK, block_n:block_n+BN]), acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], acc)

gemm(ones((128, 64), dtype=bf16), ones((64, 128), dtype=bf16), zeros(128, 128))
'''

COPIED = '''
@kernel.schedule(Schedule(block=(64, 64)))
def doubled(x: Tensor["M", "N", f32], y: Tensor["M", "N", f32]):
    tile.store(y[block_m:block_m+BM, block_n:block_n+BN], 2.0 * tile.load(x[block_m:block_m+BM, block_n:block_n+BN]))

doubled.with_schedule(Schedule(block=(64, 64)VECTOR))(ones((128, 128)), zeros(128, 128))
'''

# Name and program of kernels whose registers are compared.
COUNTED = {"turned": '''
@kernel
def turned(x: Tensor["M", "N", f32], y: Tensor["N", "M", f32]):
    block = tile.alloc_shared((32, 33), f32)
    t = tile.local_id()
    r = t // 32
    q = t % 32
    across = (N + 31) // 32
    top = tile.group_id() // across * 32
    left = tile.group_id() % across * 32
    for k in range(0, 32, 8):
        if top + r + k < M and left + q < N:
            block[r + k, q] = x[top + r + k, left + q]
    tile.barrier()
    for k in range(0, 32, 8):
        if left + r + k < N and top + q < M:
            y[left + r + k, top + q] = block[q, r + k]

turned.launch(grid=4, block=256)(ones((64, 64)), zeros(64, 64))
''', "added": '''
@kernel
def added(x: Tensor["N", f32], y: Tensor["N", f32], z: Tensor["N", f32]):
    i = tile.linear_id()
    if i < N:
        z[i] = x[i] + y[i]

added(ones(100), ones(100), zeros(100))
''', "blurred": '''
@kernel
def blurred(x: Tensor["N", f32], y: Tensor["N", f32]):
    i = tile.linear_id()
    if i < N:
        s = 0.0
        for d in range(-2, 3):
            j = min(max(i + d, 0), N - 1)
            s += x[j] * 0.2
        y[i] = s

blurred(ones(100), zeros(100))
''', "multiplied": '''
@kernel
def multiplied(a: Tensor["M", "K", f32], b: Tensor["K", "N", f32], c: Tensor["M", "N", f32]):
    i = tile.linear_id()
    if i < M * N:
        s = 0.0
        for k in range(K):
            s += a[i // N, k] * b[k, i % N]
        c[i // N, i % N] = s

multiplied(ones((20, 30)), ones((30, 10)), zeros(20, 10))
''', "shared": '''
@kernel
def shared(a: Tensor["M", "K", f32], b: Tensor["K", "N", f32], c: Tensor["M", "N", f32]):
    x = tile.alloc_shared((16, 16), f32)
    y = tile.alloc_shared((16, 16), f32)
    t = tile.local_id()
    r = t // 16
    q = t % 16
    across = (N + 15) // 16
    i = tile.group_id() // across * 16 + r
    j = tile.group_id() % across * 16 + q
    s = 0.0
    for k in range(0, K, 16):
        x[r, q] = a[i, k + q] if i < M and k + q < K else 0.0
        y[r, q] = b[k + r, j] if k + r < K and j < N else 0.0
        tile.barrier()
        for e in range(16):
            s += x[r, e] * y[e, q]
        tile.barrier()
    if i < M and j < N:
        c[i, j] = s

shared.launch(grid=4, block=256)(ones((32, 32)), ones((32, 32)), zeros(32, 32))
'''}


def inspected(ctx, text, *flags):
    with tempfile.TemporaryDirectory() as d:
        file = pathlib.Path(d) / "program.tsr"
        file.write_text(text)
        p = process.run([ctx.tessera, *flags, str(file)], timeout=60)
        if why := process.died(p):
            raise Fail(why)
        return p.stdout


def ptx(ctx, text, machine="sm_90a"):
    code = inspected(ctx, text, "inspect", "--ir=target", f"--machine={machine}")
    if ".entry" not in code:
        raise Skip("no code for GPUs in this build")
    return code[code.index(".version"):]


def matrix_units(ctx):
    """A product of bf16 blocks goes to matrix units with no hint, and memory moves in vectors unless the schedule says how wide."""
    if not re.search(r"\b(mma\.sync|wgmma)\S*\.bf16", code := ptx(ctx, PRODUCT)):
        raise Fail(code[-3000:])
    for said, width in (("", 4), (", vector=2", 2)):
        text = inspected(ctx, COPIED.replace("VECTOR", said), "inspect", "--ir=tile", "--pass=vectors")
        found = [int(w) for w in re.findall(r"(?:load|store) %[xy].*?vector=(\d+)", text)]
        if found != [width, width]:
            raise Fail(f"vector{said}: {found}\n{text}")


def host_units(ctx):
    """Products of kernels go to the matrix units of a CPU where their numerics are fast, and nowhere else."""
    fast = PRODUCT.replace("\ngemm(", "\nwith tessera.fast_math():\n    gemm(")
    for text, machine, want in ((fast, "v4", True), (PRODUCT, "v4", False), (fast, "v3", False)):
        code = inspected(ctx, text, "inspect", "--ir=target", f"--machine={machine}")
        if ("tsr_unit_dot" in code) != want:
            raise Fail(f"{machine}, {want}: {code[-2000:]}")


POWERS = """
@kernel.schedule(Schedule(block=(16, 64)))
def powers(x: Tensor["M", 64, f32], y: Tensor["M", 64, f32]):
    tile.store(y[block_m:block_m+BM, 0:64], OF(tile.load(x[block_m:block_m+BM, 0:64])))
powers(zeros((64, 64)), zeros((64, 64)))
"""


def far_powers(ctx):
    """What is far too small is clamped to where vscalefps is quick again: an exponent of -520, or -360 times log2(e)."""
    for of, least in (("exp2", "0xc4020000"), ("exp", "0xc3b40000")):
        code = inspected(ctx, POWERS.replace("OF", of), "inspect", "--ir=target", "--machine=v4")
        if "vscalefps" not in code or least not in code:
            raise Fail(f"{of}: {code[-2000:]}")


# Products for warpgroups: operands as they lie, what follows them, and which product it is.
WARPGROUPS = [
    ("bf16", "A[block_m:block_m+BM, k:k+BK]", "B[block_n:block_n+BN, k:k+BK]", "T", "bf16", "m64n256k16.f32.bf16.bf16", ", 1, 1, 1, 0, 0;"),
    ("bf16", "A[block_m:block_m+BM, k:k+BK]", "B[k:k+BK, block_n:block_n+BN]", "", "f32", "m64n256k16.f32.bf16.bf16", ", 1, 1, 1, 0, 1;"),
    ("f16", "A[k:k+BK, block_m:block_m+BM]", "B[k:k+BK, block_n:block_n+BN]", "AT", "f16", "m64n256k16.f32.f16.f16", ", 1, 1, 1, 1, 1;"),
    ("int8", "A[block_m:block_m+BM, k:k+BK]", "B[block_n:block_n+BN, k:k+BK]", "T", "int32", "m64n256k32.s32.s8.s8", ", 1;"),
    ("fp8_e4m3", "A[block_m:block_m+BM, k:k+BK]", "B[block_n:block_n+BN, k:k+BK]", "T", "bf16", "m64n128k32.f32.e4m3.e4m3", ", 0, 1, 1;"),
]


def warpgroups(ctx):
    """On sm_90a a product of blocks, as it is written for any machine, is wgmma on blocks that tensor copies bring; on sm_80 it is mma.sync and
    cp.async. ptxas takes both and has nothing to say about spills or serialised products."""
    for dt, a, b, turned, out, name, tail in WARPGROUPS:
        shape = "A: Tensor[\"K\", \"M\", DT], " if "A" in turned else "A: Tensor[\"M\", \"K\", DT], "
        shape += "B: Tensor[\"N\", \"K\", DT], " if turned == "T" else "B: Tensor[\"K\", \"N\", DT], "
        sums = "int32" if dt == "int8" else "f32"
        text = f'''
@kernel.schedule(Schedule(block=(128, {128 if "fp8" in dt else 256}), block_k={64 if "16" in dt else 128}, warps=8))
def gemm({shape.replace("DT", dt)}C: Tensor["M", "N", {out}]):
    acc = tile.zeros((BM, BN), {sums})
    for k in range(0, K, BK):
        acc = tile.dot(tile.load({a}){".T" if "A" in turned else ""}, tile.load({b}){".T" if turned == "T" else ""}, acc)
    tile.store(C[block_m:block_m+BM, block_n:block_n+BN], {f"tile.cast(acc, {out})" if out != sums else "acc"})

x = zeros((128, 128)).to({dt})
gemm(x, x, zeros((128, 128)).to({out}))
'''
        code = ptx(ctx, text)
        for must in (f"wgmma.mma_async.sync.aligned.{name} ", tail, "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
                     "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", "mbarrier.try_wait.parity", "setmaxnreg.inc.sync.aligned.u32 232",
                     ".param .align 64 .b8"):
            if must not in code:
                raise Fail(f"{dt}: no {must}\n{code[-3000:]}")
        assembles(code, "sm_90a")
        older = ptx(ctx, text, "sm_80")
        if "wgmma" in older or "bulk.tensor" in older or ("fp8" not in dt and "mma.sync" not in older):
            raise Fail(older[-3000:])
        assembles(older, "sm_80", False)


# A product whose schedule asks for blocks that work together. What their code has, and what it has not.
TOGETHER = '''tessera.tile v1
kernel @product(%A: view DT[?, 1], %B: view DT[?, 1], %C: view bf16[?, 1]) sizes(m, n, k) grid((n+127)//128, (m+63)//64) schedule="warps=4 SCHEDULE" {
  %k: index = size {name="k"}
  %gn: index = group {axis=0}
  %gm: index = group {axis=1}
  %z: f32[] = const {dtype=f32}
  %none: f32[64, 128] = splat %z {shape=(64, 128)}
  %0: index = index {i=0}
  %64: index = index {i=64}
  %128: index = index {i=128}
  %row: index = imul %gm, %64
  %column: index = imul %gn, %128
  %sum: f32[64, 128] = for %i = %0 to %k step %128 carry(%acc = %none) {
    %x: DT[64, 128] = load %A[%row, %i] {shape=(64, 128)}
    %w: DT[128, 128] = load %B[%column, %i] {shape=(128, 128)}
    %y: DT[128, 128] = permute %w {axes=(1, 0)}
    %next: f32[64, 128] = dot %x, %y, %acc, %128
    yield %next
  }
  %out: bf16[64, 128] = map convert %sum {dtype=bf16}
  store %C[%row, %column], %out
}
'''
WAYS = [
    ("bf16", "stages=4", [r"1, 1, 1, 0, 0;"], r"cluster\.arrive|mapa"),
    ("bf16", "split=2", [r"barrier\.cluster\.arrive", r"mapa\.shared::cluster", r"st\.async\.weak\.shared::cluster", r"add\.rn\.f32"],
     r"multicast|release\.cluster\.shared"),
    ("bf16", "cluster=2", [r"barrier\.cluster\.arrive", r"tensor\.2d\S*\.multicast::cluster", r"mbarrier\.arrive\.shared::cluster"],
     r"st\.async|release\.cluster\.shared"),
    ("bf16", "sets=2 cluster=2", [r"multicast::cluster", r"bar\.arrive"], r"st\.async"),
    ("fp8_e4m3", "stages=4", [r"k32\.f32\.e4m3\.e4m3 \{[^}]*\}, \S+ \S+ 0, 1, 1", r"add\.rn\.f32"], r"cluster\.arrive"),
    ("fp8_e4m3", "stages=4 promote=256", [r"\S+ 0, 1, 1", r"add\.rn\.f32", r"wait_group\.sync\.aligned 1"], r"cluster\.arrive"),
    ("fp8_e4m3", "promote=0", [r"k32\.f32\.e4m3\.e4m3 \{[^}]*\}, \S+ \S+ 1, 1, 1"], r" 0, 1, 1|add\.rn\.f32"),
    ("tf32", "stages=3", [r"m64n128k8\.f32\.tf32\.tf32"], r"mma\.sync"),
]


def together(ctx):
    """Blocks that divide the steps of a tile hand their sums on through shared memory, those that share an operand bring half of it to both; no arrival waits
    for the memory of the whole chip. Sums of bytes are added in f32 after some rounds, if they are. ptxas has nothing to say."""
    for dt, schedule, musts, never in WAYS:
        code = inspected(ctx, TOGETHER.replace("DT", dt).replace("SCHEDULE", schedule), "opt", "--ir=target", "--machine=sm_90a")
        if ".entry" not in code:
            raise Skip("no code for GPUs in this build")
        code = code[code.index(".version"):]
        for must in ["wgmma", *musts]:
            if not re.search(must, code):
                raise Fail(f"{dt} {schedule}: no {must}\n{code[-6000:]}")
        if found := re.search(never, code):
            raise Fail(f"{dt} {schedule}: {found[0]}\n{code[-6000:]}")
        assembles(code, "sm_90a")
    if "st.async" not in ptx(ctx, PRODUCT.replace("warps=4", "warps=4, split=2")):
        raise Fail("a kernel of the program does not divide its steps")


# Softmax of rows of up to 32,768 elements, which two blocks of threads have together.
DIVIDED_ROWS = '''tessera.tile v1
kernel @rows(%x0: view bf16[?, 1], %y0: view bf16[?, 1]) sizes(n0, n1) grid(n0) schedule="whole=1 blocks=2" {
  %0: index = index {i=0}
  %n: index = size {name="n1"}
  %row: index = group {axis=0}
  %x: bf16[1, 32768] = load %x0[%row, %0] {shape=(1, 32768)}
  %f: f32[1, 32768] = map convert %x {dtype=f32}
  %m: f32[1] = reduce max %f, %n {axis=1}
  %c: f32[1, 1] = reshape %m {shape=(1, 1)}
  %d: f32[1, 32768] = map sub %f, %c
  %e: f32[1, 32768] = map exp %d
  %s: f32[1] = reduce sum %e, %n {axis=1}
  %t: f32[1, 1] = reshape %s {shape=(1, 1)}
  %q: f32[1, 32768] = map div %e, %t
  %z: bf16[1, 32768] = map convert %q {dtype=bf16}
  store %y0[%row, %0], %z
}
'''


def divided_rows(ctx):
    """Blocks of threads that have a row together hand each other the sums of its chunks: two meetings, each block loads its half once. The row's largest
    element tells whether exponentials are near; of other numbers each is looked at. Older chips refuse."""
    code = inspected(ctx, DIVIDED_ROWS, "opt", "--ir=target", "--machine=sm_90a")
    if ".entry" not in code:
        raise Skip("no code for GPUs in this build")
    code = code[code.index(".version"):]
    for must, times in ((r"barrier\.cluster\.arrive", 1), (r"barrier\.cluster\.wait", 1), (r"st\.async\.weak\.shared::cluster", 2), (r"try_wait", 2)):
        if len(re.findall(must, code)) != times:
            raise Fail(f"not {times} of {must}\n{code[-6000:]}")
    if not re.search(r"\.maxntid 512\b", code):
        raise Fail(code[:2000])
    other = inspected(ctx, DIVIDED_ROWS.replace("%d: f32[1, 32768] = map sub %f, %c", "%g: f32[1, 32768] = map neg %f\n  %d: f32[1, 32768] = map sub %g, %c"),
                      "opt", "--ir=target", "--machine=sm_90a")
    if other.count("max.NaN.f32") < code.count("max.NaN.f32") + 32:
        raise Fail("elements are compared, though the row's largest one is known")
    assembles(code, "sm_90a")
    if ".entry" in inspected(ctx, DIVIDED_ROWS, "opt", "--ir=target", "--machine=sm_80"):
        raise Fail("there is code for sm_80")


def rows_that_come(ctx):
    """Blocks that stay send for rows before their first one and behind each, by bulk copies; pairs of lanes take 64 threads for 4096 elements, and a word at a
    time from shared memory. Older chips do without."""
    text = DIVIDED_ROWS.replace("blocks=2", "stays=1").replace("32768", "4096").replace("4096)}", "4096) align=8}").replace("%0], %z", "%0], %z {align=8}")
    code = inspected(ctx, text, "opt", "--ir=target", "--machine=sm_90a")
    if ".entry" not in code:
        raise Skip("no code for GPUs in this build")
    code = code[code.index(".version"):]
    for must, times in ((r"cp\.async\.bulk\.shared::cluster\.global", 3), (r"\.maxntid 64\b", 1), (r"try_wait", 2)):
        if len(re.findall(must, code)) != times:
            raise Fail(f"not {times} of {must}\n{code[-6000:]}")
    assembles(code, "sm_90a")
    older = inspected(ctx, text, "opt", "--ir=target", "--machine=sm_80")
    if "cp.async.bulk" in older or ".maxntid 128" not in older:
        raise Fail(older[:2000])


# What follows a product needs a tile of its own, and a row that is the same for all rows; two tiles are stored.
FOLLOWERS = TOGETHER.replace("DT", "bf16").replace("SCHEDULE", "SETS").replace("%C: view bf16[?, 1]", "%C: view bf16[?, 1], %D: view bf16[?, 1], %H: view bf16[?, 1], %V: view bf16[0, 1]") \
    .replace("(m+63)//64", "(m+127)//128").replace("[64, 128]", "[128, 128]").replace("(64, 128)", "(128, 128)").replace("imul %gm, %64", "imul %gm, %128") \
    .replace("  %out: bf16[128, 128] = map convert %sum {dtype=bf16}\n  store %C[%row, %column], %out\n", """
  %hb: bf16[128, 128] = load %H[%row, %column] {shape=(128, 128)}
  %h: f32[128, 128] = map convert %hb {dtype=f32}
  %vb: bf16[1, 128] = load %V[%0, %column] {shape=(1, 128)}
  %v: f32[1, 128] = map convert %vb {dtype=f32}
  %u: f32[128, 128] = splat %v {shape=(128, 128)}
  %c: f32[128, 128] = map mul %u, %h {fast=1}
  %cb: bf16[128, 128] = map convert %c {dtype=bf16}
  store %C[%row, %column], %cb
  %e: f32[128, 128] = map mul %sum, %c {fast=1}
  %f: f32[128, 128] = map add %e, %h {fast=1}
  %d: bf16[128, 128] = map convert %f {dtype=bf16}
  store %D[%row, %column], %d
""")


def followers(ctx):
    """A tile that what follows a product needs comes by tensor copies with the operands, a row is loaded once by each thread before the loop; two tiles are
    stored slab by slab, the same of each. Nothing is loaded element by element."""
    for schedule, pieces in (("sets=2", 4), ("sets=2 cluster=2", 4)):
        code = inspected(ctx, FOLLOWERS.replace("SETS", schedule), "opt", "--ir=target", "--machine=sm_90a")
        if ".entry" not in code:
            raise Skip("no code for GPUs in this build")
        code = code[code.index(".version"):]
        loads, stores = code.count("bulk.tensor.2d.shared::cluster"), code.count("cp.async.bulk.tensor.2d.global")
        if "wgmma" not in code or loads < pieces + 2 or stores < 8 or code.count("ldmatrix") != 16 or code.count("@P ld.") != 1:
            raise Fail(f"{schedule}: {loads} {stores}\n{code[-6000:]}")
        assembles(code, "sm_90a", clean=False)


# Rows of one group each, with a matrix of its own, and both derivatives.
RAGGED = """from tessera.stdlib import ragged_dot
x, w = ones((256, 128)).to(DT), ones((2, 128, 256)).to(DT)
grad(lambda x, w: ragged_dot(x, w, tensor([100, 60], dtype=int32), schedule=Schedule(block_m=128, block_n=256, block_k=64, warps=8)).to(f32).sum(), argnums=(0, 1))(x, w)
"""


def ragged(ctx):
    """Blocks of a part of a parameter that ends at a number of the run come and go by tensor copies whose map ends there, and the numbers are read by who needs them."""
    for dt in ("bf16", "f16"):
        kernels = [k for k in inspected(ctx, RAGGED.replace("DT", dt), "inspect", "--ir=target", "--machine=sm_90a").split("//\n// Generated by LLVM")[1:] if "mma" in k]
        if not kernels:
            raise Skip("no code for GPUs in this build")
        for code in kernels:
            code = code[code.index(".version"):]
            loads, stores = code.count("cp.async.bulk.tensor.4d.shared::cluster"), len(re.findall(r"cp\.async\.bulk\.tensor\.[34]d\.global", code))
            if "wgmma" not in code or "mma.sync" in code or not loads or not stores or "bulk.tensor.2d" in code:
                raise Fail(f"{dt}: {loads} {stores}\n{code[-3000:]}")
            assembles(code, "sm_90a")
        if len(kernels) != 3:
            raise Fail(f"{len(kernels)} kernels")


# A product of f32 as the runtime's are: chunks of 256 steps one after the other, whose sums are added up. ORDER: the right operand's axes.
IN_ORDER = '''tessera.tile v1
kernel @product(%x: view f32[?, 1], %y: view f32[?, 1], %sum: view f32[?, 1]) sizes(m, n, k) grid((n+127)//128, (m+127)//128) schedule="WAY" {
  %0: index = index {i=0}
  %STEP: index = index {i=STEP}
  %128: index = index {i=128}
  %256: index = index {i=256}
  %gm: index = group {axis=1}
  %gn: index = group {axis=0}
  %row: index = imul %gm, %128
  %column: index = imul %gn, %128
  %k: index = size {name="k"}
  %z: f32[] = const {dtype=f32}
  %none: f32[128, 128] = splat %z {shape=(128, 128)}
  %all: f32[128, 128] = for %c = %0 to %k step %256 carry(%before = %none) {
    %far: index = iadd %c, %256
    %end: index = imin %k, %far
    %chunk: f32[128, 128] = for %i = %c to %end step %STEP carry(%acc = %none) {
      %a: f32[128, STEP] = load %x[%row, %i] {shape=(128, STEP)}
RIGHT
      %left: index = isub %end, %i
      %count: index = imin %STEP, %left
      %next: f32[128, 128] = dot %a, %b, %acc, %count
      yield %next
    }
    %total: f32[128, 128] = map add %before, %chunk
    yield %total
  }
  store %sum[%row, %column], %all
}
'''
RIGHT = {"nt": """      %w: f32[128, STEP] = load %y[%column, %i] {shape=(128, STEP)}
      %b: f32[STEP, 128] = permute %w {axes=(1, 0)}""",
         "nn": "      %b: f32[STEP, 128] = load %y[%i, %column] {shape=(STEP, 128)}"}


def in_order(ctx):
    """Products by threads have their blocks brought rounds ahead, from one chunk of steps to the next, and take four elements at once: steps where they
    lie side by side, of both operands in nt, whose right one is turned by nobody, columns in nn. Where a thread has 8 by 16 sums, those of the chunks before wait
    in shared memory, once a chunk. ptxas has nothing to say."""
    for layout, way, step, fours, slots in (("nt", "", 32, 32, 3), ("nn", "", 32, 34, 3), ("nn", "warps=4", 16, 96, 2)):
        text = IN_ORDER.replace("%acc, %count", "%acc, %STEP") if way else IN_ORDER        # as the runtime's are: chunks are of whole rounds
        text = text.replace("RIGHT", RIGHT[layout]).replace("WAY", way).replace("STEP", str(step))
        code = inspected(ctx, text, "opt", "--ir=target", "--machine=sm_90a")
        if ".entry" not in code:
            raise Skip("no code for GPUs in this build")
        code = code[code.index(".version"):]
        found = len(re.findall(r"ld\.shared\.v4\.f32", code))
        if found != fours or code.count("cp.async.commit_group") != slots or f"cp.async.wait_group {slots - 2}" not in code:
            raise Fail(f"{layout}: {found} loads of four\n{code[-6000:]}")
        parked = len(re.findall(r"ld\.shared\.f32", code)), len(re.findall(r"st\.shared\.f32", code))
        if (parked[1] > 100) != (way != ""):
            raise Fail(f"{layout}: {parked} sums wait in shared memory\n{code[-6000:]}")
        assembles(code, "sm_90a")


def divided(ctx):
    """tanh divides by what is always from 1 to 2^30: a guess and one step of Newton's, with no branch."""
    code = ptx(ctx, "@jit\ndef f(x):\n    return tanh(x) * 2.0 + x\nf(ones(4096))\n")
    if "rcp.approx.ftz.f32" not in code or re.search(r"rcp\.rn|div\.rn", code):
        raise Fail(code[-3000:])


# What follows a product: FORMULA of %sum.
FOLLOWED = TOGETHER.replace("  %out: bf16[64, 128] = map convert %sum {dtype=bf16}\n", "FORMULA  %out: bf16[64, 128] = map convert %h {dtype=bf16}\n")


def abreast(ctx):
    """A long formula behind a product goes on abreast, eight elements at a time, and the assembler keeps that order: no instruction waits for the one before
    it more often than for another."""
    for formula, in_order in (("  %h: f32[64, 128] = map tanh %sum\n", True), ("  %h: f32[64, 128] = map neg %sum\n", False)):
        code = inspected(ctx, FOLLOWED.replace("DT", "bf16").replace("SCHEDULE", "sets=2").replace("FORMULA", formula), "opt", "--ir=target", "--machine=sm_90a")
        if ".entry" not in code:
            raise Skip("no code for GPUs in this build")
        code = code[code.index(".version"):]
        if ("// tessera: in order" in code) != in_order or "rcp.rn" in code:
            raise Fail(code[-3000:])
        assembles(code, "sm_90a")
        firsts = re.findall(r"fma\.rn\.f32 \s*(%f\d+), (%f\d+)", code)
        waits = sum(a[0] in b for a, b in zip(firsts, firsts[1:]))
        if in_order and waits * 8 > len(firsts):
            raise Fail(f"{waits} of {len(firsts)} wait for the one before them")


def gone_over(ctx):
    """A long formula of a value of two bytes behind a product is computed in the slots that tiles pass through on their way to memory, 16 elements of a thread
    in each round of a loop, and not by straight code for each of its registers. That of a bf16 is looked up there, in a table that the formula fills, and
    computed where a number is not in it; an operand that is no number of the program leaves it a formula."""
    formula = "  %half: DT[64, 128] = map convert %sum {dtype=DT}\n  %real: f32[64, 128] = map convert %half {dtype=f32}\n  %h: f32[64, 128] = map tanh %real\n"
    beside = formula.replace("  %h:", "  %steps: int64[] = to_tile %k {dtype=int64}\n  %size: f32[] = map convert %steps {dtype=f32}\n  %all: f32[64, 128] = splat %size {shape=(64, 128)}\n  %t:") + "  %h: f32[64, 128] = map add %t, %all\n"
    for dt, follows, looked_up in (("f16", formula, False), ("bf16", formula, True), ("bf16", beside, False)):
        text = FOLLOWED.replace("map convert %h {dtype=bf16}", "map convert %h {dtype=DT}").replace("out: bf16", "out: DT").replace("view bf16", "view DT")
        code = inspected(ctx, text.replace("FORMULA", follows).replace("DT", dt).replace("SCHEDULE", "sets=2"), "opt", "--ir=target", "--machine=sm_90a")
        if ".entry" not in code:
            raise Skip("no code for GPUs in this build")
        code = code[code.index(".version"):]
        many = 16 + 2 * 2 if looked_up else 2 * 16              # of the table, and two at a time of each slab beyond it; of both slabs
        if (n := code.count("rcp.approx")) != many or ("// tessera: in order" in code) == looked_up:
            raise Fail(f"{dt}: {n} formulas\n{code[-6000:]}")
        if (n := len(re.findall(r"ld\.shared\.u16", code))) != (64 if looked_up else 0):
            raise Fail(f"{dt}: {n} are looked up\n{code[-6000:]}")
        assembles(code, "sm_90a")


# Kernels of several products: attention both ways, and one that a program writes. What each of their kernels has.
CHAINS = [("attention", '''
q, k, v, do = [random.normal((1, 2, 200, 128)).to(bf16) for _ in range(4)]
attend = flash_attention.with_schedule(Schedule(block_m=128, block_n=BN, warps=8))
if BN == 64:
    y, back = vjp(lambda q, k, v: attend(q, k, v, causal=CAUSAL), q, k, v)
    back(do)
else:
    attend(q, k, v, causal=CAUSAL)
'''), ("narrow heads", '''
q, k, v = [random.normal((1, 2, 200, 64)).to(f16) for _ in range(3)]
flash_attention.with_schedule(Schedule(block_m=128, block_n=BN, warps=8))(q, k, v, causal=CAUSAL, window=100 if CAUSAL else None)
'''), ("layers", '''
@kernel.schedule(Schedule(block_m=128, block_n=BN, warps=8))
def layers(x: Tensor["M", 128, bf16], v: Tensor[128, "H", bf16], w: Tensor["H", 64, bf16], y: Tensor["M", 64, bf16]):
    xb = tile.load(x[block_m:block_m+BM, 0:128])
    acc = tile.zeros((BM, 64), f32)
    for j in range(0, H, BN):
        h = tile.dot(xb, tile.load(v[0:128, j:j+BN]))
        acc = tile.dot(tile.cast(maximum(h, 0.0), bf16), tile.load(w[j:j+BN, 0:64]), acc)
    tile.store(y[block_m:block_m+BM, 0:64], tile.cast(acc, bf16))
layers.launch(grid=(2, 1))(zeros((200, 128)).to(bf16), zeros((128, 300)).to(bf16), zeros((300, 64)).to(bf16), zeros((200, 64)).to(bf16))
''')]


def chains(ctx):
    """On sm_90a several products of a loop are wgmma, the left operand of those behind the first one in registers; one warp brings the blocks by tensor
    copies, and what lies between stays in registers. ptxas has nothing to say. On sm_80 they are mma.sync."""
    with_rows = 0
    for name, text in CHAINS:
        for causal in ("False", "True"):
            for bn in (64, 128):
                program = text.replace("BN)", f"{bn})").replace("block_n=BN", f"block_n={bn}").replace("if BN", f"if {bn}").replace("CAUSAL", causal)
                kernels = [k for k in inspected(ctx, program, "inspect", "--ir=target", "--machine=sm_90a").split("//\n// Generated by LLVM")[1:] if "mma" in k]
                if not kernels:
                    raise Skip("no code for GPUs in this build")
                for code in kernels:
                    code = code[code.index(".version"):]
                    for must in (r"wgmma\.mma_async\S+ \{[^}]*\}, %rd", r"wgmma\.mma_async\S+ \{[^}]*\}, \{%r", r"cp\.async\.bulk\.tensor\.\dd\.shared",
                                 r"cp\.async\.bulk\.tensor\.\dd\.global", r"mbarrier\.try_wait\.parity", r"setmaxnreg\.inc"):
                        if not re.search(must, code):
                            raise Fail(f"{name} {causal} {bn}: no {must}\n{code[-3000:]}")
                    if found := re.search(r"mma\.sync|cp\.async\.cg|st\.shared\S*f32", code):
                        raise Fail(f"{name} {causal} {bn}: {found[0]}")
                    rows = "ld.shared.f32" in code          # come with blocks of queries, where columns of products have numbers of their own
                    if rows and (name != "attention" or "ld.global.f32" in code):
                        raise Fail(f"{name} {causal} {bn}: rows of f32 from both sides")
                    with_rows += rows
                    assembles(code, "sm_90a")
                    if ("atom.global.inc" in code) != (name != "layers" and causal == "True"):
                        raise Fail(f"{name} {causal} {bn}: groups are taken {'as blocks come to them' if causal == 'False' else 'in turn'}")
                    check_rounds(name, code)
    if with_rows != 2:
        raise Fail(f"{with_rows} kernels of keys have their rows from tensor copies")
    older = inspected(ctx, CHAINS[1][1].replace("BN", "64").replace("CAUSAL", "True"), "inspect", "--ir=target", "--machine=sm_80")
    if "wgmma" in older or "bulk.tensor" in older or "mma.sync" not in older:
        raise Fail(older[-3000:])


# Attention with a mask and a score of the program's, which read tensors.
OWN_MASK = '''
doc, bias = (arange(400) // 90).to(int32), random.normal((2, 400))
q, k, v, do = [random.normal((1, 2, 200, 64)).to(bf16) for _ in range(4)]
attend = flash_attention.with_schedule(Schedule(block_m=128, block_n=64, warps=8))
y, back = vjp(lambda q, k, v: attend(q, k, v, score=lambda s, n, h, q, k: s + bias[h, k], mask=lambda n, h, q, k: doc[q] == doc[k]), q, k, v)
back(do)
'''


def own_masks(ctx):
    """They are evaluated where scores are in registers, by kernels of warpgroups whose loops go over a table's blocks."""
    kernels = [k[k.index(".version"):] for k in inspected(ctx, OWN_MASK, "inspect", "--ir=target", "--machine=sm_90a").split("//\n// Generated by LLVM")[1:] if "mma" in k]
    if not kernels:
        raise Skip("no code for GPUs in this build")
    for code in kernels:
        if "mma.sync" in code or not re.search(r"wgmma\.mma_async", code) or "cp.async.bulk.tensor" not in code:
            raise Fail(code[-3000:])
    if len(kernels) != 3:
        raise Fail(f"{len(kernels)} kernels")


def check_rounds(name, code):
    """A kernel of queries, forward: all is known before a warpgroup's turn, and only maxima meet in each round; sums do behind the loop."""
    if "max.NaN.f32" not in code or "ex2.approx" not in code:
        return
    for part in re.split(r"bar\.sync\s+%r\d+, %r\d+;", code)[1:]:
        issued = part.split("bar.arrive")[0]
        if "wgmma" in issued and (found := re.search(r"try_wait|shfl\.sync|\bdiv\.|\brem\.", issued)):
            raise Fail(f"{name}: {found[0]} between a turn and its products\n{issued[:3000]}")
    if (n := code.count("shfl.sync.bfly")) != 4 * 4 + 4:        # of two rows each: the first round and the others, with masks and without; sums
        raise Fail(f"{name}: {n} exchanges along rows")
    if (n := code.count("vote.sync.all")) != 2:         # further rounds with masks pass over sums that stay as they are, those without where the guess was right
        raise Fail(f"{name}: {n} votes")
    check_guess(name, code)


def check_guess(name, code):
    """Seven of sixteen weights of a round without masks are computed before its maxima are known, and again where these are others, as is what sums are
    scaled by; half of them come behind the wait for the late product."""
    rounds = [part.split("wgmma.fence")[0] for part in code.split("wgmma.wait_group.sync.aligned 1;")[1:]]
    guessed = [part for part in rounds if "ex2.approx" in part.split("shfl.sync.bfly")[0]]
    if len(rounds) != 2 or len(guessed) != 1:
        raise Fail(f"{name}: {len(guessed)} of {len(rounds)} ways guess")
    before, behind = guessed[0].split("shfl.sync.bfly", 1)
    ways = behind.split("vote.sync.all")[1].split("\n$L__")[1:3]
    again = sum(way.count("ex2.approx") for way in ways) - 2       # of two rows
    left = behind[behind.index("wait_group.sync.aligned 0;"):].count("ex2.approx")
    n = re.search(r"m64n(\d+)k16", code[code.index("wgmma.mma_async"):])[1]
    if (before.count("ex2.approx"), again, left) != (int(n) // 2 * 7 // 16, int(n) // 2 * 7 // 16, int(n) // 4):
        raise Fail(f"{name}: of {n} columns {before.count('ex2.approx')} are guessed, {again} computed again, {left} come last")


REFUSED = '''
@kernel
def total(x: Tensor["N", f32], out: Tensor[1, f32]):
    i = tile.linear_id()
    if i < N:
        tile.atomic_add(out, 0, x[i])

@kernel
def doubled(x: Tensor["N", f32], y: Tensor["N", f32]):
    i = tile.linear_id()
    if i < N:
        y[i] = 2.0 * x[i]

@jit
def both(x: Tensor["N", f32]):
    out, y = zeros(1), zeros_like(x)
    total(x, out)
    doubled(x, y)
    return out, y

%s
'''


def refused(ctx):
    """A kernel that has no code for a GPU says why in its place, and the others are shown."""
    for call in ("x, out, y = ones(8), zeros(1), zeros(8)\ntotal(x, out)\ndoubled(x, y)", "both(ones(8))"):
        code = inspected(ctx, REFUSED % call, "inspect", "--ir=target", "--machine=sm_90a")
        if not code:
            raise Skip("no code for GPUs in this build")
        if "// kernel total has no code there: atomic sums of floats, whose order would show\n" not in code or ".entry" not in code:
            raise Fail(code)


AHEAD = '''
@jit
def sums(x: Tensor["M", 20000, f32], w: Tensor["M", 20000, f32]):
    with prefetch(w, into="smem", overlap="compute"):
        y = (x * w).sum(axis=-1)
    return y

sums(ones((4, 20000)), ones((4, 20000)))
'''


def held_ahead(ctx):
    """What a staged block prefetches with overlap="compute": the next block of a row is copied to the other of two buffers while one is used."""
    code = inspected(ctx, AHEAD, "inspect", "--ir=target", "--machine=sm_80")
    if not code:
        raise Skip("no code for GPUs in this build")
    copies = set(re.findall(r"cp\.async\.cg\.shared\.global \[(%r\d+)\]", code))
    if len(copies) < 2 or "cp.async.commit_group" not in code or "cp.async.wait_group" not in code:
        raise Fail(code)


TICKETS = '''
@kernel.schedule(Schedule(BM=32))
def persistent(x: Tensor["N", f32], y: Tensor["N", f32], n: Tensor[1, i32]):
    t = tile.atomic_add(n, 0, 1)
    while t * BM < N:
        tile.store(y[t*BM:t*BM+BM], tile.load(x[t*BM:t*BM+BM]) + 1.0)
        t = tile.atomic_add(n, 0, 1)

x, y, n = ones(100), zeros(100), zeros(1, dtype=i32)
persistent.launch(grid=2, block=64)(x, y, n)
'''


def tickets(ctx):
    """What was there, of a kernel in blocks: one thread asks, and leaves it where all threads read it behind a barrier."""
    code = inspected(ctx, TICKETS, "inspect", "--ir=target", "--machine=sm_90a")
    if not code:
        raise Skip("no code for GPUs in this build")
    counts = [code.count(word) for word in ("atom.global.add.u32", "st.shared.u32", "ld.shared.u32")]
    if counts != [2, 2, 2] or not re.search(r"atom\.global.*?st\.shared.*?bar\.sync.*?ld\.shared", code, re.S):
        raise Fail(code)


WARPS = '''
@kernel
def rows(x: Tensor["M", "N", f32], y: Tensor["M", f32]):
    w = tile.linear_id() // 32
    if w < M:
        s = 0.0
        for j in range(tile.lane_id(), N, 32):
            s += x[w, j]
        s = tile.warp.reduce_sum(s)
        if tile.lane_id() == 0:
            y[w] = s

@kernel
def first(x: Tensor["N", f32], y: Tensor["G", f32]):
    s = tile.alloc_shared((8,), f32)
    t = tile.local_id()
    v = tile.warp.reduce_sum(x[tile.linear_id()])
    if t % 32 == 0:
        s[t >> 5] = v
    tile.barrier()
    if t < 32:
        v = s[t] if t < 8 else 0.0
        for d in [4, 2, 1]:
            v += tile.warp.butterfly(v, d)
        if t == 0:
            y[tile.group_id()] = v

@kernel
def found(x: Tensor["N", f32], y: Tensor["N", f32]):
    i = tile.linear_id()
    v = x[i]
    if tile.warp.any(v > 1.0):
        v = tile.warp.shuffle(v, 31 - tile.lane_id())
    y[i] = v

rows.launch(grid=2, block=128)(ones((7, 50)), zeros(7))
first.launch(grid=2, block=256)(ones(512), zeros(2))
found.launch(grid=2, block=64)(ones(128), zeros(128))
'''


def whole_warps(ctx):
    """What lanes of a warp do together has code where whole warps may be missing, and none where lanes of one may."""
    code = inspected(ctx, WARPS, "inspect", "--ir=target", "--machine=sm_90a")
    if not code:
        raise Skip("no code for GPUs in this build")
    if code.count(".entry") != 3 or "has no code" in code:
        raise Fail(code[-3000:])
    for part in code.split("//\n// Generated by LLVM")[1:]:
        assembles(part[part.index(".version"):], "sm_90a")
    for old, new in (("if w < M", "if w < M and tile.lane_id() < 9"), ("if t < 32", "if t < 31"), ("any(v > 1.0)", "any(v > 1.0) or v > 2.0")):
        code = inspected(ctx, WARPS.replace(old, new), "inspect", "--ir=target", "--machine=sm_90a")
        if code.count(".entry") != 2 or "where some lanes may be missing" not in code:
            raise Fail(f"{new}: {code[-3000:]}")


ENDS = '''
@jit
def scaled(x: Tensor["N", "D"])CONSTRAINT:
    return softmax(x * 2.0, axis=-1)

scaled(ones(4, 16))
'''


def row_ends(ctx):
    """Rows that are known to end with a vector go by vectors, of which those behind the end are chosen away, though their chunk is longer."""
    code = {said: ptx(ctx, ENDS.replace("CONSTRAINT", said)) for said in ("", " where D % 8 == 0", " where D % 2 == 0")}
    chosen = {said: len(re.findall(r"selp\.b?[us]?64", text)) for said, text in code.items()}
    if code[" where D % 2 == 0"].count("ld.global.v4") != code[""].count("ld.global.v4") or chosen[" where D % 8 == 0"] < chosen[""] + 4:
        raise Fail(str(chosen))
    if chosen[" where D % 2 == 0"] != chosen[""]:        # a vector has four elements
        raise Fail(str(chosen))
    for text in code.values():
        assembles(text[text.index(".version"):], "sm_90a")


PREFETCHED = '''
@jit
def layer(x, w):
    tessera.memory.prefetch_to_l2(w)
    return relu(x) @ w

layer(ones(4, 16), ones(16, 8))
'''


def prefetched(ctx):
    """What is prefetched to the L2 cache is asked for by an instruction, line by line; elsewhere it is a step without a kernel."""
    for machine in ("sm_80", "sm_90a"):
        code = ptx(ctx, PREFETCHED, machine)
        part = next((p for p in code.split("// Generated by LLVM") if ".entry kernel" in p and "prefetch.global.L2 [" in p), "")
        if "st.global" in part or "ld.global" in part or not part:
            raise Fail(code)
        assembles(part[part.index(".version"):], machine)
    text = inspected(ctx, PREFETCHED, "inspect", "--ir=tile", "--machine=sm_90a")
    if "    prefetch %x[%" not in text or "prefetch" in inspected(ctx, PREFETCHED, "inspect", "--ir=target"):
        raise Fail(text)


def assembles(code, arch, clean=True):
    if not os.access(PTXAS, os.X_OK):
        return
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / "k.ptx").write_text(code)
        p = subprocess.run([PTXAS, f"-arch={arch}", "-v", "k.ptx", "-o", "k.cubin"], cwd=d, capture_output=True, text=True)
    said = p.stdout + p.stderr
    spilled = int((re.findall(r"(\d+) bytes spill stores", said) or [0])[0])
    if p.returncode or (clean and (spilled or re.search(r"C75\d\d", said))):
        raise Fail(said)


def registers(ctx):
    """`lint --registers` is within a fifth of what ptxas hands out."""
    if not os.access(PTXAS, os.X_OK):
        raise Skip("no ptxas")
    off = []
    for name, text in COUNTED.items():
        told = re.search(rf"{name}: Registers: (\d+)/255", inspected(ctx, text, "lint", "--registers"))
        with tempfile.TemporaryDirectory() as d:
            (pathlib.Path(d) / "k.ptx").write_text(ptx(ctx, text))
            p = subprocess.run([PTXAS, "-arch=sm_90a", "-v", "k.ptx", "-o", "k.cubin"], cwd=d, capture_output=True, text=True)
        used = re.search(r"Used (\d+) registers", p.stdout + p.stderr)
        if not told or not used:
            raise Fail(f"{name}: {told}\n{p.stderr}")
        if abs(int(told[1]) / int(used[1]) - 1) > 0.2:
            off.append(f"{name}: estimated {told[1]}, ptxas {used[1]}")
    if off:
        raise Fail("\n".join(off))


def tests(ctx):
    yield Test("targets/held_ahead", lambda: held_ahead(ctx), ("MEM-10",))
    yield Test("targets/tickets", lambda: tickets(ctx))
    yield Test("targets/matrix_units", lambda: matrix_units(ctx), ("KER-46",))
    yield Test("targets/host_units", lambda: host_units(ctx), ("CG-05",))
    yield Test("targets/far_powers", lambda: far_powers(ctx), ("CG-05",))
    yield Test("targets/warpgroups", lambda: warpgroups(ctx), ("CG-02", "CG-04", "CG-08"))
    yield Test("targets/ragged", lambda: ragged(ctx), ("CG-08",))
    yield Test("targets/followers", lambda: followers(ctx), ("CG-08",))
    yield Test("targets/together", lambda: together(ctx), ("CG-02", "CG-08"))
    yield Test("targets/divided_rows", lambda: divided_rows(ctx))
    yield Test("targets/rows_that_come", lambda: rows_that_come(ctx))
    yield Test("targets/in_order", lambda: in_order(ctx))
    yield Test("targets/divided", lambda: divided(ctx))
    yield Test("targets/abreast", lambda: abreast(ctx))
    yield Test("targets/gone_over", lambda: gone_over(ctx))
    yield Test("targets/chains", lambda: chains(ctx), ("CG-02", "CG-08"))
    yield Test("targets/own_masks", lambda: own_masks(ctx), ("CG-08",))
    yield Test("targets/whole_warps", lambda: whole_warps(ctx))
    yield Test("targets/row_ends", lambda: row_ends(ctx), ("TYP-11",))
    yield Test("targets/prefetched", lambda: prefetched(ctx), ("EFF-04",))
    yield Test("targets/refused", lambda: refused(ctx))
    yield Test("targets/registers", lambda: registers(ctx), ("SAFE-03",))
