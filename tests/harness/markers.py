"""Programs that carry their expectations in comments.

    #= text     the next line of standard output (all of them, in order, are the whole output)
    #! text     `check` reports an error on this line that contains text, or the code E0301
    #~ text     the run fails with exit code 1 and standard error contains text
    #: text     standard output contains text somewhere
    # test: key=value ...   (first line) args= cmd= flags= sim= gpu= needs= debug slow
"""
import dataclasses
import json
import os
import re

from . import process
from .test import Fail, Skip


@dataclasses.dataclass
class Expect:
    options: dict
    out: list
    errors: dict        # line number -> texts
    failure: list
    contains: list


def parse(text):
    e = Expect({}, [], {}, [], [])
    for no, line in enumerate(text.splitlines(), 1):
        if no == 1 and line.startswith("# test:"):
            for word in line[7:].split():
                key, _, value = word.partition("=")
                e.options[key] = value.replace("\\s", " ") or "1"
        if m := re.search(r"(?:^|\s)#=(?: (.*))?$", line):
            e.out.append(m.group(1) or "")
        elif "#! " in line:
            e.errors.setdefault(no, []).extend(t.strip() for t in line.split("#! ")[1:])
        elif m := re.search(r"(?:^|\s)#~ (.*)$", line):
            e.failure.append(m.group(1).strip())
        elif m := re.search(r"(?:^|\s)#: (.*)$", line):
            e.contains.append(m.group(1).strip())
    return e


def command(tessera, path, e, flags=()):
    verb = e.options.get("cmd", "check" if e.errors else "run")
    argv = [tessera, verb, *flags]
    argv += e.options["flags"].split(",") if "flags" in e.options else []
    argv += ["--debug"] if "debug" in e.options else []
    argv += ["--sim-devices", e.options["sim"]] if "sim" in e.options and verb == "run" else []
    argv += ["--json"] if e.errors else []
    return argv + [str(path)] + (e.options["args"].split() if "args" in e.options else [])


def compare_errors(e, p):
    """Each marked line has an error that says each text, and no other line has one."""
    if p.returncode != 1:
        raise Fail(f"exit code {p.returncode}, wanted 1: {p.stderr[-300:]}")
    try:
        got = [json.loads(l) for l in (p.stdout + p.stderr).splitlines() if l.startswith("{")]
    except json.JSONDecodeError as err:
        raise Fail(f"--json printed something else: {err}") from None
    got = [d for d in got if d.get("severity", "error") == "error"]
    for no, texts in e.errors.items():
        said = " ".join(json.dumps(d, ensure_ascii=False) for d in got if d.get("line") == no).lower()
        for text in texts:
            m = re.match(r"(E\d{4})\s*(.*)", text)
            for want in (m.group(1), m.group(2)) if m else (text,):
                if json.dumps(want, ensure_ascii=False)[1:-1].lower() not in said:
                    raise Fail(f"line {no}: wanted {want!r}, got {said[:300] or [d.get('line') for d in got]}")
    for d in got:
        if d.get("line") not in e.errors:
            raise Fail(f"unexpected error on line {d.get('line')}: {d.get('message')}")


def compare_output(e, p):
    got = p.stdout.splitlines()
    tail = p.stderr.strip()[-400:]
    if (e.out or not e.contains) and got != e.out:
        i = next((i for i, (a, b) in enumerate(zip(got, e.out)) if a != b), min(len(got), len(e.out)))
        have, want = (x[i] if i < len(x) else "<end>" for x in (got, e.out))
        raise Fail(f"output line {i + 1}\n  got    {have}\n  wanted {want}\n  {tail}")
    for text in e.contains:
        if text not in p.stdout:
            raise Fail(f"the output lacks {text!r}; {tail}")
    if p.returncode != (1 if e.failure else 0):
        raise Fail(f"exit code {p.returncode}; {tail}")
    said = re.sub(r"#~ .*", "", p.stderr).lower()       # a traceback shows the line, and with it the marker
    for text in e.failure:
        if text.lower() not in said:
            raise Fail(f"standard error lacks {text!r}: {tail}")


def check_program(tessera, path, *, flags=(), env=None, memory=process.MEMORY, patience=1):
    """Run one program against its own comments, with further options of `run`."""
    e = parse(path.read_text())
    need = e.options.get("needs")
    if need and not os.environ.get("TESSERA_TEST_" + need.upper()):
        raise Skip(f"needs {need}")
    if "gpu" in e.options:
        env = {**(env or {}), **process.fake_driver(tessera, e.options["gpu"])}
    p = process.run(command(tessera, path, e, flags), timeout=(60 if "slow" in e.options else 20) * patience, cwd=path.parent,
                    env=env, memory=memory)
    if why := process.died(p):
        raise Fail(why)
    (compare_errors if e.errors else compare_output)(e, p)
