#!/usr/bin/env python3
"""What memmodel-trace costs beside an empty program that loads the same libraries.

    bench/overhead.py build [model.pt [batch]]

Runs, alternating, a job that is refused at once (start-up and libraries alone), and the
same job served: load, find the loss, three training steps. Prints medians in ms, their
ratio, and the largest resident size of any of its processes.
"""

import json
import os
import statistics
import subprocess
import sys
import time

REPEATS = 7


def run(program, lines):
    start = time.perf_counter()
    process = subprocess.Popen(
        [program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    process.stdin.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    process.stdin.close()
    answers = [json.loads(line) for line in process.stdout]
    _, _, usage = os.wait4(process.pid, 0)
    return 1e3 * (time.perf_counter() - start), usage.ru_maxrss / 1024, answers


def main():
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    model = sys.argv[2] if len(sys.argv) > 2 else os.path.join(source, "models", "resnet50.pt")
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 32
    os.environ.setdefault("MEMMODEL_VGPU_DEVICE", os.path.join(source, "data", "devices", "h200.json"))
    program = os.path.join(build, "memmodel-trace")
    empty, served, resident = [], [], []
    for _ in range(REPEATS):
        empty.append(run(program, [{"job": 1, "model": "/does/not/exist"}])[0])
        ms, mib, answers = run(program, [{"job": 1, "model": model}, {"probe": 1, "batch": batch}])
        if answers[-1].get("outcome") != "ok":
            sys.exit(f"the probe failed: {answers[-1]}")
        served.append(ms)
        resident.append(mib)
    base, whole = statistics.median(empty), statistics.median(served)
    print(f"empty child {base:.0f} ms, {os.path.basename(model)} batch {batch}: {whole:.0f} ms, ratio {whole / base:.2f}")
    print(f"load {answers[0]['load_ms']:.0f} ms, probe {answers[-1]['elapsed_ms']:.0f} ms, resident {max(resident):.0f} MiB")
    with open("/proc/cpuinfo") as info:
        names = {line.split(":")[1].strip() for line in info if line.startswith("model name")}
    print(f"machine: {os.cpu_count()} x {', '.join(sorted(names)) or 'unknown'}")


if __name__ == "__main__":
    main()
