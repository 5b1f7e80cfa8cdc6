"""Files as symbols: incbin.py OUT.S NAME FILE [NAME FILE]...; NAME and NAME_end are the places of its first byte and of the one behind its last."""
import hashlib
import pathlib
import sys


def main():
    out, *pairs = sys.argv[1:]
    text = ".section .rodata\n"
    for name, file in zip(pairs[::2], pairs[1::2]):
        path = pathlib.Path(file).resolve()
        text += f"# {hashlib.sha256(path.read_bytes()).hexdigest()}\n"         # a new file is a new text
        text += f".balign 16\n.global {name}\n{name}:\n.incbin \"{path}\"\n.global {name}_end\n{name}_end:\n.byte 0\n"
    pathlib.Path(out).write_text(text + ".section .note.GNU-stack,\"\",@progbits\n")


main()
