"""The grammar as a document, and the editors: what they know of the language agrees with the compiler's tables."""
import io
import json
import keyword
import pathlib
import re
import shutil
import subprocess
import tempfile
import tokenize

from harness.test import Fail, Skip, Test, rows_in
from harness.textmate import Grammar


def token_table(ctx):
    """(class, text) of each row of token.c: WORD, SOFT or SIGN, and its spelling."""
    text = (ctx.root / "src/frontend/syntax/token.c").read_text()
    return set(re.findall(r'\{TOK_\w+, (WORD|SOFT|SIGN), "([^"]+)"\}', text))


# ---- grammar/tessera.ebnf ----

def ebnf(ctx):
    text = (ctx.root / "grammar/tessera.ebnf").read_text()
    rules = re.sub(r"\(\*.*?\*\)", "", text, flags=re.S)
    quoted = set(re.findall(r'"([^"]+)"', rules))
    missing = sorted({spelling for _, spelling in token_table(ctx)} - quoted)
    unknown = sorted(quoted - {spelling for _, spelling in token_table(ctx)})
    used = set(re.findall(r"\b[a-z_]+\b", re.sub(r'"[^"]*"', "", rules)))
    defined = set(re.findall(r"^([a-z_]+)\s*=", rules, re.M))
    if missing or unknown:
        raise Fail(f"not in the document: {missing}; not in the language: {unknown}")
    if used - defined:
        raise Fail(f"rules without a definition: {sorted(used - defined)}")


# ---- VS Code ----

def extension(ctx):
    folder = ctx.root / "editors/vscode"
    package = json.loads((folder / "package.json").read_text())["contributes"]
    named = [package["languages"][0]["configuration"], package["grammars"][0]["path"], package["snippets"][0]["path"]]
    for name in named:
        json.loads((folder / name).read_text())
    grammar = json.loads((folder / package["grammars"][0]["path"]).read_text())
    text = json.dumps(grammar)
    if grammar["scopeName"] != package["grammars"][0]["scopeName"]:
        raise Fail("the scope's name differs between package.json and the grammar")
    lost = [spelling for kind, spelling in token_table(ctx) if kind != "SIGN" and not re.search(rf"\b{spelling}\b", text)]
    if lost:
        raise Fail(f"words that the grammar does not colour: {lost}")
    for name in set(re.findall(r'"include": "#([\w-]+)"', text)):
        if name not in grammar["repository"]:
            raise Fail(f"#{name} is included but not defined")


def python_tokens(text):
    """(kind, text, line, column) as Python's tokenizer sees the program; it knows no nested quotes in f-strings."""
    return [(t.type, t.string, t.start[0], t.start[1]) for t in tokenize.generate_tokens(io.StringIO(text).readline)]


def wanted_scope(kind, string, before):
    if kind == tokenize.COMMENT:
        return r"^comment\.line|\bcomment\.line"
    if kind == tokenize.STRING:
        return r"\bstring\."
    if kind == tokenize.NUMBER:
        return r"\bconstant\.numeric"
    if kind == tokenize.NAME and before == ".":
        return r"\bvariable\.other\.member|entity\.name\.(function\.decorator|namespace)"
    if kind == tokenize.NAME and string in ("None", "True", "False"):
        return r"\bconstant\.language"
    if kind == tokenize.NAME and keyword.iskeyword(string):
        return r"\bkeyword\.|\bstorage\."
    if kind == tokenize.OP and string in "+-*/%":
        return r"\bkeyword\.operator|punctuation\.definition"
    return None


def colours(ctx, grammar, path):
    text = path.read_text()
    scopes = grammar.scopes(text)
    try:
        tokens = python_tokens(text)
    except (tokenize.TokenError, IndentationError) as e:
        raise Skip(f"Python's tokenizer stops: {e}") from None
    before = ""
    for kind, string, line, col in tokens:
        want = wanted_scope(kind, string, before)
        got = scopes[line - 1][col] if want else ""
        if want and not re.search(want, got):
            raise Fail(f"line {line}, column {col + 1}: {string!r} is coloured as {got!r}, wanted {want}")
        if kind not in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT):
            before = string


# Program, a text in it, the scope of its first character: what only Tessera has.
CHOSEN = [
    ("match x:\n    case 1: pass\n", "match", "keyword.control.flow.match"),
    ("match x:\n    case 1: pass\n", "case", "keyword.control.flow.case"),
    ("match = 3\n", "match", "variable.other"),
    ("type X = int\n", "type", "storage.type.alias"),
    ("type(x)\n", "type", "entity.name.function.call"),
    ("on mesh(devs):\n    pass\n", "on", "keyword.control.on"),
    ("on = 5\n", "on", "variable.other"),
    ("def f(x) -> T where D % 8 == 0:\n    pass\n", "where", "keyword.control.where"),
    ("def f(D, constraint: D % 8 == 0): pass\n", "constraint", "keyword.control.constraint"),
    ("def f[B, S: static](x): pass\n", "static", "storage.modifier.static"),
    ("x = memory.global\n", "global", "variable.other.member"),
    ("@jit @autodiff\ndef f(): pass\n", "autodiff", "entity.name.function.decorator"),
    ("x: Tensor[B, bf16 @accum(f32)]\n", "bf16", "support.type.dtype"),
    ("f\"a{x + 'b'!r:>{w}}c\"\n", "x +", "meta.embedded.expression"),
    ("f\"a{x + 'b'!r:>{w}}c\"\n", "c\"", "string.interpolated"),
    ("f\"{{x}}\"\n", "{{", "constant.character.escape.brace"),
    ("'''a\n# b\n'''\n", "# b", "string.quoted.triple"),
    ("r\"\\\"# \" # c\n", "# c", "comment.line"),
    ("x = 'open\ny = 1\n", "y", "variable.other"),
]


def chosen(grammar, text, part, want):
    at = text.index(part)
    line = text[:at].count("\n")
    got = grammar.scopes(text)[line][at - (text.rfind("\n", 0, at) + 1)]
    if want not in got:
        raise Fail(f"{part!r} in {text!r} is coloured as {got!r}, wanted {want}")


# ---- Vim ----

def vim(ctx, text, script):
    """Run Vim over a file with this text; returns what the script echoed, line by line."""
    if not shutil.which("vim"):
        raise Skip("vim is not installed")
    with tempfile.TemporaryDirectory() as d:
        program, out, commands = (pathlib.Path(d) / n for n in ("a.tsr", "out", "commands.vim"))
        program.write_text(text)
        commands.write_text(f"set runtimepath^={ctx.root}/editors/vim\nfiletype plugin indent on\nsyntax on\nedit {program}\n"
                            f"redir! > {out}\n{script}\nredir END\nqall!\n")
        p = subprocess.run(["vim", "-u", "NONE", "-N", "-es", "-i", "NONE", "-S", commands], timeout=60, capture_output=True)
        if not out.exists():
            raise Fail(f"vim stopped: {p.stdout[-300:]} {p.stderr[-300:]}")
        return out.read_text(errors="replace").splitlines(), program.read_text()


VIM_CHOSEN = [
    ("# note\n", "note", "tesseraComment"), ("def f(): pass\n", "def", "tesseraStatement"), ("def f(): pass\n", "f(", "tesseraFunction"),
    ("x = 0xff\n", "0x", "tesseraNumber"), ("x = 1.5e3\n", "1.5", "tesseraNumber"), ("x = 'a'\n", "a'", "tesseraString"),
    ("x = f'a{b}c'\n", "b}", "tesseraHole"), ("x = f'a{b}c'\n", "c'", "tesseraFString"), ("x = None\n", "None", "tesseraConstant"),
    ("for i in x: pass\n", "for", "tesseraRepeat"), ("if x: pass\n", "if", "tesseraConditional"), ("@jit\n", "jit", "tesseraDecorator"),
    ("x = memory.global\n", "global", "tesseraAttribute"), ("x: Tensor[f32]\n", "f32", "tesseraDtype"), ("on mesh(d):\n", "on", "tesseraStatement"),
    ("on = 3\n", "on", ""), ("type X = int\n", "type", "tesseraStatement"), ("match x:\n", "match", "tesseraConditional"),
    ("match = 1\n", "match", ""), ("x = '''a\n# b\n'''\n", "# b", "tesseraString"), ("import m\n", "import", "tesseraInclude"),
]


def vim_colours(ctx):
    for text, part, want in VIM_CHOSEN:
        at = text.index(part)
        line, col = text[:at].count("\n") + 1, at - (text.rfind("\n", 0, at) + 1) + 1
        out, _ = vim(ctx, text, f'echo synIDattr(synID({line}, {col}, 1), "name")')
        got = next((l for l in out if l.strip()), "").strip()
        if got != want:
            raise Fail(f"{part!r} in {text!r} is {got or 'plain'}, wanted {want or 'plain'}")


def vim_options(ctx):
    out, _ = vim(ctx, "x = 1\n", "echo &filetype &commentstring &shiftwidth &expandtab")
    if "tessera # %s 4 1" not in " ".join(out):
        raise Fail(f"options are {out}")


def vim_indent(ctx, path):
    """Indenting a program afresh leaves it as it is."""
    text = path.read_text()
    _, again = vim(ctx, text, "silent normal! gg=G\nwrite")
    for i, (a, b) in enumerate(zip(text.splitlines(), again.splitlines()), 1):
        if a != b:
            raise Fail(f"line {i}: {a!r} became {b!r}")


# Programs whose indentation follows the usual conventions and so survives re-indenting.
REINDENTED = ("algo-dijkstra", "algo-bank", "algo-toposort", "algo-lru-cache", "err-chained")


def tests(ctx):
    grammar = Grammar(ctx.root / "editors/vscode/syntaxes/tessera.tmLanguage.json")
    yield Test("grammar/ebnf", lambda: ebnf(ctx))
    yield Test("editors/vscode/package", lambda: extension(ctx))
    for i, row in enumerate(CHOSEN, 1):
        yield Test(f"editors/textmate/chosen-{i}", lambda row=row: chosen(grammar, *row))
    for path in sorted((ctx.root / "tests/syntax").glob("SYN-*.tsr")):
        yield Test(f"editors/textmate/{path.stem}", lambda path=path: colours(ctx, grammar, path), rows_in(path.read_text()))
    yield Test("editors/vim/colours", lambda: vim_colours(ctx))
    yield Test("editors/vim/options", lambda: vim_options(ctx))
    for name in REINDENTED:
        path = ctx.shared / f"corpus/lang/{name}.tsr"
        if path.exists():
            yield Test(f"editors/vim/indent-{name}", lambda path=path: vim_indent(ctx, path))
