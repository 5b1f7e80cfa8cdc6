"""Mistakes between files, and how reports are drawn: the guide's shape error to the letter, stack traces, arrows without UTF-8."""
import pathlib
import re
import tempfile

from harness import process
from harness.test import Fail, Test

ATTENTION = """# The attention of a model configured for 768 features.
config = {"dim": 768}
D = config["dim"]


def attention(x: Tensor["B", "S", D]) -> Tensor["B", "S", D]:
    return softmax(x @ x.mT / D ** 0.5, axis=-1) @ x
"""
BLOCK = "from attention import attention\n" + "\n" * 39 + '''def transformer_block(x: Tensor["B", "S", "D"]) -> Tensor["B", "S", "D"]:
    attention_out = attention(x)
    return x + attention_out


print(transformer_block(zeros(2, 16, 512)).shape)
'''
GUIDE = """Error: Shape mismatch in function 'transformer_block' at line 42 [E0301]

    Expected: Tensor["B", "S", "D"] where D = 768
    Received: Tensor["B", "S", 512]

    41 | def transformer_block(x: Tensor["B", "S", "D"]) -> Tensor["B", "S", "D"]:
    42 |     attention_out = attention(x)  # ← Error here
       |                     ~~~~~~~~~~~~
    43 |     return x + attention_out

The attention function expects dimension D=768 but received D=512.

Possible fixes:
1. Ensure input tensor has correct dimensions
2. Add a projection layer: x = linear(x, out_dim=768)
3. Update the model configuration to use D=512

Stack trace:
  File "model.tsr", line 42, in transformer_block
  File "attention.tsr", line 6, in attention
    Expected D=768, given in line 3
"""


def check(ctx, model, attention=ATTENTION, options=(), **env):
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / "model.tsr").write_text(model)
        (pathlib.Path(d) / "attention.tsr").write_text(attention)
        p = process.run([ctx.tessera, "check", *options, "model.tsr"], cwd=d, env={"LC_ALL": "C.UTF-8", **env})
    if why := process.died(p):
        raise Fail(why)
    if p.returncode != 1 or (p.stdout and not options):
        raise Fail(f"exit code {p.returncode}, output {p.stdout!r}")
    return p


def same(got, want):
    got = re.sub(r'File "[^"]*/', 'File "', got)
    if got != want:
        raise Fail(f"says\n{got}\nand not\n{want}")


def guide(ctx):
    same(check(ctx, BLOCK).stderr.replace(' from config["dim"]', ""), GUIDE)


def origin(ctx):
    """The number is followed to what it is computed from, in the file that has it."""
    said = check(ctx, BLOCK).stderr
    if 'Expected D=768 from config["dim"], given in line 3' not in said:
        raise Fail(said)


def unknown_size(ctx):
    """Without a call the size received is the caller's name; the third fix needs a number."""
    said = check(ctx, BLOCK.rsplit("print", 1)[0]).stderr
    if 'Received: Tensor["B", "S", "D"]' not in said or "but received D=D" not in said or "Update the model" in said:
        raise Fail(said)


def module_level(ctx):
    said = check(ctx, "from attention import attention\ny = attention(zeros(2, 16, 100))\n").stderr
    for part in ("in function '<module>' at line 2", "Received: Tensor[2, 16, 100]", 'model.tsr", line 2, in <module>', "dimension D=768 but received D=100"):
        if part not in said:
            raise Fail(f"lacks {part!r}:\n{said}")
    order = [said.index(x) for x in ('model.tsr", line 2', 'attention.tsr", line 6', "Expected D=768")]
    if order != sorted(order):
        raise Fail("the frames are in another order")


def fixed(ctx):
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / "model.tsr").write_text("from attention import attention\nprint(attention(zeros(2, 16, 768)).shape)\n")
        (pathlib.Path(d) / "attention.tsr").write_text(ATTENTION)
        p = process.run([ctx.tessera, "run", "model.tsr"], cwd=d)
    if p.stdout != "(2, 16, 768)\n" or p.stderr:
        raise Fail(p.stdout + p.stderr)


def arrows(ctx):
    """DBG-16: the arrow is ASCII where the locale has no other."""
    for env, want, other in (({"LC_ALL": "C"}, "# <- Error here", "←"), ({"LC_ALL": "C.UTF-8"}, "# ← Error here", "<-")):
        said = check(ctx, BLOCK, **env).stderr
        if want not in said or other in said:
            raise Fail(f"{env}: {said}")
    if "<-" not in check(ctx, BLOCK, options=["--ascii"]).stderr:
        raise Fail("--ascii has no ASCII arrow")
    if not check(ctx, BLOCK).stderr.startswith("Error: "):
        raise Fail("the severity word is missing")


def json(ctx):
    said = check(ctx, BLOCK, options=["--json"]).stdout
    for part in ('"code": "E0301"', '"line": 42', '"trace": ["  File', "expects dimension D=768"):
        if part not in said:
            raise Fail(f"lacks {part!r}: {said}")


ROWS = {guide: ("DBG-01", "DBG-14"), origin: ("DBG-13",), module_level: ("DBG-13",), arrows: ("DBG-16",)}


def tests(ctx):
    for f in (guide, origin, unknown_size, module_level, fixed, arrows, json):
        yield Test(f"traces/{f.__name__.replace('_', '-')}", lambda f=f: f(ctx), ROWS.get(f, ()))
