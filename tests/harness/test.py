"""One test: a name, how to run it, and the inventory rows that it shows."""
import dataclasses
import re


class Skip(Exception):
    """Raised by a test that cannot run here; its text says what is missing."""


class Fail(Exception):
    """Raised by a test that found a difference; its text says which."""


@dataclasses.dataclass
class Test:
    name: str
    run: callable           # no arguments; raises Fail or Skip
    rows: tuple = ()


@dataclasses.dataclass
class Context:
    """Where things are. `san` is the binary built with sanitizers, or None."""
    root: object
    build: object
    shared: object
    tessera: str
    san: str = None
    write_golden: bool = False      # the texts of tests/golden are written anew


ROW = re.compile(r"(?:#|/\*)\s*row:\s*([A-Z]+-\d+(?:\s*,?\s*[A-Z]+-\d+)*)")


def rows_in(text, lines=15):
    """The ids named by `# row: SYN-01 SYN-02` (or /* row: ... */) in the first lines of a file."""
    head = "\n".join(text.splitlines()[:lines])
    return tuple(sorted({r for m in ROW.finditer(head) for r in re.findall(r"[A-Z]+-\d+", m.group(1))}))
