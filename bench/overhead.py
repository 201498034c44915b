#!/usr/bin/env python3
"""What `memmodel predict` costs beside an empty program that loads the same libraries.

    bench/overhead.py [build [model.pt [batch]]]

Runs, alternating, a job that memmodel-trace refuses at once (start-up and libraries alone), and the whole of
`memmodel predict --model model.pt --gpu h200 --batch N` with its processes: load, find the loss, three training steps.
Prints medians in ms, their ratio, and the largest resident size of any of its processes. The first prediction, which
may have to ask cuDNN, is not counted.
"""

import json
import os
import statistics
import subprocess
import sys
import time

REPEATS = 7


def run(command, text=""):
    """Milliseconds, the largest resident MiB of the process and its children, and the exit code."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.stdin.write(text.encode())
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return 1e3 * (time.perf_counter() - start), usage.ru_maxrss / 1024, process.returncode


def main():
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    build = sys.argv[1] if len(sys.argv) > 1 else os.path.join(source, "build")
    model = sys.argv[2] if len(sys.argv) > 2 else os.path.join(source, "models", "resnet50.pt")
    batch = sys.argv[3] if len(sys.argv) > 3 else "32"
    os.environ.setdefault("MEMMODEL_VGPU_DEVICE", os.path.join(source, "data", "devices", "h200.json"))
    refused = json.dumps({"job": 1, "model": "/does/not/exist"}) + "\n"
    predict = [os.path.join(build, "memmodel"), "predict", "--model", model, "--gpu", "h200", "--batch", batch]
    if run(predict)[2] not in (0, 1):
        sys.exit(f"failed: {' '.join(predict)}")
    empty, served, resident = [], [], []
    for _ in range(REPEATS):
        empty.append(run([os.path.join(build, "memmodel-trace"), "--serve"], refused)[0])
        ms, mib, _ = run(predict)
        served.append(ms)
        resident.append(mib)
    base, whole = statistics.median(empty), statistics.median(served)
    print(f"empty child {base:.0f} ms, {os.path.basename(model)} batch {batch}: {whole:.0f} ms, ratio {whole / base:.2f}")
    print(f"resident {max(resident):.0f} MiB")
    with open("/proc/cpuinfo") as info:
        names = {line.split(":")[1].strip() for line in info if line.startswith("model name")}
    print(f"machine: {os.cpu_count()} x {', '.join(sorted(names)) or 'unknown'}")


if __name__ == "__main__":
    main()
