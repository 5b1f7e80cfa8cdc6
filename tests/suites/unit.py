"""The C tests (cmocka), each test function counted by itself."""
import json
import re
import threading

from harness import process
from harness.test import Fail, Test, rows_in


def binaries(ctx):
    """(name, path) of every test binary that meson knows."""
    p = process.run(["meson", "introspect", "--tests", ctx.build], memory=None, timeout=60)
    return [(t["name"], t["cmd"]) for t in json.loads(p.stdout or "[]")]


class Binary:
    """Runs once, at the first of its tests; the others read the result."""

    def __init__(self, cmd):
        self.cmd, self.result, self.lock = cmd, None, threading.Lock()

    def results(self):
        with self.lock:
            return self.results_once()

    def results_once(self):
        if self.result is None:
            p = process.run(self.cmd, env={"CMOCKA_MESSAGE_OUTPUT": "TAP", **process.LEAKS}, timeout=300, memory=None)
            if "LeakSanitizer has encountered a fatal error" in p.stderr:          # it cannot work here
                p = process.run(self.cmd, env={"CMOCKA_MESSAGE_OUTPUT": "TAP", "LSAN_OPTIONS": "detect_leaks=0"}, timeout=300, memory=None)
            said = re.findall(r"^(ok|not ok) \d+ - (\S+)", p.stdout, re.M)
            self.result = p, {name: state for state, name in said}
        return self.result

    def check(self, name):
        p, got = self.results()
        if why := process.died(p):
            raise Fail(why)
        if got.get(name) != "ok":
            raise Fail((p.stdout + p.stderr)[-1500:])


def functions(source):
    return re.findall(r"cmocka_unit_test\w*\((\w+)", source)


def tests(ctx):
    for name, cmd in binaries(ctx):
        source = (ctx.root / "tests/unit" / f"{name}.c").read_text()
        binary = Binary(cmd)
        for f in functions(source):
            yield Test(f"unit/{name}/{f}", lambda b=binary, f=f: b.check(f), rows_in(source))
