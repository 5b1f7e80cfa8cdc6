"""A program in a real terminal (tmux): type keys, read the screen."""
import itertools
import os
import pty
import shlex
import shutil
import subprocess
import time

from .test import Fail, Skip

_numbers = itertools.count()


def need_pty():
    try:
        for fd in pty.openpty():
            os.close(fd)
    except OSError:
        raise Skip("no pseudo-terminals here") from None


class Terminal:
    """with Terminal(argv, env) as t: t.keys("1 + 2", "Enter"); t.expect("3")"""

    def __init__(self, argv, env=None, columns=80, rows=24):
        if not shutil.which("tmux"):
            raise Skip("tmux is not installed")
        need_pty()
        self.server = f"tessera-{os.getpid()}-{next(_numbers)}"
        self.argv, self.env, self.size = argv, env or {}, (columns, rows)

    def tmux(self, *args):
        p = subprocess.run(["tmux", "-L", self.server, "-f", "/dev/null", *args], capture_output=True, text=True, timeout=20)
        return p.stdout

    def __enter__(self):
        env = {"LANG": "C.UTF-8", "HOME": "/nonexistent", **self.env}
        line = " ".join(["env"] + [f"{k}={shlex.quote(v)}" for k, v in env.items()] + [shlex.quote(str(a)) for a in self.argv])
        self.tmux("-u", "new-session", "-d", "-x", str(self.size[0]), "-y", str(self.size[1]),
                  f"{line}; code=$?; echo; echo left with $code; sleep 100")
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")

    def keys(self, *keys):
        """Words such as Enter, Up, C-c, M-Enter are keys; anything else is typed."""
        for k in keys:
            known = k in ("Enter", "Up", "Down", "Left", "Right", "Tab", "BTab", "BSpace", "Home", "End", "Escape", "DC",
                          "M-Enter") or (len(k) == 3 and k[:2] in ("C-", "M-"))
            self.tmux("send-keys", *([] if known else ["-l"]), k)

    def paste(self, text):
        self.tmux("set-buffer", text)
        self.tmux("paste-buffer", "-p")

    def screen(self, colors=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if colors else []))

    def expect(self, text, colors=False, seconds=8):
        """Wait until the screen shows the text."""
        end = time.monotonic() + seconds
        while True:
            seen = self.screen(colors)
            if text in seen:
                return seen
            if time.monotonic() > end:
                raise Fail(f"{text!r} did not appear; the screen shows\n{seen.rstrip()}")
            time.sleep(0.05)
