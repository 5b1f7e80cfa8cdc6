"""The memory plan of a printed graph (`inspect --ir graph --plan`), checked against what the graph itself says.

check(text, rows, columns) takes graphs whose operands are [rows, columns] matrices of f32 and whose ops walk them as they
lie, so that a kernel needs no room of its own.  Gives what is wrong, or None.
"""
import re

BYTES = {"f32": 4, "f64": 8, "bool": 1, "int32": 4, "int64": 8, "bf16": 2, "f16": 2, "uint32": 4}
VIEWS = ("reshape", "permute", "broadcast", "stop_gradient")
LINE = re.compile(r"\s+%(\d+): (\w+)\[([^\]]*)\] = (\w+)\(([^)]*)\)")


def numbers(text, env):
    return [eval(d, {}, env) for d in text.split(",") if d.strip()]


def product(sizes):
    n = 1
    for s in sizes:
        n *= s
    return n


def parse(graph, rows, columns):
    """(steps, results, env): a step is (value, op, operands, bytes)."""
    head = re.search(r"graph @\S+\((.*?)\) -> \(([^)]*)\)", graph)
    env = {}
    for dims in re.findall(r"f32\[([^\]]+)\]", head[1]):
        for name, size in zip(dims.split(","), (rows, columns)):
            if name.strip().isidentifier():
                env[name.strip()] = size
    steps = [(int(v), op, [int(o[1:]) for o in operands.split(", ") if o], BYTES[dtype] * product(numbers(dims, env)))
             for v, dtype, dims, op, operands in LINE.findall(graph)]
    return steps, [int(r[1:]) for r in head[2].split(", ")], env


def check(graph, rows, columns):
    steps, results, env = parse(graph, rows, columns)
    root, made, last, size = {}, {}, {}, {}
    for at, (v, op, operands, n) in enumerate(steps):
        root[v] = root.get(operands[0], operands[0]) if op in VIEWS else v
        if root[v] == v:
            made[v], size[v] = at, 0 if op == "constant" else n
        for o in operands:
            last[root.get(o, o)] = at
    for r in results:
        last[root.get(r, r)] = len(steps)
    live = [sum(size[v] for v in made if made[v] <= at <= last.get(v, made[v])) for at in range(len(steps))]
    peaks = [eval(p, {}, env) for p in re.findall(r"^# (?:peak|or): +(\S+) bytes", graph, re.M)]
    if not peaks or max(peaks) > max(live):
        return f"the plan's peak {peaks} is above the most that is live at once, {max(live)}"
    blocks = [(eval(b, {}, env), int(lo), int(hi) if hi else len(steps)) for b, lo, hi in
              re.findall(r"^# block \d+: (\S+) bytes,(?: steps| from step) (\d+) to (?:(\d+)|the end)", graph, re.M)]
    for at in range(len(steps)):
        if sum(b for b, lo, hi in blocks if lo <= at <= hi) > live[at]:
            return f"at step {at} the blocks take more than the {live[at]} bytes that are live"
    for at, op, k in re.findall(r"^# step (\d+) \((\w+)\) takes over the memory of its operand (\d+)", graph, re.M):
        v, name, operands, n = steps[int(at)]
        taken = root.get(operands[int(k) - 1])
        if name != op or taken is None or last[taken] != int(at) or size[taken] < n:
            return f"step {at} ({op}) takes memory that is still needed, is the caller's, or is too small"
    return None
