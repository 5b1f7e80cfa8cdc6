#!/usr/bin/env python3
"""Build and run the fuzzers: ./dev fuzz [NAME] [SECONDS], or ./dev fuzz --pack FOLDER

Without a NAME every target runs; SECONDS (default 60) is the time for each.  Inputs start from fuzz/corpus/NAME, the
repository's programs and what is made here; what is found on the way is kept in build-fuzz/corpus/NAME, crashes in
build-fuzz/crashes.  --pack puts all that another machine needs into FOLDER; there, `bash FOLDER/all.sh SECONDS`.
"""
import io
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-fuzz"
BINARY = BUILD / "fuzz/fuzz"
CHECKS = ROOT / "build/tests/robust/checks"             # of the optimised build
PROGRAMS = ("lex", "parse", "check", "eval")            # start from programs
LARGEST = 5000
# A program may ask for any size; what cannot be had is its MemoryError, not a finding.
ASAN = "allocator_may_return_null=1:max_allocation_size_mb=256:detect_stack_use_after_return=0:detect_leaks="


def targets():
    return re.findall(r"^TARGET\((\w+),", (ROOT / "fuzz/targets.def").read_text(), re.M)


def npy(dtype="<f4", shape=(2, 3), data=b"\0" * 24, version=1, order="False"):
    header = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + data


def npz(members, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def objects(text):
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["gcc", "-c", "-O1", "-fPIC", "-xc", "-", "-o", f"{d}/o"], input=text.encode(), check=True)
        return pathlib.Path(d, "o").read_bytes()


def made(name):
    """Inputs of formats that the repository has no files of."""
    small = {"a.npy": npy(), "b.npy": npy("<i8", "()", b"\1" + b"\0" * 7)}
    return {
        "npy": [npy(), npy("<i8", "()", b"\1" * 8), npy("|b1", "(3,)", b"\1\0\1"), npy("<f2", "(0, 4)", b""),
                npy(">f8", "(1,)", b"\0" * 8), npy(version=2), npy(order="True"), npy("<c16", "(1,)", b"\0" * 16)],
        "npz": [npz(small, zipfile.ZIP_STORED), npz(small, zipfile.ZIP_DEFLATED), npz({}, zipfile.ZIP_STORED)],
        "safetensors": [safetensors({"a": {"dtype": d, "shape": [2], "data_offsets": [0, n]}, "__metadata__": {"k": "v"}}, b"\0" * n)
                        for d, n in (("F32", 8), ("BF16", 4), ("I64", 16), ("BOOL", 2), ("F8_E4M3", 2))],
        "json": [b'{"a": [1, -2.5e3, true, null, "x\\u00e9\\n"]}', b"[[[[]]], {}]", b"NaN", b'"\\ud83d\\ude00"', b"1e999"],
        "regex": [b"(a|b)*c\n\\1-\\g<1>\nabcaac", b"(?P<x>\\w+)\\s+(?=y)\n\\g<x>\nxx yy", b"[^a-z\\d]{2,3}?\n\nAB-cd", b"\\bx\\b|$\n&\nx"],
        "format": [b">10.3f", b"{0!r:^{1}}|{2:,.2e}", b"%-5d|%s|%+08.3f", b"#_x", b"{:%}{{}}"],
        "object": [objects("double floor(double); static int n; double f(int i, double x) { n++; return floor(x) * i + n; }"),
                   objects("static const float k[4] = {1, 2, 3, 4}; float f(int i) { return k[i & 3]; }")] if name == "object" else [],
        "store": [b"tsrobj1\n" + bytes(16) + struct.pack("<QQQ", 7, 8, n) + b"x" * n for n in (0, 1, 100)],
        "graph": [],
        "tile": [],
    }.get(name, [])


def seeds(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    sources = [ROOT / "fuzz/corpus" / name]
    if name in PROGRAMS:
        sources += [ROOT / d for d in ("tests", "stdlib", "examples")] + [ROOT.parent / "shared/corpus"]
    if name in ("graph", "tile"):
        sources += [ROOT / "tests/ir"]
    for source in sources:
        pattern = "*.tsr" if name in PROGRAMS and source.name != name else "*"
        for i, f in enumerate(sorted(source.rglob(pattern)) if source.is_dir() else []):
            if f.is_file() and f.stat().st_size < LARGEST:
                shutil.copy(f, folder / f"seed-{source.name}-{i}-{f.name}")
    for i, data in enumerate(made(name)):
        (folder / f"made-{i}").write_bytes(data)


def dictionary(name):
    own = ROOT / "fuzz" / f"{name}.dict"
    return own if own.exists() else ROOT / "fuzz/tessera.dict" if name in PROGRAMS else None


def run(name, seconds):
    corpus, crashes = BUILD / "corpus" / name, BUILD / "crashes"
    crashes.mkdir(parents=True, exist_ok=True)
    seeds(name, corpus)
    leaks = "0" if name in ("eval", "check") else "1"   # names and types live for the session
    argv = [BINARY, corpus, f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/{name}-", "-timeout=25",
            "-rss_limit_mb=4096", "-malloc_limit_mb=1000000", "-max_len=6000", "-print_final_stats=1", "-close_fd_mask=1",
            "-entropic=0",                                  # its statistics take longer than the inputs
            f"-detect_leaks={leaks}"]
    argv += [f"-dict={dictionary(name)}"] if dictionary(name) else []
    env = {**os.environ, "TESSERA_FUZZ": name, "ASAN_OPTIONS": ASAN + leaks,
           "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1", "TESSERA_THREADS": "1"}
    p = subprocess.run([str(a) for a in argv], stderr=subprocess.PIPE, text=True, errors="replace", env=env)
    execs = re.search(r"number_of_executed_units: (\d+)|out of memory after (\d+) runs", p.stderr)
    count = (execs[1] or execs[2]) if execs else "?"
    print(f"fuzz {name}: {'clean' if p.returncode == 0 else 'CRASH'}, {count} executions in {seconds} s", flush=True)
    if p.returncode:
        print(p.stderr[-4000:])
    return p.returncode == 0


def pack(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lib").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        for binary in (BINARY, CHECKS):
            subprocess.run(["strip", "-g", "-o", d / binary.name, binary], check=True)
            with open(folder / f"{binary.name}.gz", "wb") as out:
                subprocess.run(["gzip", "-9nc", d / binary.name], stdout=out, check=True)
        for name in targets():
            seeds(name, d / "seeds" / name)
        subprocess.run(["tar", "czf", folder / "seeds.tar.gz", "-C", d, "seeds"], check=True)
    for f in [ROOT / "fuzz/all.sh", *(ROOT / "fuzz").glob("*.dict")]:
        shutil.copy(f, folder)
    for line in subprocess.run(["ldd", BINARY, CHECKS], capture_output=True, text=True).stdout.splitlines():
        if "=> /" in line and not re.search(r"lib(c|m)\.so", line):
            shutil.copy(line.split()[2], folder / "lib")
    print(f"run there: bash {folder.name}/all.sh SECONDS")


def main(argv):
    if subprocess.run(["ninja", "-C", BUILD, "fuzz/fuzz"], stdout=subprocess.DEVNULL).returncode:
        return 1
    if argv[:1] == ["--pack"] and len(argv) == 2:
        if subprocess.run(["ninja", "-C", ROOT / "build", "tests/robust/checks"], stdout=subprocess.DEVNULL).returncode:
            return 1
        return pack(pathlib.Path(argv[1]))
    names = [a for a in argv if not a.isdigit()] or targets()
    seconds = int(next((a for a in argv if a.isdigit()), "60"))
    unknown = [n for n in names if n not in targets()]
    if unknown:
        sys.exit(f"no such target: {unknown[0]}; there are {', '.join(targets())}")
    return 0 if all([run(n, seconds) for n in names]) else 1


sys.exit(main(sys.argv[1:]))
