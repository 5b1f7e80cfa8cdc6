"""The command line: exit codes, and messages that name the object, the place and the next step."""
import os
import pathlib
import re
import subprocess
import tempfile

from harness import process
from harness.test import Fail, Test

# name, arguments, standard input, exit code, pieces of standard output, pieces of standard error
TABLE = [
    ("version", ["version"], None, 0, ["tessera 0.", "(git ", "LLVM"], []),
    ("version-flag", ["--version"], None, 0, ["tessera 0."], []),
    ("help", ["--help"], None, 0, ["commands:", "run", "check"], []),
    ("help-verb", ["help", "run"], None, 0, ["FILE [ARG]...", "--debug"], []),
    ("help-flag-of-verb", ["run", "--help"], None, 0, ["FILE [ARG]...", "--debug"], []),
    ("help-environment", ["help", "environment"], None, 0, ["TESSERA_PATH", "NO_COLOR"], []),
    ("help-exit-codes", ["help", "exit-codes"], None, 0, ["130"], []),
    ("help-unknown", ["help", "rnu"], None, 2, [], ["did you mean 'run'?"]),
    ("unknown-verb", ["chekc", "x"], None, 2, [], ["unknown command 'chekc'", "did you mean 'check'?"]),
    ("unknown-option", ["check", "--jsn", "x.tsr"], None, 2, [], ["unknown option '--jsn'", "did you mean '--json'?"]),
    ("option-of-another-verb", ["run", "--dump-ast", "x.tsr"], None, 2, [], ["not an option of 'tessera run'"]),
    ("flag-with-value", ["check", "--json=1", "x.tsr"], None, 2, [], ["takes no value"]),
    ("option-without-value", ["run", "--threads"], None, 2, [], ["needs a value"]),
    ("option-wrong-number", ["run", "--threads=two", "x.tsr"], None, 2, [], ["whole number"]),
    ("too-many-devices", ["run", "--sim-devices", "5000", "x.tsr"], None, 2, [], ["at most 4096"]),
    ("option-wrong-word", ["check", "--color=maybe", "x.tsr"], None, 2, [], ["auto|always|never"]),
    ("no-file", ["check"], None, 2, [], ["a file is missing"]),
    ("missing-file", ["run", "no/such.tsr"], None, 1, [], ["there is no file 'no/such.tsr'"]),
    ("missing-file-short", ["nosuch.tsr"], None, 1, [], ["there is no file 'nosuch.tsr'"]),
    ("near-file", ["run", "{tmp}/progam.tsr"], None, 1, [], ["did you mean '", "program.tsr'?"]),
    ("folder", ["run", "{tmp}"], None, 1, [], ["is a folder", "name a .tsr file"]),
    ("unreadable-bytes", ["run", "{tmp}/latin1.tsr"], None, 1, [], ["latin1.tsr:2:", "0xe9", "UTF-8"]),
    ("utf16", ["run", "{tmp}/utf16.tsr"], None, 1, [], ["UTF-16"]),
    ("binary", ["run", "{tmp}/zero.tsr"], None, 1, [], ["zero byte"]),
    ("too-large", ["run", "{tmp}/large.tsr"], None, 1, [], ["larger than 16 MiB", "split"]),
    ("cache-unknown", ["cache", "claer"], None, 2, [], ["takes nothing, or clear, not 'claer'"]),
    ("explain-unknown", ["explain", "E9999"], None, 1, [], ["no error code 'E9999'"]),
    ("inspect-no-file", ["inspect", "--ir", "graph"], None, 2, [], ["a file is missing"]),
    ("inspect-what", ["inspect", "{tmp}/program.tsr"], None, 2, [], ["--ir graph"]),
    ("inspect-level", ["inspect", "--ir", "grpah", "{tmp}/program.tsr"], None, 2, [], ["graph"]),
    ("inspect-nothing-staged", ["inspect", "--ir", "graph", "{tmp}/program.tsr"], None, 0, [], ["hello", "no function was staged"]),
    ("inspect-graph", ["inspect", "{tmp}/staged.tsr", "--ir=graph"], None, 0,
     ["tessera.graph v1 hash=", "graph @f(", "= exp(%1)  # ", "staged.tsr:3", "effects=[io] token=io:0"], ["from the program "]),
    ("inspect-pass", ["inspect", "{tmp}/staged.tsr", "--ir=graph", "--pass=fold,nosuch"], None, 1, [], ["no pass 'nosuch'", "--passes"]),
    ("inspect-passes", ["inspect", "--passes"], None, 0, ["fold         on", "cse          on", "dce          on"], []),
    ("opt", ["opt", "--pass", "cse", "-"], "tessera.graph v1\ngraph @f(%0: f32[2]) -> (%1, %2) {\n  %1: f32[2] = exp(%0)\n  %2: f32[2] = exp(%0)\n}\n",
     0, ["-> (%1, %1) {"], []),
    ("opt-two", ["opt", "-"], "tessera.graph v1\ngraph @f() -> () {\n}\ntessera.graph v1\ngraph @g() -> (%3) {\n}\n", 1, [],
     ["graph 2 of the file, line 3: result %3 is not defined"]),
    ("opt-near", ["opt", "--pass=dec", "-"], "tessera.graph v1\ngraph @f() -> () {\n}\n", 1, [], ["did you mean 'dce'?"]),
    ("run-file", ["run", "{tmp}/program.tsr"], None, 0, ["hello []\n"], []),
    ("run-short", ["{tmp}/program.tsr", "a", "--json", "-x"], None, 0, ["hello ['a', '--json', '-x']\n"], []),
    ("run-stdin", ["-"], "print(1 + 2)\n", 0, ["3\n"], []),
    ("run-stdin-arguments", ["run", "-", "x"], "import sys\nprint(sys.argv[1:])\n", 0, ["['x']\n"], []),
    ("run-code", ["run", "-e", "print(6 * 7)"], None, 0, ["42\n"], []),
    ("shebang", ["{tmp}/shebang.tsr"], None, 0, ["with a shebang\n"], []),
    ("bom", ["{tmp}/bom.tsr"], None, 0, ["with a mark\n"], []),
    ("crlf", ["{tmp}/crlf.tsr"], None, 0, ["yes\n"], []),
    ("empty-file", ["{tmp}/empty.tsr"], None, 0, [], []),
    ("check-good", ["check", "{tmp}/program.tsr"], None, 0, [], []),
    ("check-bad-name", ["check", "-"], "print(nothing_here)\n", 1, [], ["[E0201]", "nothing_here", "<stdin>:1:7"]),
    ("check-json", ["check", "--json", "-"], "x = nothing_here\n", 1, ['"line": 1', '"severity": "error"'], []),
    ("check-all-errors", ["check", "-"], "print(aaa1)\nprint(bbb2)\n", 1, [], ["aaa1", "bbb2"]),
    ("uncaught", ["-"], "def f():\n    raise ValueError('boom')\nf()\n", 1, [],
     ["Traceback", "<stdin>", "line 3", "ValueError: boom"]),
    ("output-before-error", ["-"], "print('first')\n1 // 0\n", 1, ["first\n"], ["ZeroDivisionError"]),
    ("exit-code", ["-"], "import sys\nsys.exit(7)\n", 7, [], []),
    ("exit-none", ["-"], "import sys\nsys.exit()\n", 0, [], []),
    ("system-exit", ["-"], "raise SystemExit(3)\n", 3, [], []),
    ("assertion", ["-"], "assert 1 == 2, 'not equal'\n", 1, [], ["AssertionError: not equal"]),
    ("keyboard-interrupt-raised", ["-"], "raise KeyboardInterrupt\n", 130, [], ["KeyboardInterrupt"]),
    ("example-missing-text", ["{root}/examples/char_gpt.tsr", "--text", "/no/such"], None, 1, [], ["/no/such: No such file", "--text names"]),
    ("example-folder-as-text", ["{root}/examples/char_gpt.tsr", "--text", "{tmp}"], None, 1, [], ["Is a directory", "--text names"]),
    ("example-bytes-as-text", ["{root}/examples/char_gpt.tsr", "--text", "{tmp}/latin1.tsr"], None, 1, [], ["no text in UTF-8", "0xe9"]),
    ("example-small-text", ["{root}/examples/char_gpt.tsr", "--text", "{tmp}/empty.tsr"], None, 1, [], ["0 characters", "needed"]),
    ("example-unknown-option", ["{root}/examples/char_gpt.tsr", "--stps", "3"], None, 2, [], ["--stps", "did you mean --steps?"]),
    ("example-option-no-number", ["{root}/examples/char_gpt.tsr", "--steps", "x"], None, 2, [], ["a whole number from 0, not 'x'"]),
    ("example-option-too-small", ["{root}/examples/char_gpt.tsr", "--steps=-5"], None, 2, [], ["from 0, not -5"]),
    ("example-no-folder", ["{root}/examples/char_gpt.tsr", "--text", "{root}/README.md", "--steps", "0", "--out", "/dev/null/x"], None, 1, [],
     ["/dev/null/x: Not a directory", "--out names"]),
    ("example-images-missing", ["{root}/examples/mnist.tsr"], None, 2, [], ["--images FILE and --labels FILE are needed"]),
    ("example-images-no-images", ["{root}/examples/mnist.tsr", "--images", "{tmp}/latin1.tsr", "--labels", "{tmp}/latin1.tsr"], None, 1, [],
     ["not an IDX file", "--images and --labels name"]),
    ("color-never", ["check", "--color=never", "-"], "print(zz)\n", 1, [], ["Error: ", "[E0201]"]),
    ("color-always", ["check", "--color=always", "-"], "print(zz)\n", 1, [], ["\033["]),
    ("unknown-variable", ["version"], None, 0, [], ["TESSERA_THREDS", "did you mean TESSERA_THREADS?"]),
]


def make_files(folder):
    (folder / "staged.tsr").write_text("@jit\ndef f(x):\n    y = exp(x)\n    print('from the program', y)\n    return y\nf(zeros(2)[0])\n")
    (folder / "program.tsr").write_text("import sys\nprint('hello', sys.argv[1:])\n")
    (folder / "latin1.tsr").write_bytes(b"x = 1\nname = 'caf\xe9'\n")
    (folder / "utf16.tsr").write_bytes("print(1)\n".encode("utf-16"))
    (folder / "zero.tsr").write_bytes(b"x = 1\n\0\0\n")
    (folder / "large.tsr").write_bytes(b"# " + b"x" * (16 << 20) + b"\n")
    (folder / "shebang.tsr").write_text("#!/usr/bin/env tessera\nprint('with a shebang')\n")
    (folder / "bom.tsr").write_bytes(b"\xef\xbb\xbfprint('with a mark')\n")
    (folder / "crlf.tsr").write_bytes(b"if True:\r\n    print('yes')\r\n")
    (folder / "empty.tsr").write_bytes(b"")


def check_row(ctx, folder, row):
    name, args, stdin, code, out, err = row
    env = {"TESSERA_THREDS": "2"} if name == "unknown-variable" else {"NO_COLOR": "" if "color" in name else "1"}
    p = process.run([ctx.tessera] + [a.replace("{tmp}", str(folder)).replace("{root}", str(ctx.root)) for a in args], stdin=stdin, env=env)
    if why := process.died(p):
        raise Fail(why)
    if p.returncode != code:
        raise Fail(f"exit code {p.returncode}, wanted {code}: {p.stdout[-300:]}{p.stderr[-300:]}")
    for text, have in [(t, p.stdout) for t in out] + [(t, p.stderr) for t in err]:
        if text not in have:
            raise Fail(f"wanted {text!r} in {have[-500:]!r}")
    if code == 2 and p.stderr.count("\n") != 1:
        raise Fail(f"wrong usage is one line, not {p.stderr!r}")
    if "color-never" in name and "\033" in p.stderr:
        raise Fail("colour in spite of --color=never")


# ------------------------------------------------------------- signals and broken streams

def interrupted(ctx, code):
    return process.interrupted([ctx.tessera, "run", "-e", code])


def ctrl_c_stops(ctx):
    code, _, err = interrupted(ctx, "import sys\nprint('on', flush=True)\nwhile True: pass\n")
    if code != 130 or "KeyboardInterrupt" not in err:
        raise Fail(f"exit code {code}, {err!r}")


def ctrl_c_is_caught(ctx):
    code, out, err = interrupted(ctx, "print('on', flush=True)\ntry:\n    while True: pass\n"
                                      "except KeyboardInterrupt:\n    print('caught')\n")
    if code != 0 or "caught" not in out:
        raise Fail(f"exit code {code}, {out!r} {err!r}")


def ctrl_c_stops_sleep(ctx):
    code, _, err = interrupted(ctx, "import time\nprint('on', flush=True)\ntime.sleep(60)\n")
    if code != 130:
        raise Fail(f"exit code {code}, {err!r}")


def broken_pipe_is_quiet(ctx):
    p = subprocess.run(["sh", "-c", f"{ctx.tessera} run -e 'for i in range(200000): print(i)' | head -1"],
                       capture_output=True, text=True, timeout=20)
    if p.stdout != "0\n" or p.stderr:
        raise Fail(f"{p.stdout!r} {p.stderr!r}")


def full_disk_is_an_error(ctx):
    if not os.path.exists("/dev/full"):
        return
    with open("/dev/full", "w") as full:
        p = process.run([ctx.tessera, "run", "-e", "print('x' * 10)"], stdout=full)
    if p.returncode != 1 or "No space left" not in p.stderr:
        raise Fail(f"exit code {p.returncode}, {p.stderr!r}")


def file_size_limit_is_an_error(ctx):
    """Writing a file past the allowed size raises OSError and leaves the program in charge."""
    with tempfile.TemporaryDirectory() as d:
        code = f"try:\n    with open('{d}/f', 'w') as f:\n        f.write('x' * 100000)\nexcept OSError as e:\n    print('caught')\n"
        p = process.run([ctx.tessera, "run", "-e", code], file_size=4096)
        if p.stdout != "caught\n":
            raise Fail(f"exit code {p.returncode}, {p.stdout!r} {p.stderr[-300:]!r}")


def memory_limit_is_an_error(ctx):
    """A request that cannot be had is a MemoryError; a machine that is out of memory ends in one line."""
    p = process.run([ctx.tessera, "run", "-e", "try:\n    zeros((1 << 20, 1 << 20))\nexcept MemoryError:\n    print('caught')\n"],
                    memory=1 << 30)
    if p.stdout != "caught\n":
        raise Fail(f"exit code {p.returncode}, {p.stdout!r} {p.stderr[-300:]!r}")
    p = process.run([ctx.tessera, "run", "-e", "x = []\nwhile True:\n    x.append('a' + str(len(x)))\n"], memory=512 << 20,
                    timeout=60)
    if p.returncode != 1 or "emory" not in p.stderr:
        raise Fail(f"exit code {p.returncode}, {p.stderr[-300:]!r}")


def memory_limit_while_compiling(ctx):
    """From enough memory to start to enough to compile: one line that says so, then the result; never a signal."""
    code = "def f(x): return tanh(x * 2.0 + 1.0)\nprint(jit(f)(zeros(2)).shape)\n"
    limit, said = os.path.getsize(ctx.tessera) - (24 << 20), []
    while said.count(0) < 8 and limit < 1 << 28:
        p = process.run([ctx.tessera, "run", "--backend=cpu", "-e", code], memory=limit, env={"TESSERA_CACHE": ""})
        limit += 1 << 18
        if said or p.returncode in (0, 1):                      # before that the system could not load it
            said.append(p.returncode)
            if p.returncode and (p.returncode != 1 or "out of memory" not in p.stderr) or not p.returncode and p.stdout != "(2,)\n":
                raise Fail(f"{limit >> 10} KiB: exit code {p.returncode}, {p.stderr[-300:]!r}")
    if not {0, 1} <= set(said):
        raise Fail(f"exit codes {said}")


def every_verb_has_help(ctx):
    p = process.run([ctx.tessera, "help"])
    for verb in re.findall(r"^  (\w+)  ", p.stdout.split("commands:")[1], re.M):
        q = process.run([ctx.tessera, "help", verb])
        if q.returncode or f"tessera {verb}" not in q.stdout:
            raise Fail(f"help {verb}: {q.stderr}")


def library_imports_its_own(ctx):
    """A program's file with the name of one of the library's own modules is the program's alone."""
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / "norms.tsr").write_text("print('of the program')\nmine = 1\n")
        code = "from tessera.models import GPT2\nprint(GPT2.__name__)\nimport norms\nprint(norms.mine)"
        p = process.run([ctx.tessera, "run", "-e", code], env={**os.environ, "TESSERA_PATH": d})
    if p.stdout != "GPT2\nof the program\n1\n":
        raise Fail(p.stdout + p.stderr)


def starts_quickly(ctx):
    """An empty program costs less than 30 ms of processor time, at the best of five tries."""
    best = min(cpu_seconds([ctx.tessera, "run", "-e", ""]) for _ in range(5))
    if best > 0.03:
        raise Fail(f"{best * 1000:.0f} ms")


def cpu_seconds(argv):
    p = subprocess.Popen(argv)
    used = os.wait4(p.pid, 0)[2]
    p.returncode = 0
    return used.ru_utime + used.ru_stime


FUNCTIONS = (ctrl_c_stops, ctrl_c_is_caught, ctrl_c_stops_sleep, broken_pipe_is_quiet, full_disk_is_an_error,
             file_size_limit_is_an_error, memory_limit_is_an_error, memory_limit_while_compiling, every_verb_has_help, library_imports_its_own,
             starts_quickly)


def tests(ctx):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera-cli-"))
    make_files(folder)
    for row in TABLE:
        yield Test(f"cli/{row[0]}", lambda row=row: check_row(ctx, folder, row))
    for f in FUNCTIONS:
        yield Test(f"cli/{f.__name__}", lambda f=f: f(ctx))
