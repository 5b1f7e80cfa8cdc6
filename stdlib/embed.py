#!/usr/bin/env python3
"""Turn the .tsr library into C, with an index of its names: embed.py OUT.c FOLDER

A file's public names are its top-level def, class, type and assigned
names that do not begin with _, or the list __all__.  __prelude__ = [...] says
which of them the prelude shows (all, when absent), __methods__ = [...] which
functions of the prelude are methods of tensors, too.  Each file is also given in
pieces - a def or class each, and what stands between them - so that readers
parse no more than they use.  OUT.c is left alone when nothing changed, so that
a build that always runs this rarely recompiles.
"""
import ast
import io
import pathlib
import re
import sys

DEFINITION = re.compile(r"(?:async\s+)?(?:def|class|type)\s+(\w+)|((?:\w+\s*,\s*)*\w+)\s*(?::[^=]*)?=(?!=)")
MAKER = re.compile(r"(?:async\s+)?(?:def|class)\s+(\w+)")
LIST = r"^%s\s*(?::[^=]*)?=\s*(\[[^\]]*\]|\([^)]*\))"


def declared_list(text, name):
    """The literal list assigned to `name` at top level, or None."""
    found = re.search(LIST % re.escape(name), text, re.M)
    return list(ast.literal_eval(found.group(1))) if found else None


def without_strings(text):
    """The text with triple-quoted strings blanked, so that their lines define nothing."""
    return re.sub(r'"""(?:[^\\]|\\.)*?"""', lambda m: '""' + "\n" * m.group().count("\n"), text, flags=re.S)


def public_names(text):
    exported = declared_list(text, "__all__")
    if exported is not None:
        return exported
    names = []
    for line in without_strings(text).splitlines():
        found = DEFINITION.match(line)
        for name in re.findall(r"\w+", (found.group(1) or found.group(2)) if found else ""):
            if not name.startswith("_") and name not in names:
                names.append(name)
    return names


def pieces(text):
    """(offset in bytes, name of the def or class; None between them), for each piece of the text in order."""
    blanked, found, decorated, at = without_strings(text), [(0, None)], None, 0
    for blank, line in zip(blanked.splitlines(keepends=True), text.splitlines(keepends=True), strict=True):
        maker = MAKER.match(blank)
        if blank[0] == "@" and decorated is None:
            decorated = at
        elif maker:
            found.append((at if decorated is None else decorated, maker.group(1)))
            decorated = None
        elif blank[0] not in " \t\n#)]}@" and found[-1][1]:
            found.append((at, None))
        at += len(line.encode())
    names = [name for _, name in found if name]
    for name in re.findall(r"^[ ]+global (\w+)", blanked, re.M):
        if not re.search(rf"^{name}\b[^=\n]*=", blanked, re.M):
            sys.exit(f"{name}: bind at the top level what a function declares global")
    if len(set(names)) != len(names):
        sys.exit(f"defined twice: {sorted(n for n in names if names.count(n) > 1)}")
    return found


def c_text(text):
    """The bytes as C string literals of short lines."""
    out = []
    for line in text.encode().splitlines(keepends=True):
        for i in range(0, len(line), 100):
            piece = "".join(c_char(b) for b in line[i:i + 100])
            out.append(f'    "{piece}"')
    return "\n".join(out) or '    ""'


def c_char(b):
    if b in b'"\\?':
        return "\\" + chr(b)
    return "\\n" if b == 10 else chr(b) if 32 <= b < 127 else f"\\{b:03o}"


def c_list(names):
    return "".join(f'"{n}", ' for n in names) + "NULL"


def module_name(path, root):
    return ".".join(path.relative_to(root).with_suffix("").parts)


def write_library(out, files):
    root, rows, taken, methods = pathlib.Path(__file__).resolve().parent, [], {}, []
    out.write('#include "frontend/stdlib_embed.h"\n\n#pragma GCC diagnostic ignored "-Woverlength-strings"\n\n')
    for i, path in enumerate(files):
        text = path.read_text()
        names, shown = public_names(text), declared_list(text, "__prelude__")
        shown = names if shown is None else shown
        for name in shown:
            if name not in names or taken.setdefault(name, path) != path:
                sys.exit(f"{path}: prelude name {name} is not public here, or also comes from {taken.get(name)}")
        out.write(f"static const char *const shown{i}[] = {{{c_list(shown)}}};\n")
        module = module_name(path.resolve(), root)
        methods += [(name, module if name in names and name not in shown else None) for name in declared_list(text, "__methods__") or []]
        cut = pieces(text)
        listed = "".join("{%d, %s}, " % (at, f'"{name}"' if name else "NULL") for at, name in cut)
        out.write(f"static const EmbeddedPiece pieces{i}[] = {{{listed}}};\n")
        out.write(f"static const char text{i}[] =\n{c_text(text)};\n\n")
        rows.append(f'    {{"{module}", text{i}, sizeof text{i} - 1, shown{i}, pieces{i}, {len(cut)}}},\n')
    out.write("const EmbeddedModule stdlib_embedded[] = {\n" + "".join(rows) + "    {NULL, NULL, 0, NULL, NULL, 0},\n};\n")
    listed = "".join("    {%s, %s},\n" % (f'"{name}"', f'"{module}"' if module else "NULL") for name, module in sorted(methods, key=str))
    out.write(f"\nconst EmbeddedMethod stdlib_methods[] = {{\n{listed}    {{NULL, NULL}},\n}};\n")


def main(target, folder):
    out = io.StringIO()
    write_library(out, sorted(pathlib.Path(folder).rglob("*.tsr")))
    path = pathlib.Path(target)
    if not path.exists() or path.read_text() != out.getvalue():
        path.write_text(out.getvalue())


if __name__ == "__main__":
    main(*sys.argv[1:])
