"""Write a C table of a folder's files: embed.py OUT TABLE FOLDER SUFFIX

Each row is {"stem", "text", length}.  OUT is left alone when nothing changed,
so a build that runs this every time recompiles only after an edit.
"""
import pathlib
import sys


def c_string(data):
    """Bytes as C string literals, one a line of the file; octal escapes cannot run on."""
    lines = []
    for line in data.splitlines(keepends=True):
        text = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in line)
        lines.append(f'        "{text}"')
    return "\n".join(lines) or '        ""'


def main(out, table, folder, suffix):
    files = sorted(pathlib.Path(folder).glob("*" + suffix)) if pathlib.Path(folder).is_dir() else []
    rows = [f'    {{"{f.stem}",\n{c_string(f.read_bytes())}, {f.stat().st_size}}},' for f in files]
    rows.append("    {0},")
    text = ('#include "tools/embed.h"\n\n'
            f"const int {table}_count = {len(files)};\nconst Embedded {table}[] = {{\n" + "\n".join(rows) + "\n};\n")
    path = pathlib.Path(out)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


main(*sys.argv[1:])
