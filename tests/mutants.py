#!/usr/bin/env python3
"""Planted miscompiles: are they caught by the random functions of suites/staged.py?  ./dev mutants [NAME...]

Each mutant is one change of the compiler's source, in a copy of the tree (build-mutants): a mask dropped, an identity that is
none, a rounding fused away, a guard forgotten.  The copy is built and runs the 2,000 functions of CI until one differs.
What nothing notices is printed, and more than 2 of those fail.  A change whose place in the source is gone is said, too.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
WORK = ROOT / "build-mutants"
MISSED_MOST = 2

# (name, file, what stands there once, what stands there instead)
MUTANTS = [
    # Graph IR: staging, passes, the executor
    ("permutation-taken-for-none", "src/ir/graph/pass.c", "            if (n->attr->axis[i] != i - n->attr->naxes)\n                return false;\n        return true;\n    default", "            if (n->attr->axis[i] >= 0)\n                return false;\n        return true;\n    default"),
    ("dce-drops-checks", "src/ir/graph/pass.c", "|| may_fail(n);", "|| (may_fail(n) && !n->id);"),
    ("numbers-of-other-sizes", "src/ir/graph/sizes.c", "    p->known = false;\n    forget_made(p);\n", "    p->known = false;\n"),
    ("arms-swapped", "src/ir/graph/region.c", "a->region[truth(in[0]) ? 0 : 1]", "a->region[truth(in[0]) ? 1 : 0]"),
    ("scan-one-round-short", "src/ir/graph/region.c", "for (int64_t k = 0; ok && k < s.len; k++)", "for (int64_t k = 0; ok && k < s.len - (s.len > 4); k++)"),
    ("memory-taken-early", "src/ir/graph/apply.c", "if (r->left[s] == 1)", "if (r->left[s] <= 2)"),
    ("guard-forgotten", "src/ir/graph/sizes.c", "return first_misfit(p, in) < 0 && conditions_hold(g) && remember(p, in);", "return remember(p, in);"),
    ("sizes-of-the-last-call", "src/ir/graph/sizes.c", "    if (as_last_time(p, in))\n        return true;", "    if (p->step.n > 1)\n        return true;"),
    # Schedule IR
    ("result-forgotten", "src/ir/schedule/fuse.c", "return !region_moves(n) && used_outside(u, u->f->place[n->id]);", "return !region_moves(n) && used_outside(u, u->f->place[n->id]) && u->f->result[u->f->place[n->id]];"),
    ("cycle-fused", "src/ir/schedule/fuse.c", "            if (inside && !in_either(f, p, a, b))\n                return true;", ""),
    ("permutation-ignored", "src/ir/schedule/region.c", "int source = i < lead ? i : n->attr->axis[i - lead] + f->rank[from];", "int source = f->size[f->at[from][i] < 0 ? 0 : f->at[from][i]] == f->size[f->at[to][i] < 0 ? 0 : f->at[to][i]] ? i : i < lead ? i : n->attr->axis[i - lead] + f->rank[from];"),
    ("hoisted-load", "src/ir/schedule/lower.c", "l->steady[v] = !l->r->value[v].inside && (operand < 0 || !l->stride[operand].inner);", "l->steady[v] = !l->r->value[v].inside && operand < 64;"),
    ("broadcast-row-moves", "src/ir/schedule/lower_memory.c", "    lower_set_place(l, in + 1, c.outer ? l->row0 : l->zero, c.inner ? l->col : l->zero);\n    lower_set_shape(", "    lower_set_place(l, in + 1, l->row0, c.inner ? l->col : l->zero);\n    lower_set_shape("),
    ("narrow-accumulator", "src/ir/schedule/lower_impl.h", ": accum_dtype(n->attr, (DType)gvalue_type(n->in[0])->dtype, (DType)n->type[0].dtype);", ": (DType)gvalue_type(n->in[0])->dtype;"),
    ("saturation-lost", "src/ir/schedule/lower.c", "        a.saturate = how->saturate;\n", "        a.saturate = !how->saturate;\n"),
    ("tail-counted-whole", "src/ir/schedule/lower.c", "l->step : add2(l, TOP_imin, l->step, add2(l, TOP_isub, l->to, l->col));", "l->step : l->step;"),
    ("tail-one-short", "src/ir/schedule/lower.c", "add2(l, TOP_isub, l->to, l->col));", "add2(l, TOP_isub, add2(l, TOP_isub, l->to, index_of(l, 1)), l->col));"),
    ("constant-rounded", "src/ir/schedule/lower.c", "        a.f = elem_get_f(t, t->offset);\n", "        a.f = (float)(int)(elem_get_f(t, t->offset) * 1024) / 1024.0;\n"),
    ("kept-rows-of-another-group", "src/ir/schedule/lower_memory.c", "l->row0 = is_buffer(l, v) ? l->zero : row0;", "l->row0 = is_buffer(l, v) ? l->zero : l->zero;"),
    ("variant-of-other-strides", "src/ir/schedule/fused_code.c", " || memcmp(v->stride, stride, sizeof *stride * (size_t)n)))\n        v = v->next;", "))\n        v = v->next;"),
    # launches
    ("kept-axes-miscounted", "src/runtime/launch.c", "s->nkept -= axis < s->nkept;", "s->nkept -= axis <= s->nkept;"),
    ("axes-merged-by-one-operand", "src/runtime/launch.c", "    for (int i = 0; i < s->nargs; i++)\n        if (!goes_on(s,", "    for (int i = 0; i < 1; i++)\n        if (!goes_on(s,"),
    ("last-group-dropped", "src/runtime/launch.c", "return size ? (n + size - 1) / size : 1;", "return size ? n < size ? 1 : n / size : 1;"),
    ("rounds-mixed", "src/runtime/launch.c", "        round /= s->size[a];", "        round /= s->size[0];"),
    ("part-begins-late", "src/runtime/launch.c", "int64_t g = part * all / l->parts, end", "int64_t g = part * all / l->parts + (part > 2), end"),
    # Tile IR
    ("times-two-dropped", "src/ir/tile/fold.c", "return nb && b == 1 && becomes(f, n, n->in[0]);\n    case TOP_idiv", "return nb && b <= 4 && becomes(f, n, n->in[0]);\n    case TOP_idiv"),
    ("maximum-from-zero", "src/ir/tile/exec_eval.c", "reduction == OP_max ? -INFINITY", "reduction == OP_max ? 0"),
    ("minimum-from-large", "src/ir/tile/exec_eval.c", "reduction == OP_min ? INFINITY", "reduction == OP_min ? 1000"),
    # code
    ("lane-mask-one-more", "src/codegen/cpu_access.c", "mask = LLVMBuildICmp(b, LLVMIntSLT, number,", "mask = LLVMBuildICmp(b, LLVMIntSLE, number,"),
    ("edge-never-masked", "src/codegen/cpu_access.c", "cpu_compare(e, LLVMIntSLE, end, view->extent[i])", "cpu_compare(e, LLVMIntSLE, cpu_op(e, LLVMSub, end, cpu_number(e, length - 1)), view->extent[i])"),
    ("rounding-fused-away", "src/codegen/cpu_eval.c", "    if (!raw_is_lane(to) && !gives_operands((OpId)n->attr->op, to) && !raises_bf16(n)) {      /* only rounded is it the tile's element */", "    if (!raw_is_lane(to) && to != DT_bf16 && !gives_operands((OpId)n->attr->op, to) && !raises_bf16(n)) {"),
    ("stride-of-fourth-lane", "src/codegen/lanes.c", "LLVMBuildMul(u->builder, stride, i64_value(u, i), \"\")", "LLVMBuildMul(u->builder, stride, i64_value(u, i == 3 ? 2 : i), \"\")"),
    ("scalar-stretched-wrong", "src/codegen/cpu_eval.c", "            s.strip = s.strip == i ? -1 : s.strip;", ""),
    ("lanes-summed-in-mirror", "src/codegen/cpu_walk.c", "x[l] = cpu_step(e, step, dt, x[l], x[l + n], c->width);", "x[l] = cpu_step(e, step, dt, x[l], x[2 * n - 1 - l], c->width);"),
    ("lane-chosen-by-four", "src/codegen/cpu_walk.c", "cpu_op(e, LLVMAnd, e->spot.at[c->axis], cpu_number(e, CHUNK_LANES - 1))", "cpu_op(e, LLVMAnd, e->spot.at[c->axis], cpu_number(e, 3))"),
    ("count-off-by-one", "src/codegen/cpu_walk.c", "taken = cpu_lane_mask(e, at, s->count, true, NULL);", "taken = cpu_lane_mask(e, at, cpu_op(e, LLVMAdd, s->count, cpu_number(e, 1)), true, NULL);"),
    ("tree-joined-early", "src/codegen/cpu_walk.c", "    in[0] = cpu_op(e, LLVMAdd, s->count, cpu_number(e, 1));", "    in[0] = cpu_op(e, LLVMAdd, s->count, cpu_number(e, 2));"),
    ("push-counted-twice", "src/codegen/cpu_walk.c", "LLVMBuildStore(e->u->builder, cpu_op(e, LLVMAdd, s->count, cpu_number(e, 1)), y->count);", "LLVMBuildStore(e->u->builder, cpu_op(e, LLVMAdd, s->count, cpu_number(e, 2)), y->count);"),
    ("choice-swapped", "src/codegen/formula.c", ": LLVMBuildSelect(b, x[0], x[1], x[2], \"\");", ": LLVMBuildSelect(b, x[0], x[2], x[1], \"\");"),
    ("operands-swapped", "src/codegen/formula.c", "return LLVMBuildBinOp(b, opcode, x[0], x[1], \"\");", "return LLVMBuildBinOp(b, opcode, x[opcode == LLVMFSub], x[opcode != LLVMFSub], \"\");"),
    ("multiply-add-contracted", "src/codegen/formula.c", "    values[f->nin + k] = inst(u, f, i, x, width);", "    values[f->nin + k] = inst(u, f, i, x, width);\n        if (LLVMIsAInstruction(values[f->nin + k]) && (LLVMGetInstructionOpcode(values[f->nin + k]) == LLVMFMul || LLVMGetInstructionOpcode(values[f->nin + k]) == LLVMFAdd))\n            LLVMSetFastMathFlags(values[f->nin + k], LLVMFastMathAllowContract);"),
    ("denormals-flushed", "src/codegen/cpu_eval.c", "        y.lane = computed(e, n, as, in, p);\n    if (n->attr->flush)", "        y.lane = computed(e, n, as, in, p);\n    if (n->attr->flush || (to == DT_f32 && n->attr->op == OP_mul))"),
    ("less-for-greater", "src/codegen/formula.c", "greater ? GREATER : LESS, lanes, width);", "LESS, lanes, width);"),
    ("number-for-nan", "src/codegen/formula.c", "LLVMRealUNO, x[0], x[1], \"\"), LLVMBuildFAdd", "LLVMRealUNO, x[0], x[0], \"\"), LLVMBuildFAdd"),
    ("condition-inverted-for-nan", "src/codegen/formula.c", "return LLVMBuildFCmp(b, predicate, x[0], x[1], \"\");", "return LLVMBuildFCmp(b, predicate == LLVMRealOLT ? LLVMRealULT : predicate, x[0], x[1], \"\");"),
    # what runs outside of kernels: steps slice by slice, rows in pieces
    ("slices-of-one-batch", "src/ir/schedule/steps_slices.c", "at += slice % s->lead[k] * t->stride[own];", "at += slice % s->lead[k] * t->stride[0];"),
    ("slice-rows-from-the-first", "src/ir/schedule/steps_slices.c", "(uintptr_t)(row * row_of(s, x, i) * space.arg[i].bytes)", "(uintptr_t)(slice * row_of(s, x, i) * space.arg[i].bytes)"),
    ("brought-rows-of-another-place", "src/ir/schedule/fused_brought.c", "for (int a = lies->nkept - 1; a >= 0; row /= lies->size[a--])", "for (int a = lies->nkept - 1; a > 0; row /= lies->size[a--])"),
    ("brought-run-once-more", "src/ir/schedule/fused_brought.c", "near = copy_row(w, a + 1, lies + i * w->stride[a] * w->bytes, near, way);", "near = copy_row(w, a + 1, lies + (i & 7) * w->stride[a] * w->bytes, near, way);"),
]


def applies(name, path, old, new):
    """Does the place stand in the source, once?"""
    file = ROOT / path
    return file.exists() and file.read_text().count(old) == 1


def copy_tree():
    """The sources as they are, and a build folder; what is unchanged keeps its times."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for f in listed.stdout.splitlines():
        source, to = ROOT / f, WORK / "tree" / f
        if source.is_file() and (not to.exists() or to.read_bytes() != source.read_bytes()):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to)
            shutil.copymode(source, to)
    if not (WORK / "build/build.ninja").exists():
        subprocess.run(["meson", "setup", WORK / "build", WORK / "tree", "-Dbuildtype=debugoptimized"], check=True, stdout=subprocess.DEVNULL,
                       env={"CC": "ccache gcc" if shutil.which("ccache") else "gcc", **os.environ})


def build():
    return subprocess.run(["ninja", "-C", WORK / "build", "-j2", "tessera"], capture_output=True, text=True)


def caught():
    """The first program that differs, or None."""
    from harness.test import Context, Fail
    from suites import staged                           # which knows this file
    ctx = Context(ROOT, WORK / "build", ROOT.parent / "shared", str(WORK / "build/tessera"))
    for name, flags, seed in staged.programs():
        try:
            staged.compare(ctx, flags, seed, timeout=900)   # a busy machine is no catch
        except Fail as e:
            return name, str(e).splitlines()[0][:100]
    return None


def main(argv):
    os.environ["TESSERA_CACHE"] = ""
    os.environ["TESSERA_VERIFY"] = "1"
    chosen = [m for m in MUTANTS if not argv or m[0] in argv]
    gone = [m[0] for m in chosen if not applies(*m)]
    copy_tree()
    if not argv and (build().returncode or caught()):
        sys.exit("the compiler as it is does not build, or differs")
    missed, found = [], 0
    for name, path, old, new in chosen:
        if name in gone:
            continue
        target, began = WORK / "tree" / path, time.time()
        text = target.read_text()
        target.write_text(text.replace(old, new))
        try:
            made = build()
            how = None if made.returncode else caught()
        finally:
            target.write_text(text)
        if made.returncode:
            gone.append(name)
            print(f"{name}: does not build\n{made.stdout[-600:]}", flush=True)
            continue
        found += how is not None
        if how is None:
            missed.append(name)
        print(f"{name}: {'MISSED' if how is None else 'caught by ' + how[0] + ': ' + how[1]} ({time.time() - began:.0f} s)", flush=True)
    print(f"{found} of {found + len(missed)} caught" + (f"; missed: {', '.join(missed)}" if missed else "") + (f"; gone: {', '.join(gone)}" if gone else ""))
    return len(missed) > MISSED_MOST


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
