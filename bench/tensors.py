"""Tensor operations against NumPy's: the rows, and the two programs that measure them.

Every statement is run by both; HEAD_NUMPY gives NumPy the names that Tessera has.  A statement repeats until it has taken
a while, and its time is the best of several such rounds.
"""

# name, statement; the data is DATA's.  Sizes: a million elements unless the name says otherwise.
ROWS = {
    "small": [(s, s) for s in ("s4 + t4", "s4 * 2.0", "s4[0]", "s4[1:3]", "s4.sum()", "exp(s4)", "s4 < t4", "s44 @ s44", "s44.sum(axis=0)",
                               "maximum(s4, t4)", "s44.T", "s4.reshape((2, 2))", "where(s4 < t4, s4, t4)")],
    "f32": [(s, s) for s in ("x + y", "x - y", "x * y", "x / y", "p ** y", "x // p", "x % p", "-x", "abs(x)", "sqrt(p)", "exp(x)", "log(p)",
                             "log1p(p)", "expm1(x)", "exp2(x)", "log2(p)", "log10(p)", "tanh(x)", "sin(x)", "cos(x)", "tan(x)", "sinh(x)", "cosh(x)",
                             "asin(u)", "acos(u)", "atan(x)", "atan2(x, y)", "floor(x)", "round(x)", "sign(x)", "minimum(x, y)", "maximum(x, y)",
                             "where(c, x, y)", "x < y", "x == y", "isnan(x)", "isfinite(x)", "x + 1.0", "2.0 * x", "x * x", "clip(x, -0.5, 0.5)",
                             "(x + y) * 2.0 - x")],
    "f64": [(s, s) for s in ("dx + dy", "dx * dy", "dx / dy", "sqrt(dp)", "exp(dx)", "log(dp)", "tanh(dx)", "sin(dx)", "cos(dx)", "dp ** dy",
                             "abs(dx)", "maximum(dx, dy)", "where(c, dx, dy)", "dx < dy", "log1p(dp)", "expm1(dx)", "atan(dx)", "floor(dx)")],
    "f16": [(s, s) for s in ("hx + hy", "hx * hy", "hx / hy", "sqrt(hp)", "exp(hx)", "tanh(hx)", "maximum(hx, hy)", "hx < hy", "hx.sum()",
                             "where(c, hx, hy)")],
    "ints": [(s, s) for s in ("ix + iy", "ix * iy", "ix // ip", "ix % ip", "ix & iy", "ix ^ iy", "ix << is_", "ix >> is_", "ix < iy", "ix == iy",
                              "maximum(ix, iy)", "abs(ix)", "~ix", "-ix", "lx + ly", "lx * ly", "lx // lp", "lx & ly", "maximum(lx, ly)", "lx < ly",
                              "bx + by", "bx * by", "bx & by", "maximum(bx, by)", "bx < by", "where(c, ix, iy)", "c & d", "c | d", "c ^ d", "~c")],
    "cast": [(f"{a} to {b}", f"cast({a}, {b})") for a, b in (("x", "f64"), ("x", "f16"), ("x", "int32"), ("x", "int64"), ("x", "uint8"), ("x", "bool_"),
                                                           ("dx", "f32"), ("dx", "int64"), ("dx", "f16"), ("hx", "f32"), ("hx", "int32"), ("ix", "f32"), ("ix", "int64"),
                                                           ("ix", "f16"), ("lx", "f32"), ("lx", "f64"), ("lx", "int32"), ("bx", "f32"), ("bx", "int32"), ("c", "f32"), ("c", "int32"))],
    "layout": [(s, s) for s in ("X + row", "X + col", "row + X", "col * row", "X.T + Y", "X + Y.T", "X.T + Y.T", "W[:, ::2] + W[:, 1::2]", "W[:, :1000] + Y",
                                "X[::-1] + Y", "X[:, ::-1] + Y", "exp(X.T)", "cast(X.T, f64)", "copy(X.T)", "copy(W[:, ::2])", "copy(Q.transpose(1, 0, 2))",
                                "copy(Q.transpose(2, 0, 1))", "concatenate((X, Y), 0)", "concatenate((X, Y), 1)", "X[1:, 1:] - X[:-1, :-1]", "x[::2] + y[::2]",
                                "roll(x, 1000)", "broadcast_to(row, (1000, 1000)) + col")],
    "reduce": [(s, s) for s in ("x.sum()", "x.max()", "x.min()", "x.mean()", "x.prod()", "x.argmax()", "X.sum(axis=0)", "X.sum(axis=1)", "X.max(axis=0)",
                                "X.max(axis=1)", "X.mean(axis=0)", "X.var(axis=1)", "X.std(axis=0)", "X.argmax(axis=0)", "X.argmax(axis=1)", "X.T.sum(axis=0)", "X.T.max(axis=1)",
                                "Q.sum(axis=1)", "Q.max(axis=1)", "Q.sum(axis=(0, 2))", "T.sum(axis=1)", "T.max(axis=1)", "T.sum(axis=0)", "T.max(axis=0)",
                                "dx.sum()", "dx.max()", "DX.sum(axis=0)", "DX.max(axis=1)", "ix.sum()", "ix.max()", "IX.sum(axis=0)", "IX.max(axis=0)", "lx.sum()", "lx.max()", "bx.max()",
                                "c.any()", "d.all()", "C.any(axis=0)", "C.sum()", "cumsum(x, 0)", "cumsum(X, 1)", "cumsum(X, 0)", "cumsum(lx, 0)", "hx.max()", "count_nonzero(c)")],
    "sort": [(s, s) for s in ("sort(x)", "argsort(x)", "sort(X)", "argsort(X)", "sort(T)", "sort(dx)", "argsort(dx)", "sort(ix)", "argsort(ix)", "sort(lx)", "sort(bx)", "sort(hx)",
                              "searchsorted(sorted_, x)", "sort(row)", "argsort(row)", "unique(ismall)")],
    "index": [(s, s) for s in ("x[at]", "X[rows]", "X[:, rows]", "x[c]", "take(x, at)", "nonzero(c)", "X[rows, rows]")],
    "matmul": [(s, s) for s in ("M8 @ M8", "M16 @ M16", "M32 @ M32", "M64 @ M64", "M100 @ M100", "M128 @ M128", "M256 @ M256", "M512 @ M512", "M1024 @ M1024", "M64.T @ M64", "M64 @ M64.T",
                                "M512.T @ M512", "X @ row", "row @ X", "row @ row", "M1024[:32] @ M1024", "M1024 @ M1024[:, :32]", "M1024[:, :16] @ M1024[:16]", "B3 @ B3", "D256 @ D256", "D64 @ D64",
                                "T[:1000] @ M8", "outer(row, row)")],
    "fft": [(s, s) for s in ("fft(x20)", "fft(x)", "fft(X)", "fft(x[:65536])", "fft(x[:1024])", "rfft(x20)", "ifft(fft(x[:65536]))", "fft(x[:65537])")],
}

DATA = """
n = 1000000
a = cast(arange(n), f64)
dx = sin(a * 1.7) * 3.0
dy = cos(a * 2.3) * 3.0
dp = abs(dx) + 0.5
x, y, p = cast(dx, f32), cast(dy, f32), cast(dp, f32)
u = x / 3.001
hx, hy, hp = cast(dx, f16), cast(dy, f16), cast(dp, f16)
ix, iy, lx, ly = cast(dx * 1e6, int32), cast(dy * 1e6, int32), cast(dx * 1e9, int64), cast(dy * 1e9, int64)
ip, lp, is_, bx, by = cast(dp * 100.0, int32), cast(dp * 1000.0, int64), cast(dp * 3.0, int32), cast(dx * 40.0 + 127.0, uint8), cast(dy * 40.0 + 127.0, uint8)
ismall = cast(dx * 100.0, int32)
c, d = x < y, y == y
X, Y, DX, IX, C = x.reshape((1000, 1000)), y.reshape((1000, 1000)), dx.reshape((1000, 1000)), ix.reshape((1000, 1000)), c.reshape((1000, 1000))
W = concatenate((X, Y), 1)
Q, T = x.reshape((100, 100, 100)), x.reshape((125000, 8))
row, col = copy(X[0]), copy(X[:, 0]).reshape((1000, 1))
at, rows = cast(abs(dx) * 300000.0, int64), cast(abs(dx[:1000]) * 300.0, int64)
sorted_ = sort(x)
s4, t4, s44 = x[:4] * 1.0, y[:4] * 1.0, x[:16].reshape((4, 4)) * 1.0
x20 = cast(sin(cast(arange(1048576), f64)), f32)
def square(k): return cast(sin(cast(arange(k * k), f64)), f32).reshape((k, k))
M8, M16, M32, M64, M100, M128, M256, M512, M1024 = square(8), square(16), square(32), square(64), square(100), square(128), square(256), square(512), square(1024)
D256, D64 = cast(M256, f64), cast(M64, f64)
B3 = concatenate((M64, M64, M64, M64, M64, M64, M64, M64), 0).reshape((8, 64, 64))
"""

HEAD_TESSERA = """
import time
from time import perf_counter as now
bool_ = bool
def cast(x, dt): return x.to(dt)
def copy(x): return x.clone()
def concatenate(xs, axis): return concat(xs, axis)
"""

HEAD_NUMPY = """
import numpy as np
from numpy import *
from numpy.fft import fft, ifft, rfft
from time import perf_counter as now
from builtins import max, min
import warnings
warnings.simplefilter('ignore')
f64, f32, f16 = np.float64, np.float32, np.float16
asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
abs, round = np.abs, np.round
def cast(x, dt): return x.astype(dt)
"""

MEASURE = """
def measure(k, f):
    f(1)
    t = now()
    f(1)
    once = now() - t
    n = max(1, min(20000, int(0.002 / (once + 1e-7))))      # short rounds, so that some meet an idle machine
    best = 1e9
    for r in range(40 if once < 0.02 else 5):
        t = now()
        f(n)
        best = min(best, now() - t)
    print(k, best / n)
"""


def program(head, rows):
    """The text that measures rows [(key, statement)] and prints `key seconds` lines; a statement that fails prints nothing."""
    body = "".join(f"def f{k}(n):\n    for i in range(n):\n        r_ = {s}\n" f"try:\n    measure({k}, f{k})\nexcept Exception as e:\n    print('#', {s!r}, e)\n"
                   for k, s in rows)
    return head + DATA + MEASURE + body
