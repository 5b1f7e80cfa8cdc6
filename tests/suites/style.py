"""The rules of style that a machine can check. Each rule is one test; its failure lists every offender."""
import re
import sys

from harness.test import Fail, Test

LAYERS = ("base", "ir/core", "runtime", "ir/tile", "ir/graph", "ir/schedule", "bundle", "codegen", "frontend", "tools", "")      # each may include those before it
FORBIDDEN = {
    r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|asprintf|vasprintf|getline|posix_memalign)\s*\(":
        "memory goes through base/alloc.h",
    r"(?<![\w.>])(strcat|sprintf|vsprintf|gets|system|popen)\s*\(": "this function has no bounds, or no errors",
    r"\bexit\s*\((?!EXIT)": "only base/alloc.c and the driver end the process",
}
MAY_EXIT = ("src/base/alloc.c", "src/base/interrupt.c", "src/driver.c")
WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def sources(ctx, *suffixes):
    for folder in ("src", "grammar", "tests", "fuzz", "bench", "stdlib", "examples"):
        for f in sorted((ctx.root / folder).rglob("*")):
            if f.suffix in suffixes and f.is_file():
                yield f, str(f.relative_to(ctx.root)), f.read_text(errors="replace")


def without_comments(text):
    """C text with comments and strings blanked out; lines stay where they are."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)


def layer(path):
    return next(i for i, name in enumerate(LAYERS) if path.startswith(name + "/") or not name)


def hidden(own, target):
    """What carries LLVM meets the front end in the driver only, so that few binaries link it."""
    return LAYERS[own] == "frontend" and LAYERS[target] == "codegen"


def include_direction(ctx):
    for _, name, text in sources(ctx, ".c", ".h", ".def"):
        if not name.startswith("src/"):
            continue
        own = layer(name[4:])
        for target in re.findall(r'^\s*#include "([^"]+)"', text, re.M):
            if (ctx.root / "src" / target).exists() and (layer(target) > own or hidden(own, layer(target))):
                yield f"{name} includes {target}"


def forbidden_calls(ctx):
    for _, name, text in sources(ctx, ".c", ".h"):
        if not name.startswith("src/") or name in MAY_EXIT:
            continue
        code = without_comments(text)
        for pattern, why in FORBIDDEN.items():
            for m in re.finditer(pattern, code):
                yield f"{name}:{code[:m.start()].count(chr(10)) + 1}: {m.group().strip()}: {why}"


def file_length(ctx):
    for _, name, text in sources(ctx, ".c", ".h", ".def", ".py"):
        n = text.count("\n")
        if n > 800 and not name.startswith("tests/") and not name.endswith(".def"):
            yield f"{name} has {n} lines"


def function_length(ctx):
    """A function fits a page; flat switches may be as long as this."""
    for _, name, text in sources(ctx, ".c", ".h"):
        for m in re.finditer(r"^\{\n(.*?)^\}", text, re.M | re.S) if name.startswith("src/") else ():
            if (n := m.group(1).count("\n")) > 60:
                yield f"{name}:{text[:m.start()].count(chr(10)) + 1}: a body of {n} lines"


NAMED = re.compile(r"(?<![\w*<.{/-])((?:[\w-]+/)*[\w-]+\.(?:c|h|def|py|tsr|md))(?![\w.(])")
ELSEWHERE = {"e_log.c", "nvtxInitDefs.h", "s.h", "tile.fragment.c"}     # fdlibm's, CUDA's, a bundle's; a layout


def files_named(ctx):
    """What documents and comments say is in a file is said of one that there is."""
    there = {str(f.relative_to(ctx.root)) for d in ("src", "tests", "bench", "stdlib", "examples", "fuzz", "docs", "grammar")
             for f in (ctx.root / d).rglob("*")} | {f.name for f in ctx.root.iterdir()}
    last = {f.rsplit("/", 1)[-1] for f in there}
    for name in sorted(there):
        if name.startswith("docs/") and name.endswith(".md") and "/explain/" not in name:
            code = re.sub(r"^(```|    ).*?$", "", (ctx.root / name).read_text(), flags=re.M)
            spans = re.findall(r"`([^`\n]+)`", code)
        elif name.startswith("src/") and name.endswith((".c", ".h", ".def")):
            spans = re.findall(r"/\*.*?\*/", (ctx.root / name).read_text(), re.S)
        else:
            continue
        for f in (f for s in spans for f in NAMED.findall(s)):
            known = f.rsplit("/", 1)[-1] in last if "/" not in f else any(t.endswith("/" + f) or t == f for t in there)
            users = f.endswith(".tsr") and not f.startswith(("bench/", "examples/", "stdlib/", "tests/"))
            if not known and not users and f not in ELSEWHERE and not f[0].isupper() and "/CODE" not in f and not f.startswith(("python/", "shared/")):
                yield f"{name}: {f}"


def no_reminders(ctx):
    for _, name, text in sources(ctx, ".c", ".h", ".def", ".py", ".tsr", ".re", ".y"):
        for i, line in enumerate(text.splitlines(), 1):
            if WORDS.search(line) and name != "tests/suites/style.py":
                yield f"{name}:{i}: {line.strip()}"


def header_guards(ctx):
    for _, name, text in sources(ctx, ".h"):
        if name.startswith("src/") and not re.search(r"#ifndef (TSR_\w+_H)\n#define \1\n", text):
            yield name


def opening_essay(ctx):
    for _, name, text in sources(ctx, ".c", ".h", ".def"):
        if name.startswith("src/") and name != "src/main.c" and not text.startswith("/*"):
            yield f"{name} does not open with what it is for"


def is_table_row(name, line):
    """A row of a table may be as long as its text."""
    return name.endswith(".def") or line.lstrip().startswith(('{"', '"', "{(", "N("))


def clean_lines(ctx):
    for _, name, text in sources(ctx, ".c", ".h", ".def", ".py", ".tsr"):
        for i, line in enumerate(text.splitlines(), 1):
            if line != line.rstrip() and name.endswith((".c", ".h", ".def", ".py")):
                yield f"{name}:{i}: blanks at the end"
            elif "\t" in line and name.endswith((".c", ".h", ".def", ".py")):
                yield f"{name}:{i}: a tab"
            elif len(line) > 150 and name.startswith("src/") and not is_table_row(name, line):
                yield f"{name}:{i}: {len(line)} columns"


def no_fast_math(ctx):
    for f in ctx.root.rglob("meson.build"):
        if "build" not in f.relative_to(ctx.root).parts[0][:5] and re.search(r"-ffast-math|-Ofast", f.read_text()):
            yield str(f)


def diagnostic_codes(ctx):
    text = (ctx.root / "src/base/diag.def").read_text()
    return re.findall(r"^DIAG\((\w\d{4}),\s*(\w+)", text, re.M)


PUBLIC = ("src/bundle/tessera.h", "src/tools/tessera_plugin.h")
PASTED = re.compile(r"(f32|f64|far|la|tsr_parse)_")      # macros and generated code put their names together
PROTOTYPE = re.compile(r"^(?!#|typedef|static|return|extern)[A-Za-z_][\w *]*?[ *](\w+)\([^;{}]*\)(?:\s*__attribute__[^;]*)?;", re.M)


def declared_for_others(ctx):
    """What only the file that defines it names is static there; what nobody defines is not declared."""
    named, headers = {}, []
    for _, name, text in sources(ctx, ".c", ".h", ".def", ".re", ".y"):
        code = text if name.endswith((".re", ".y")) else without_comments(text)
        for word in set(re.findall(r"\w+", code)):
            named.setdefault(word, set()).add(name)
        if name.startswith("src/") and name.endswith(".h") and name not in PUBLIC:
            headers.append((name, code))
    for name, code in headers:
        for f in PROTOTYPE.findall(code):
            if len(named[f]) < 3 and len(re.findall(rf"\b{f}\b", code)) == 1 and not PASTED.match(f):
                yield f"{name}: {f} is named by {', '.join(named[f] - {name}) or 'nobody'} alone"


def every_code_has_a_page(ctx):
    for code, _ in diagnostic_codes(ctx):
        if not (ctx.root / f"docs/explain/{code}.md").exists():
            yield f"docs/explain/{code}.md is missing"


def every_code_has_a_test(ctx):
    for code, _ in diagnostic_codes(ctx):
        if not list((ctx.root / "tests").rglob(f"{code}*")):
            yield f"tests/error/{code}.tsr is missing"


def planted_faults(ctx):
    """What tests/mutants.py changes stands in the source, once."""
    sys.path.insert(0, str(ctx.root / "tests"))
    import mutants
    for name, file, before, *_ in mutants.MUTANTS:
        path = ctx.root / file
        if not path.exists() or path.read_text().count(before) != 1:
            yield f"{name}: what is changed in {file} is not there once"


RULES = (include_direction, forbidden_calls, file_length, function_length, files_named, no_reminders, header_guards, opening_essay,
         clean_lines, no_fast_math, declared_for_others, every_code_has_a_page, every_code_has_a_test, planted_faults)


def check(rule, ctx):
    found = list(rule(ctx))
    if found:
        raise Fail(f"{len(found)} offenders\n  " + "\n  ".join(found[:20]))


def tests(ctx):
    for rule in RULES:
        yield Test(f"style/{rule.__name__}", lambda rule=rule: check(rule, ctx))
