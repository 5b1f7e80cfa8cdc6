"""Child processes with a limit on time, memory and stack, so that no test can take the machine along."""
import os
import pathlib
import resource
import signal
import subprocess
import time

from .test import Fail

MEMORY = 4 << 30
NO_DRIVER = {"TESSERA_CUDA_LIBRARY": ""}        # tests mean the same where there are GPUs; those that want one name a driver


def run(argv, *, timeout=20, memory=MEMORY, stack=None, file_size=None, stdin=None, env=None, cwd=None, binary=False,
        stdout=subprocess.PIPE):
    """Run to the end and return the finished process. Running too long is a failure."""
    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        if stack:
            resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
        if file_size is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    if isinstance(stdin, str):
        stdin = stdin.encode()
    source = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    try:
        p = subprocess.run([str(a) for a in argv], stdout=stdout, stderr=subprocess.PIPE, timeout=timeout,
                           preexec_fn=limits, env={**os.environ, **NO_DRIVER, **(env or {})}, cwd=cwd, **source)
    except subprocess.TimeoutExpired:
        raise Fail(f"ran longer than {timeout} s") from None
    if not binary:
        p.stdout = (p.stdout or b"").decode(errors="replace")
        p.stderr = (p.stderr or b"").decode(errors="replace")
    return p


def interrupted(argv):
    """Start a program, send ctrl-C soon after it has printed its first line: its exit code, the rest of its output, its standard error."""
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    p.stdout.readline()
    time.sleep(0.2)
    p.send_signal(signal.SIGINT)
    try:
        out, err = p.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        p.kill()
        raise Fail("ctrl-C did not stop it within 10 s") from None
    return p.returncode, out, err


def fake_driver(tessera, how="1"):
    """The environment in which a program finds the driver of the tests (tests/fake), with what FAKE_CUDA is to say; "1": nothing."""
    here = pathlib.Path(tessera).resolve().parents
    library = next((l for folder in here if (l := folder / "tests/fake/libfake_cuda.so").exists()), None) or \
        next(l for folder in here if (l := folder / "build/tests/fake/libfake_cuda.so").exists())      # of the build without sanitizers
    return {"TESSERA_CUDA_LIBRARY": str(library), "FAKE_CUDA": "" if how == "1" else how}


def died(p):
    """What killed the process, or ''. Sanitizers exit with 99 (see SANITIZERS)."""
    if p.returncode < 0:
        return f"killed by signal {-p.returncode}: {p.stderr[-600:].strip()}"
    if p.returncode == 99 or "runtime error:" in p.stderr or "AddressSanitizer" in p.stderr or "LeakSanitizer" in p.stderr:
        return "sanitizer: " + sanitizer_summary(p.stderr)
    return ""


def sanitizer_summary(text):
    lines = text.splitlines()
    first = next((i for i, l in enumerate(lines) if "ERROR:" in l or "runtime error:" in l), 0)
    return "\n".join(lines[first:first + 12])


# Of binaries linked with LeakSanitizer alone (tests/meson.build).
LEAKS = {"LSAN_OPTIONS": "exitcode=99:allocator_may_return_null=1"}


def leaks_are_found(argv):
    """Can LeakSanitizer look at processes here? It needs ptrace, which some containers forbid."""
    return "LeakSanitizer has encountered a fatal error" not in run(argv, env=LEAKS, memory=None, timeout=60).stderr


SANITIZERS = {
    "ASAN_OPTIONS": "exitcode=99:detect_stack_use_after_return=0:allocator_may_return_null=1:detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
}
