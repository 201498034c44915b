#!/usr/bin/env python3
"""Checks the stand-ins against torch's own libraries and the lists in src/vgpu/exports.

Every symbol that torch imports from NVIDIA's libraries must be exported by a stand-in under the
version that torch asks for, and its class must stand in the table of docs/stand_ins_functions.md.

What torch imports is read from its libraries (--torch), or from a file that --record made of them
(--recorded): lines of a symbol and its version, or of a library's SONAME, "-" for no version.
"""
import argparse
import csv
import pathlib
import re
import subprocess
import sys
import tempfile

# NVIDIA's prefixes; what torch's libraries define themselves is taken out below.
NVIDIA = re.compile(r"(__cuda|cuda|cu)[A-Z]\w*|(cublas|cudnn|cufft|curand|cusolver|cusparse|cupti|nccl|"
                    r"pnccl|nvml|nvrtc|nvshmem)\w+")
# A function that says how much memory something needs must not merely be accepted.
SIZE = re.compile(r"(?i)buffer_?size|work(space)?_?size|getworkspace|estimate|malloc|memalloc|"
                  r"compressedsize|nnz$|makeplan|statessize|paramssize")


def symbols(path, defined):
    """(name, version) of each dynamic symbol of a library, version '' if it has none."""
    text = subprocess.run(["readelf", "--dyn-syms", "--wide", path], capture_output=True, text=True,
                          check=True).stdout
    found = set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        if fields[4] == "LOCAL" or (fields[6] != "UND") != defined:
            continue
        name, _, version = fields[7].partition("@")
        found.add((name, version.lstrip("@")))
    return found


def dynamic(path, kind):
    """The names that the dynamic section gives under `kind`: NEEDED or SONAME."""
    text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return set(re.findall(rf"\({kind}\).*\[(.+)\]", text))


def imports(folder):
    """What torch's libraries take from NVIDIA's: (symbol, version), (SONAME, "")."""
    torch = sorted(folder.glob("lib*.so*"))
    own = {name for path in torch for name, _ in symbols(path, True)}
    libraries = {(name, "") for path in torch for name in dynamic(path, "NEEDED")
                 if re.match(r"lib(cu|nv|nccl)", name)}
    return libraries | {(name, version) for path in torch for name, version in symbols(path, False)
                        if NVIDIA.fullmatch(name) and name not in own}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", type=pathlib.Path)
    parser.add_argument("--recorded", type=pathlib.Path)
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--cuda", choices=("12", "13"), default="13")
    parser.add_argument("--stand-ins", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path)
    arguments = parser.parse_args()
    problems = []

    if arguments.torch:
        wanted = imports(arguments.torch)
    else:
        lines = arguments.recorded.read_text(encoding="utf-8").splitlines()
        wanted = {(name, version.strip("-")) for name, version in (line.split() for line in lines)}
    if arguments.record:
        arguments.record.write_text("".join(f"{name} {version or '-'}\n" for name, version in sorted(wanted)),
                                    encoding="utf-8")
        return
    if len(wanted) < 500:
        problems.append(f"only {len(wanted)} imports found: is that torch?")

    exported = {}
    for path in arguments.stand_ins.glob("*.so.*"):
        exported[path.name] = {""}
        if dynamic(path, "SONAME") != {path.name}:
            problems.append(f"{path.name} has another SONAME than its name")
        for name, version in symbols(path, True):
            exported.setdefault(name, set()).add(version)
    for name, version in sorted(wanted):
        # A reference without a version is bound to the default one.
        if version not in exported.get(name, ()) and (version or name not in exported):
            problems.append(f"{name}@{version or '(none)'} is not exported; there is "
                            f"{sorted(exported.get(name, ())) or 'no such symbol'}")

    classes = {}
    for path in sorted((arguments.source / "src/vgpu/exports").glob("*.csv")):
        with open(path, newline="", encoding="utf-8") as file:
            for function, kind, _, *cuda in list(csv.reader(file))[1:]:
                if cuda in ([], [arguments.cuda]):
                    classes[function] = kind
                if kind == "accepted" and SIZE.search(function):
                    problems.append(f"{path.name}: {function} decides memory but is accepted")
    table = (arguments.source / "docs/stand_ins_functions.md").read_text(encoding="utf-8")
    in_table = {name: kind for name, cuda, kind in re.findall(
        r"^\| (\w+)(?: \(CUDA (\d+)\))? \| (modelled|accepted|refused) \|$", table, re.M)
        if cuda in ("", arguments.cuda)}
    for name in sorted({name for name, _ in wanted if ".so." not in name}):
        if in_table.get(name) is None or in_table[name] != classes.get(name):
            problems.append(f"{name} has class {classes.get(name)}, the table says "
                            f"{in_table.get(name)}")
    with tempfile.TemporaryDirectory() as folder:
        fresh = pathlib.Path(folder) / "table.md"
        subprocess.run([sys.executable, arguments.source / "src/vgpu/generate.py", "table", fresh,
                        *sorted((arguments.source / "src/vgpu/exports").glob("*.csv"))], check=True)
        if fresh.read_text(encoding="utf-8") != table:
            problems.append("docs/stand_ins_functions.md is out of date: ninja vgpu_table")

    print(f"{len(wanted)} imports of torch, {len(classes)} functions in the lists")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
