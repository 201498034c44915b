"""Installs the libraries, builds the examples against them and runs them.

    install_test.py CMAKE BUILD_DIR SOURCE_DIR CC CXX
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

CMAKE, BUILD, SOURCE, CC, CXX = sys.argv[1:6]
MODEL = os.path.join(BUILD, "tests", "sample.model")


def run(*command, code=0, env=None):
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != code:
        sys.exit(f"FAILED ({done.returncode}): {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(condition, what):
    if not condition:
        sys.exit("FAILED: " + what)


def find(root, name):
    for folder, _, files in os.walk(root):
        if name in files:
            return os.path.join(folder, name)
    sys.exit(f"FAILED: {name} is not installed")


with tempfile.TemporaryDirectory() as temporary:
    first, prefix = os.path.join(temporary, "first"), os.path.join(temporary, "moved")
    run(CMAKE, "--install", BUILD, "--prefix", first, "--component", "memmodel-dev")
    os.rename(first, prefix)  # an installed tree can be moved
    library = os.path.realpath(find(prefix, "libmemmodel_c.so"))
    folder = os.path.dirname(library)

    # By CMake.
    build = os.path.join(temporary, "build")
    run(CMAKE, "-S", os.path.join(SOURCE, "examples"), "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}", "-DCMAKE_BUILD_TYPE=Release")
    run(CMAKE, "--build", build)
    # 0.8 * 1000 MiB = 838860800 bytes for the job.
    out = run(os.path.join(build, "largest_batch"), MODEL, str(1000 << 20))
    check(re.fullmatch(r"largest batch \d+: reserved \d+ of 838860800 bytes\n", out), out)
    largest = int(out.split()[2].rstrip(":"))
    out = run(os.path.join(build, "place_jobs"), MODEL, "1000MiB", "1000MiB:400MiB")
    batches = [int(line.split("batch ")[1].split(",")[0]) for line in out.splitlines()]
    check(batches[0] == largest and 0 <= batches[1] < largest, out)
    out = run(os.path.join(build, "largest_batch"), MODEL, str(100 << 20), code=1)
    check(out.startswith("not even one sample"), out)
    run(os.path.join(build, "largest_batch"), "/no/such/file", "1", code=2)

    # By pkg-config, as strict C.
    if shutil.which("pkg-config"):
        env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(find(prefix, "memmodel.pc")))
        flags = run("pkg-config", "--cflags", "--libs", "memmodel", env=env).split()
        program = os.path.join(temporary, "strict")
        run(CC, "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror",
            os.path.join(SOURCE, "examples", "largest_batch.c"), "-o", program, *flags)
        run(program, MODEL, str(1000 << 20), env=dict(os.environ, LD_LIBRARY_PATH=folder))

    # Every public header compiles by itself.
    headers = os.path.join(prefix, "include")
    for header in sorted(os.listdir(os.path.join(headers, "memmodel"))):
        source = os.path.join(temporary, "header.c" if header == "c.h" else "header.cc")
        with open(source, "w") as file:
            file.write(f"#include <memmodel/{header}>\n")
        command = [CC, "-std=c11", "-pedantic"] if header == "c.h" else [CXX, "-std=c++20"]
        run(*command, "-Wall", "-Werror", "-fsyntax-only", "-I", headers, source)

    # What the library needs, and what it shows.
    # By name alone: what ldd prints ends in addresses, any of which may contain "c10".
    needed = {line.split()[0] for line in run("ldd", library).splitlines()}
    check(not any(part in name for name in needed for part in ("torch", "c10", "cuda")), sorted(needed))
    shown = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()
             if line.split()[-2] != "A"}
    with open(os.path.join(headers, "memmodel", "c.h")) as file:
        declared = set(re.findall(r"MEMMODEL_EXPORT[\w\s\*]*?(memmodel_\w+)\(", file.read()))
    check(len(declared) == 10 and shown == declared, f"exported {sorted(shown)}, declared {sorted(declared)}")
    soname = run("readelf", "-d", library)
    check("[libmemmodel_c.so.1]" in soname, soname)
print("ok")
