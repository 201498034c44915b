#!/usr/bin/env python3
"""On a machine with a GPU: do traces of the real GPU give torch's own peaks, to the byte?

    data/certified/real_peaks.py MEMMODEL FOLDER_OF_PT_FILES OUT.csv [NETWORK...]

Each network is trained for three steps on the GPU by memmodel-trace. Two sources of the same figures are
compared: the allocator's statistics, which torch.cuda.max_memory_allocated() and max_memory_reserved()
read, and the traced requests and segments, sent through `memmodel simulate` (the allocator without torch).
"""
import concurrent.futures
import csv
import json
import os
import subprocess
import sys
import tempfile

SETTINGS = {"sgd_fp32": ({"name": "sgd", "options": {"momentum": 0.9}}, "fp32"),
            "adamw_bf16": ({"name": "adamw", "options": {}}, "amp-bf16")}


def peaks_of(program, path):
    """(allocated, reserved) of the traced requests."""
    done = subprocess.run([program, "simulate", "--requests", path, "--segment-addresses", "recorded", "--json"],
                          capture_output=True, text=True, check=True)
    peak = json.loads(done.stdout)["peak"]
    return peak["allocated_bytes"], peak["reserved_bytes"]


def trial(program, model, setting, batch):
    optimizer, precision = SETTINGS[setting]
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace")
        job = {"job": 1, "model": model, "device": "cuda", "optimizer": optimizer, "precision": precision,
               "loss": "auto", "mode": "train", "step_protocol": "loop"}
        probe = {"probe": 1, "batch": batch, "steps": 3, "total_bytes": 0, "context_bytes": 0, "trace": trace}
        done = subprocess.run([os.environ.get("MEMMODEL_TRACE", program + "-trace"), "--serve"], input=json.dumps(job) + "\n" + json.dumps(probe) + "\n",
                              capture_output=True, text=True, timeout=300)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        peak = next((a["peak"] for a in answers if a.get("outcome") == "ok"), None)
        if peak is None:
            return None, (answers[-1:] or done.stderr[-300:])
        return (peak["allocated_bytes"], peak["reserved_bytes"]) + peaks_of(program, trace), ""


def main():
    program, folder, out = sys.argv[1:4]
    names = sys.argv[4:] or sorted(f[:-3] for f in os.listdir(folder) if f.endswith(".pt"))
    jobs = [(n, s, int(os.environ.get("BATCH_" + n, 16))) for n in names for s in SETTINGS]
    with concurrent.futures.ThreadPoolExecutor(4) as pool, open(out, "w") as file:
        rows = csv.writer(file)
        rows.writerow(["network", "optimizer_precision", "batch", "max_memory_allocated", "max_memory_reserved",
                       "trace_allocated", "trace_reserved", "equal"])
        found = pool.map(lambda j: trial(program, os.path.join(folder, j[0] + ".pt"), j[1], j[2]), jobs)
        equal = failed = 0
        for (name, setting, batch), (figures, why) in zip(jobs, found):
            if figures is None:
                failed += 1
                print(name, setting, "failed:", why, file=sys.stderr)
                continue
            same = figures[:2] == figures[2:]
            equal += same
            rows.writerow([name, setting, batch, *figures, "yes" if same else "no"])
    print("%d of %d equal to the byte, %d failed" % (equal, len(jobs) - failed, failed))


main()
