#!/usr/bin/env python3
"""On a machine with a GPU: traces three training steps of networks on the real GPU and on the virtual one, and compares.

    data/certified/real_traces.py MEMMODEL FOLDER_OF_PT_FILES OUT.csv [NETWORK...]

SGD in fp32 and AdamW under bf16 autocast, batch 16 (BATCH_NETWORK=N in the environment for another). A row of OUT.csv:
requests of the real trace; differences of `memmodel diff`; requests without a counterpart of equal size; whether the peaks
of live requests are equal in every step; the differences by operator family and library.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

SETTINGS = {"sgd_fp32": ("sgd:momentum=0.9", "fp32"), "adamw_bf16": ("adamw", "amp-bf16")}


def names(groups):
    said = []
    for group in groups:
        what = ["%d %s" % (group[key], word) for key, word in
                (("size", "of another size"), ("only_a", "virtual only"), ("only_b", "real only"), ("order", "released at another time"))
                if group[key]]
        said.append("%s (%s): %s" % (group["family"], group["library"], ", ".join(what)))
    return "; ".join(said)


def pair(program, folder, network, setting):
    optimizer, precision = SETTINGS[setting]
    batch = os.environ.get("BATCH_" + network.replace(".", "_"), "16")
    with tempfile.TemporaryDirectory() as out:
        files = {device: os.path.join(out, device) for device in ("virtual", "cuda")}
        for device, path in files.items():
            done = subprocess.run([program, "trace", "--device", device, "--model", os.path.join(folder, network + ".pt"), "--gpu", "h200",
                                   "--batch", batch, "--optimizer", optimizer, "--precision", precision,
                                   "--step-protocol", "fresh", "--output", path], capture_output=True, text=True)
            if done.returncode:
                return None, device + ": " + done.stderr.strip()
        done = subprocess.run([program, "diff", "--json", files["virtual"], files["cuda"]], capture_output=True, text=True)
    diff = json.loads(done.stdout)
    parts = diff["parts"]
    unmatched = sum(p["requests_a"] + p["requests_b"] - 2 * p["matched"] for p in parts)
    peaks = all(p["requested_peak_a_bytes"] == p["requested_peak_b_bytes"] for p in parts)
    return [network, setting, batch, sum(p["requests_b"] for p in parts), diff["difference_count"], unmatched,
            "yes" if peaks else "no", names(diff["groups"])], ""


def main():
    program, folder, out = sys.argv[1:4]
    networks = sys.argv[4:] or sorted(f[:-3] for f in os.listdir(folder) if f.endswith(".pt"))
    jobs = [(n, s) for n in networks for s in SETTINGS]
    with ThreadPoolExecutor(8) as pool, open(out, "w") as file:
        rows = csv.writer(file)
        rows.writerow(["network", "optimizer_precision", "batch", "requests", "differences", "unmatched_requests", "peaks_equal", "named"])
        kept = []
        for (network, setting), (row, why) in zip(jobs, pool.map(lambda j: pair(program, folder, *j), jobs)):
            if row is None:
                print(network, setting, why)
                continue
            rows.writerow(row)
            kept.append(row)
    print("%d pairs: %d identical, %d with the same requests, %d with the same peaks" % (
        len(kept), sum(r[4] == 0 for r in kept), sum(r[5] == 0 for r in kept), sum(r[6] == "yes" for r in kept)))


main()
