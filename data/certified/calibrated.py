#!/usr/bin/env python3
"""On a machine with a GPU: are predictions equal to real runs after `memmodel calibrate`?

    data/certified/calibrated.py MEMMODEL OUT.csv BATCHES NETWORK.pt...

Calibrates in a folder of its own (MEMMODEL_USER_DATA), then trains each network for three steps at each
batch on the GPU, on the virtual GPU as it is shipped, and on the calibrated one; SGD in fp32 and AdamW
under bf16 autocast. Compares torch's peaks, and NVML's figure with reserved memory plus the context rule.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

SETTINGS = {"sgd_fp32": ({"name": "sgd", "options": {"momentum": 0.9}}, "fp32"),
            "adamw_bf16": ({"name": "adamw", "options": {}}, "amp-bf16")}


def probes(program, model, setting, batches, device, environment):
    """{batch: (allocated, reserved, context)}"""
    optimizer, precision = SETTINGS[setting]
    job = {"job": 1, "model": model, "device": device, "optimizer": optimizer, "precision": precision,
           "loss": "auto", "mode": "train", "step_protocol": "minimal"}
    lines = [json.dumps(job)] + [json.dumps({"probe": b, "batch": b, "steps": 3, "total_bytes": 0, "context_bytes": 0,
                                             "trace": ""}) for b in batches]
    done = subprocess.run([os.environ.get("MEMMODEL_TRACE", program + "-trace"), "--serve"], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, timeout=400, env=dict(os.environ, **environment))
    found = {}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        if answer.get("outcome") == "ok":
            found[answer["probe"]] = (answer["peak"]["allocated_bytes"], answer["peak"]["reserved_bytes"],
                                      answer.get("context", {}))
        elif "error" in answer:
            print(model, device, answer["error"], file=sys.stderr)
    return found


def main():
    program, out = sys.argv[1:3]
    batches, models = [int(b) for b in sys.argv[3].split(",")], sys.argv[4:]
    own = tempfile.mkdtemp()
    environment = {"MEMMODEL_USER_DATA": own}
    named = [word for model in models for word in ("--model", model)]
    for precision in ("fp32", "amp-bf16"):
        start = time.time()
        done = subprocess.run([program, "calibrate", *named, "--batches", "1-64", "--precision", precision],
                              text=True, capture_output=True, env=dict(os.environ, **environment))
        print(done.stdout, done.stderr, "memmodel calibrate --batches 1-64 --precision %s took %.1f s"
              % (precision, time.time() - start), flush=True)
        if done.returncode:
            sys.exit(1)
    own_file = os.path.join(own, "devices", os.listdir(os.path.join(own, "devices"))[0])
    with open(own_file) as file:
        device = json.load(file)
    data = os.environ.get("MEMMODEL_DATA") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    shipped_file = os.path.join(data, "devices", device["name"] + ".json")
    places = {"real": ("cuda", {}), "shipped": ("virtual", {"MEMMODEL_VGPU_DEVICE": shipped_file}),
              "calibrated": ("virtual", {"MEMMODEL_VGPU_DEVICE": own_file})}
    jobs = [(m, s, p) for m in models for s in SETTINGS for p in places]
    with ThreadPoolExecutor(6) as pool:
        answers = dict(zip(jobs, pool.map(lambda j: probes(program, j[0], j[1], batches, *places[j[2]]), jobs)))
    tally = {p: [0, 0, 0, 0] for p in ("shipped", "calibrated")}
    with open(out, "w") as file:
        rows = csv.writer(file)
        rows.writerow(["network", "optimizer_precision", "batch", "real_allocated", "real_reserved", "real_nvml_less_reserved",
                       "shipped_allocated", "shipped_reserved", "calibrated_allocated", "calibrated_reserved", "context_rule"])
        for model in models:
            for setting in SETTINGS:
                for batch in batches:
                    found = {p: answers[model, setting, p].get(batch) for p in places}
                    if None in found.values():
                        print(model, setting, batch, "did not run:", [p for p in found if found[p] is None])
                        continue
                    real, context = found["real"], device["context"]
                    handles = found["calibrated"][2]
                    rule = (context["base_bytes"] + handles.get("cublas_handles", 0) * context["cublas_handle_bytes"]
                            + handles.get("cudnn_handles", 0) * context["cudnn_handle_bytes"])
                    rows.writerow([os.path.basename(model)[:-3], setting, batch, real[0], real[1],
                                   real[2].get("measured_bytes", ""), *found["shipped"][:2], *found["calibrated"][:2], rule])
                    for place, count in tally.items():
                        count[0] += 1
                        count[1] += found[place][0] == real[0]
                        count[2] += found[place][1] == real[1]
                        count[3] += found[place][:2] == real[:2]
    for place, count in tally.items():
        print("%s: %d runs, allocated equal in %d, reserved in %d, both in %d" % (place, *count))


main()
