#!/usr/bin/env python3
"""Makes a stand-in's plain functions and its version script from an export list.

An export list (exports/NAME.csv) names every function that the stand-in shows:

    function,class,form
    cudaMalloc,modelled,
    cudaGraphAddKernelNode,refused,

class  modelled: answers as the real one does; in hand-written code unless `form` says otherwise
       accepted: does nothing and succeeds, counted; never a function whose answer decides memory
       refused:  fails as the real one does where a feature is absent, counted and logged
form   how the generated function looks where it is not `int f(...)` that returns 0 or the
       library's "not supported":
         new N    stores a handle of its own through argument N (modelled or accepted), returns 0
         zero N   stores a null pointer through argument N, returns 0
         value X  returns X (any class)
         text T   returns the text T (for functions that return const char*)
         none     returns nothing
         forward  calls the real library's function of that name, which the stand-in's own code
                  looks up: void* memmodel_vgpu_real(const char* name)
         data     a variable of 64 bytes, not a function

A fourth field, 12 or 13, says that the row is for stand-ins of that CUDA version alone: the function is
not in the other, or has another signature there.

    generate.py code NAME.csv --cuda 13 --refusal 801 --version libcudart.so.13 --source OUT.c --map OUT.map
    generate.py table OUT.md NAME.csv...
"""
import argparse
import csv
import pathlib
import re
import sys

CLASSES = ("modelled", "accepted", "refused")
CUDA = ("12", "13")
FORM = re.compile(r"|new [1-9]|zero [1-9]|value .+|text .+|none|forward|data")


FORWARD = """/* Passes on whatever was passed, without its prototype: integer and floating-point arguments travel
 * in registers of their own on x86-64 (System V) and AArch64, in whatever order they were declared;
 * further integer arguments follow on the stack. No structure goes by value. */
void* memmodel_vgpu_real(const char* name);
#if defined(__x86_64__)
#define REGISTERS(x) x a1, x a2, x a3, x a4, x a5, x a6
#else
#define REGISTERS(x) x a1, x a2, x a3, x a4, x a5, x a6, x a7, x a8
#endif
#define FLOATS(x) x d1, x d2, x d3, x d4, x d5, x d6, x d7, x d8
#define STACK(x) x s1, x s2, x s3, x s4, x s5, x s6, x s7, x s8, x s9, x s10, x s11, x s12
#define NOTHING
typedef long (*any_function)(REGISTERS(long), FLOATS(double), STACK(long));
#define FORWARD(name)                                                                     \\
  VGPU long name(REGISTERS(long), FLOATS(double), STACK(long)) {                          \\
    static any_function real;                                                             \\
    any_function function = __atomic_load_n(&real, __ATOMIC_RELAXED);                     \\
    if (function == 0) {                                                                  \\
      function = (any_function)memmodel_vgpu_real(#name);                                 \\
      __atomic_store_n(&real, function, __ATOMIC_RELAXED);                                \\
    }                                                                                     \\
    return function(REGISTERS(NOTHING), FLOATS(NOTHING), STACK(NOTHING));                 \\
  }
"""


def read(path):
    """The rows of an export list as (function, class, form, CUDA versions); ends on the first bad line."""
    rows = []
    seen = set()
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        if next(reader, None) != ["function", "class", "form"]:
            sys.exit(f"{path}: the first line must be function,class,form")
        for number, row in enumerate(reader, 2):
            if len(row) not in (3, 4) or row[1] not in CLASSES or not FORM.fullmatch(row[2]):
                sys.exit(f"{path}:{number}: not a function, a class and a form: {row}")
            versions = CUDA if len(row) == 3 else (row[3],)
            new = {(row[0], version) for version in versions}
            if not re.fullmatch(r"[A-Za-z_]\w*", row[0]) or new & seen or not set(versions) <= set(CUDA):
                sys.exit(f"{path}:{number}: no name, one that was there before, or no CUDA version: {row}")
            seen |= new
            rows.append((*row[:3], versions))
    return rows


def function(name, kind, form, refusal):
    """The C text of one generated function; None if it is written by hand."""
    if kind == "modelled" and not form:
        return None
    if form == "data":
        return f"__attribute__((visibility(\"default\"))) char {name}[64];\n"
    if form == "forward":
        return f"FORWARD({name})\n"
    word = "refuse" if kind == "refused" else "accept"
    report = "" if kind == "modelled" else (
        f"  static struct memmodel_vgpu_call call = {{\"{name}\", 0, 0}};\n"
        f"  memmodel_vgpu_{word}(&call);\n")
    result = refusal if kind == "refused" else "0"
    parameters, action, returns = "", "", "long"
    verb, _, rest = form.partition(" ")
    if verb in ("new", "zero"):
        parameters = ", ".join(f"void* a{i}" for i in range(1, int(rest) + 1))
        value = f"memmodel_vgpu_new_handle(\"{name}\")" if verb == "new" else "0"
        unused = "".join(f"  (void)a{i};\n" for i in range(1, int(rest)))
        action = f"{unused}  *(void**)a{rest} = {value};\n"
    elif verb == "value":
        result = rest
    elif verb == "text":
        result = f"\"{rest}\""
    body = action + report
    if verb == "none":
        returns = "void"
    else:
        body += f"  return (long)({result});\n"
    return f"VGPU {returns} {name}({parameters}) {{\n{body}}}\n"


def write(path, text):
    """Leaves a file that already holds `text` alone, so that nothing is built again."""
    path = pathlib.Path(path)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def code(arguments):
    rows = [row[:3] for row in read(arguments.list) if arguments.cuda in row[3]]
    parts = [
        "/* Made by generate.py from an export list. */\n",
        '#include "src/vgpu/calls.h"\n\n',
        "/* Callers pass the arguments of the real prototype; these take none of them.\n"
        " * A long fills the register for every integer and pointer result. */\n",
        '#define VGPU __attribute__((visibility("default")))\n\n',
    ]
    if any(form == "forward" for _, _, form in rows):
        parts.append(FORWARD)
    parts += [t for t in (function(*row, arguments.refusal) for row in rows) if t]
    write(arguments.source, "".join(parts))
    names = "".join(f"    {name};\n" for name, _, _ in rows)
    node = arguments.version or ""
    hidden = "  local: *;\n" if rows else ""
    body = f"  global:\n{names}" if names else ""
    write(arguments.map, f"{node} {{\n{body}{hidden}}};\n")


def table(arguments):
    lines = ["# Functions of the stand-ins\n\n",
             "Made by src/vgpu/generate.py from src/vgpu/exports; what the classes mean is in "
             "stand_ins.md.\n\n", "| library | modelled | accepted | refused |\n", "|---|---|---|---|\n"]
    lists = [(pathlib.Path(p).stem, read(p)) for p in sorted(arguments.lists)]
    for name, rows in lists:
        counts = [sum(row[1] == k for row in rows) for k in CLASSES]
        lines.append(f"| {name} | {counts[0]} | {counts[1]} | {counts[2]} |\n")
    for name, rows in lists:
        lines.append(f"\n## {name}\n\n| function | class |\n|---|---|\n")
        lines += [f"| {f}{'' if versions == CUDA else f' (CUDA {versions[0]})'} | {kind} |\n"
                  for f, kind, _, versions in sorted(rows)]
    write(arguments.out, "".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("code")
    one.add_argument("list")
    one.add_argument("--cuda", choices=CUDA, required=True)
    one.add_argument("--refusal", required=True)
    one.add_argument("--version", default="")
    one.add_argument("--source", required=True)
    one.add_argument("--map", required=True)
    one.set_defaults(run=code)
    every = commands.add_parser("table")
    every.add_argument("out")
    every.add_argument("lists", nargs="+")
    every.set_defaults(run=table)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
