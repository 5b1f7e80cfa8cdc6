#!/usr/bin/env python3
"""Which operations on tensors of a GPU the host computes: a list of expressions, each a program of its own under `run --stats`.

  on_host.py [--tessera BIN] [--dtypes f32,bf16] [--only TEXT] [--differ]

Without FAKE_CUDA's driver in the environment the machine's own is used. Prints a line for each expression and dtype whose result, or a step towards
it, the host made, and how many there were in all. --differ also runs each on the host and tells where what is printed differs."""
import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent.parent

FLOATS = """neg(x) abs(x) sign(x) exp(x) exp2(x) expm1(x) log(p) log2(p) log10(p) log1p(p) sqrt(p) rsqrt(p) sin(x) cos(x) tan(x) asin(u) acos(u) atan(x)
sinh(x) cosh(x) tanh(x) asinh(x) acosh(p+1.0) atanh(u) erf(x) erfc(x) erfinv(u) lgamma(p) digamma(p) sigmoid(x) isnan(x) isinf(x) isfinite(x) x/p x**p x**3
atan2(x,p) fma(x,y,p) gelu(x) relu(x) softmax(x,axis=-1) log_softmax(x,axis=0) logsumexp(x,axis=-1) x.mean() x.mean(axis=0) x.std(axis=1) x.var()
norm(x) x@y.T linalg.inv(q) linalg.solve(q,q) linalg.det(q) linalg.cholesky(s) linalg.qr(q)[1] linalg.svd(q)[1] linalg.eigh(s)[0] rfft(x) irfft(rfft(x))
conv2d(i,k) conv2d(i,k,stride=2) conv2d(i,k,padding=1,dilation=2) conv_grad(1) conv_grad(2) max_pool2d(i,2) avg_pool2d(i,2) median(x) quantile(x,0.3) cross_entropy(x,c)
random.normal((50,30)) random.uniform((50,30)) dropout(x,0.5) random.bernoulli(0.5,(50,30)) linspace(0.0,1.0,50)
sines_grad(x) bincount(c,weights=x[:,0]) random.randint(0,9,(50,30)) random.permutation(50) random.bits((50,30))""".split()
ANY = """x+y x-y x*y x//p x%p minimum(x,y) maximum(x,y) x==y x!=y x<y x<=y x>y x>=y where(x>y,x,y) floor(x) ceil(x) round(x) trunc(x) x.to(f64) x.to(int8) x.to(bf16)
x.sum() x.sum(axis=0) x.sum(axis=1) x.prod(axis=1) x.max() x.max(axis=0) x.min(axis=1) (x>y).any() (x>y).all() (x>y).all(axis=0) argmax(x) argmin(x) x.argmax(axis=0)
x.argmin(axis=1) x.argmax(axis=1) cumsum(x,axis=0) cumsum(x,axis=1) cumprod(x,axis=1) cummax(x,axis=1) cummin(x,axis=0) x.reshape(-1)+x.reshape(-1) x.T.reshape(-1) x.T+1 x[::-1] flip(x,axis=0)+1
pad(x,((1,1),(2,2))) concat([x,y]) concat([x,y],axis=1) stack([x,y]) roll(x,3) repeat(x,2) x[c] x[c,c%30] x[:,c] x[x>y] x[x[:,0]>y[:,0]] put(x) put_mask(x) nonzero(x>y) unique(x) unique(c)
sort(x) sort(x,axis=0) sort(x,descending=True) argsort(x) topk(x,3)[0] topk(x,3)[1] searchsorted(sort(x[0]),y[0]) bincount(c) tril(x) triu(x) diag(x[0]) eye(20) one_hot(c,50) arange(100) full((3,3),2) zeros((5,5))
ones_like(x) outer(x[0],y[0]) dot(x[0],y[0]) x.T@y einsum("ij,kj->ik",x,y) take(x,c) where(x>y,ONE,x) clip(x,ZERO,ONE) kron(x[:3,:3],y[:3,:3]) diff(x) meshgrid(x[0],y[0])[1] x.tolist()[0] x.item(3) ~(x>y) x.any() dynamic_slice(x,[3,4],[5,6]) dynamic_update(x,x[:3,:4],[c[1],c[2]]) index_add(x,x[:50],c) index_put(x,x[:50],c)""".split()
INTS = "x&y x|y x^y x<<1 x>>1 ~x abs(x) sign(x) -x".split()

HEAD = """import tessera.random as random
random.seed(1)
def head():
    a = arange(1500, dtype=f32).reshape(50, 30)
    return sin(a * 0.37) * MAGNITUDE, cos(a * 0.73) * MAGNITUDE
hx, hy = head()
x, y = hx.to(DT).to("gpu:0"), hy.to(DT).to("gpu:0")
p = abs(x) + ONE
u = x / 10
c = (arange(50) * 7 % 30).to("gpu:0")
def put(x):
    z = x + ZERO
    z[c] = x[:50]
    return z
def put_mask(x):
    z = x + ZERO
    z[x > y] = ONE
    return z
def sines_grad(x): return grad(lambda a: (a * sin(a)).sum())(x)
def conv_grad(n): return grad(lambda a: (conv2d(a, k, stride=n) ** 2).sum())(i)
with device("gpu:0"):
    q = (eye(20, dtype=DT) * ONE) if DT == f32 or DT == f64 else None
s = q
i = concat([x.reshape(-1), x.reshape(-1)])[:2 * 3 * 16 * 16].reshape(2, 3, 16, 16)
k = y.reshape(-1)[:4 * 3 * 3 * 3].reshape(4, 3, 3, 3)
with device("gpu:0"):
    EXPRS
"""


def program(exprs, dtype):
    whole = dtype.startswith(("int", "uint", "bool"))
    text = HEAD.replace("EXPRS", "\n    ".join(f"print({e})" for e in exprs)).replace("DT", dtype).replace("MAGNITUDE", "50.0" if whole else "2.0").replace("ONE", "1" if whole else "1.0")
    text = text.replace("ZERO", "0" if whole else "0.0")
    return "\n".join(l for l in text.split("\n") if not whole or "grad" not in l)


def run(args, text, path):
    path.write_text(text)
    return subprocess.run([args.tessera, "run", "--stats", path], capture_output=True, text=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tessera", default=HERE / "build" / "tessera")
    p.add_argument("--dtypes", default="f32")
    p.add_argument("--only", default="")
    p.add_argument("--differ", action="store_true")
    p.add_argument("--errors", action="store_true")
    args = p.parse_args()
    n = collections.Counter()
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d) / "p.tsr"
        for dtype in args.dtypes.split(","):
            for expr in dict.fromkeys(ANY + (FLOATS if "f" in dtype else INTS)):
                if args.only not in expr:
                    continue
                text = program([expr], dtype)
                done = run(args, text, path)
                if done.returncode:
                    n["failed"] += 1
                    if args.errors:
                        print(f"{dtype:6} {expr:30} fails: {[l for l in done.stderr.splitlines() if 'Error' in l or 'rror' in l][:1]}")
                    continue
                n["programs"] += 1
                for line in done.stderr.splitlines():
                    if "on-the-host" in line:
                        n["on the host"] += 1
                        print(f"{dtype:6} {expr:30} {line.split('on-the-host')[1].strip()}", flush=True)
                if args.differ and run(args, text.replace('"gpu:0"', '"cpu"'), path).stdout != done.stdout:
                    n["differ"] += 1
                    print(f"{dtype:6} {expr:30} differs", flush=True)
    print(dict(n))
    return 0


if __name__ == "__main__":
    sys.exit(main())
