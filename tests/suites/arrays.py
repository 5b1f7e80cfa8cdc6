"""Random tensor statements against NumPy (harness/arrays.py); skipped where python3 has no NumPy."""
import math
import pathlib
import tempfile
import warnings

from harness import arrays, process
from harness.test import Fail, Skip, Test

SEEDS, CASES = range(1, 13), 250
EPS = {"f16": 2.0 ** -10, "f32": 2.0 ** -23, "c64": 2.0 ** -23}
NAMES = {"nan": math.nan, "inf": math.inf, "nanj": complex(0, math.nan), "infj": complex(0, math.inf)}


def wanted(np, case):
    """NumPy's answer as an array, or the exception."""
    try:
        return np.asarray(eval(case.numpy, {"np": np, **{o.name: o.numpy(np) for o in case.operands}}))
    except Exception as e:
        return e


def close(np, got, want, dtype, ulps):
    if want.dtype.kind not in "fc" and got.dtype.kind not in "fc":
        return np.array_equal(got.astype(object), want.astype(object)) if want.size else True
    eps = max(EPS.get(dtype, 2.0 ** -52), EPS["f16"] if want.dtype == np.float16 else 0) * ulps
    return np.allclose(got.astype(complex), want.astype(complex), rtol=eps, atol=eps, equal_nan=True)


def difference(np, case, line, want):
    """What is wrong with the line that Tessera printed, or None."""
    rest = line.partition(" |")[2]
    if rest.startswith("!") or isinstance(want, Exception):
        same = rest.startswith("!") and isinstance(want, Exception)
        return None if same else f"{rest.strip()[:200]}, NumPy: {want if isinstance(want, Exception) else want.shape}"
    dtype, shape, values = (t.strip() for t in rest.split("|", 2))
    got = np.asarray(eval(values, NAMES))
    if eval(shape) != list(want.shape):
        return f"shape {shape}, NumPy {list(want.shape)}"
    with np.errstate(all="ignore"):
        ok = close(np, got.reshape(want.shape), want, dtype, case.ulps)
    return None if ok else f"{values[:300]}\n  NumPy   {str(want.tolist())[:300]}"


def compare(ctx, seed):
    try:
        import numpy as np
    except ImportError:
        raise Skip("python3 has no numpy")
    some = arrays.cases(seed, CASES)
    with tempfile.TemporaryDirectory() as d, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = pathlib.Path(d) / f"arrays{seed}.tsr"
        path.write_text(arrays.program(some))
        ran = process.run([ctx.tessera, "run", path], cwd=d)
        if why := process.died(ran) or (ran.returncode and ran.stderr.strip()[-300:]):
            raise Fail(why)
        lines = ran.stdout.splitlines()
        if len(lines) != len(some):
            raise Fail(f"{len(lines)} lines for {len(some)} cases")
        for k, (case, line) in enumerate(zip(some, lines)):
            if why := difference(np, case, line, wanted(np, case)):
                raise Fail(f"seed {seed}, case {k}: {case.statement}\n  " +
                           "\n  ".join(f"{o.name} = {o.dtype}{o.shape}{''.join(v[0] for v in o.views)}" for o in case.operands) + f"\n  got     {why}")


def tests(ctx):
    for seed in SEEDS:
        yield Test(f"arrays/random-{seed}", lambda seed=seed: compare(ctx, seed))
