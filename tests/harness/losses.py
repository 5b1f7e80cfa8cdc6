"""Losses made at random: a layer, a few statements over its rows, and up to three terms that rows give, summed; the value and the gradient by
all parameters come eagerly and from one staged call.  Values used twice may be added in another order (docs/derivatives.md), so they have
to be close, not equal: what is stored in the wrong place, or too early, is far away."""
import random

SIZES = [(5, 4, 6), (32, 8, 16), (3, 40, 33), (1, 4, 4), (64, 5, 3), (17, 16, 16)]
MAPS = ["exp({0} * 0.3)", "sigmoid({0})", "tanh({0})", "relu({0})", "softmax({0}, dim=1)", "softmax({0}, dim=0)", "log({0} * {0} + 1.0)", "-{0}",
        "{0} * t", "{0} - {0}.mean(dim=1, keepdim=True)", "{0} / (1.0 + abs({0}))", "layer_norm({0})", "{0} - {0}.max(dim=0, keepdim=True)",
        "cumsum({0}, dim=1) * 0.1", "{0}[:, ::-1]", "where({0} > 0, {0}, 0.1 * {0})", "log_softmax({0}, dim=1)", "{0} * p['r'][:, None]",
        "{0} + p['c']", "{0} * p['s']", "stop_gradient({0}) * {0}", "clip({0}, -1.0, 1.0)", "sqrt({0} * {0} + 0.5)", "{0} @ p['B']",
        "{0} * {0}.sum(dim=1, keepdim=True) * 0.1", "{0} - {0}.mean(dim=0)"]
TERMS = ["{0}.sum(dim=1)", "{0}.mean(dim=1)", "({0} * {0}).sum(dim=1)", "{0}.max(dim=1)", "norm({0} + 2.0, dim=1)", "exp({0} * 0.2).sum(dim=1)",
         "logsumexp({0}, dim=1)", "{0}[:, 0]", "p['r']", "(y - {0}.sum(dim=1)) ** 2"]
TOTALS = ["l.sum()", "l.mean()", "-l.mean()", "(l * y).sum()", "(l * l).mean()", "logsumexp(l, dim=0)", "l.sum() + h0.sum() * t"]
HEAD = """def close(a, b):
    return (abs(a - b).max() <= 1e-4 * (abs(a).max() + 1e-3)).item()

def check(f, n, d, m):
    wave = lambda *shape: sin(arange(math.prod(shape)).to(f32) * 0.7 + 0.3).reshape(*shape)
    x, y, t = wave(n, d), wave(n), tensor(0.7)
    p = {"A": wave(d, m) * 0.5, "a": wave(m) * 0.1, "B": wave(m, m) * 0.3, "c": wave(m), "r": wave(n), "s": tensor(0.6)}
    u, g = value_and_grad(f)(p, x, y, t)
    v, h = jit(value_and_grad(f))(p, x, y, t)
    wrong = [k for k in g if not close(g[k], h[k])] + ([] if close(u, v) else ["value"])
    print(f.__name__, n, d, m, wrong or "same")

"""


def function(name, pick):
    lines, values = ["h0 = x @ p['A'] + p['a']"], ["h0"]
    for i in range(1, pick.randint(3, 7)):
        both = pick.random() < 0.2
        text = f"{pick.choice(values)} {pick.choice('+-*')} {pick.choice(values)}" if both else pick.choice(MAPS).format(pick.choice(values))
        lines.append(f"h{i} = {text}")
        values.append(f"h{i}")
    terms = [pick.choice(["", "-", "0.5 * "]) + pick.choice(TERMS).format(pick.choice(values)) for _ in range(pick.randint(1, 3))]
    lines += ["l = " + " + ".join(terms), "return " + pick.choice(TOTALS)]
    return f"def {name}(p, x, y, t):\n    " + "\n    ".join(lines) + "\n\n"


def program(seed, n):
    """The text of a program of n losses."""
    pick = random.Random(seed)
    made = [(f"f{i}", pick.choice(SIZES)) for i in range(n)]
    return HEAD + "".join(function(f, pick) + f"check({f}, {', '.join(map(str, size))})\n\n" for f, size in made)
