#!/usr/bin/env python3
"""Compares `memmodel predict` with measured training runs.

    bench/accuracy.py --runs FOLDER --models FOLDER [--memmodel build/memmodel] [--every N] ...

FOLDER of runs: JSON lines, a measured run each: model, batch, opt, prec, bench, cl, cap, ok, peak_alloc, peak_reserved,
nvml, marks, and rows of kind "max_batch" (max_ok, min_oom under a cap in GiB); protocol.py, which made them, is
described in docs/validation.md. FOLDER of models: MODEL.pt or MODEL.pt2 for each. Every trial is a `memmodel predict`
process of its own.

Prints the error of each figure (median, 90th and 95th percentile, worst, share equal to the byte), by group and by
family of networks, the worst trials, and for the largest batch how often it is the measured one.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

OPTIMIZERS = {  # the runs' names -> torch's
    "sgd": "sgd:momentum=0.9", "sgd0": "sgd", "adamw_fused": "adamw:fused=true", "adamw_loop": "adamw:foreach=false",
}
PRECISIONS = {"fp32": "fp32", "bf16": "amp-bf16", "fp16": "amp-fp16"}
FIGURES = ("allocated", "reserved", "device")
GiB = 1 << 30


def input_of(model):
    """The input that the runs were made with, without its batch dimension; and the loss."""
    tokens = None if model.startswith("timm_") else re.search(r"_s(\d+)$", model)
    if tokens:
        return f"{tokens.group(1)}:int64", "output"
    if model == "mlp":
        return "4096", "ce"
    if model == "lstm":
        return "128:int64", "ce"
    if model == "r3d_18":
        return "3x16x112x112", "ce"
    size = 256 if model.endswith("_256") else 224
    return f"3x{size}x{size}", "ce"


def family_of(model):
    if re.search(r"_s\d+$", model) and not model.startswith("timm_") or model == "lstm":
        return "language"
    if model.endswith("_256") or model == "r3d_18":
        return "dense/video"
    if re.search(r"vit|swin|deit|beit|xcit|mixer|pvt|maxvit|coatnet|poolformer", model):
        return "vision transformer"
    return "mlp" if model == "mlp" else "convolutional"


def command(args, run):
    path = os.path.join(args.models, run["model"] + "." + args.format)
    shape, loss = input_of(run["model"])
    cmd = [args.memmodel, "predict", "--model", path, "--gpu", args.gpu, "--json", "--target", "1",
           "--optimizer", OPTIMIZERS.get(run["opt"], run["opt"]), "--precision", PRECISIONS[run["prec"]],
           "--step-protocol", "minimal", "--input", shape, "--loss", loss, "--timeout", str(args.timeout)]
    if run.get("bench"):
        cmd.append("--cudnn-benchmark")
    if run.get("cl"):
        cmd.append("--channels-last")
    if run.get("kind") == "max_batch":
        cmd += ["--allocator-limit", f"{run['cap']}GiB", "--jobs", "1"]
    else:
        cmd += ["--batch", str(run["batch"])]
    return cmd


def trial(args, run):
    start = time.time()
    row = {k: run.get(k) for k in ("model", "batch", "opt", "prec", "bench", "cl", "cap", "kind", "file")}
    try:
        done = subprocess.run(command(args, run), capture_output=True, text=True, timeout=20 * args.timeout)
        row["seconds"] = round(time.time() - start, 2)
        answer = json.loads(done.stdout) if done.stdout else {}
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return row | {"error": repr(error)[:200]}
    if run.get("kind") == "max_batch":
        if "largest_batch_before_oom" not in answer:
            return row | {"error": (done.stderr or answer.get("reason", "")).strip()[-300:]}
        return row | {"predicted": answer["largest_batch_before_oom"], "max_ok": run["max_ok"], "min_oom": run["min_oom"]}
    if "peak" not in answer:
        return row | {"error": (done.stderr or answer.get("reason", "")).strip()[-300:]}
    row["predicted"] = [answer["peak"][f + "_bytes"] for f in FIGURES]
    row["measured"] = [run["peak_alloc"], run["peak_reserved"], None]
    if isinstance(run.get("nvml"), int):
        # Taken at the end of the run: what was given back since the peak is added again.
        row["measured"][2] = run["nvml"] + run["peak_reserved"] - run["marks"][-1]["reserved"]
    return row


def errors(rows, figure):
    """(relative error, place, row), the smallest first."""
    i = FIGURES.index(figure)
    found = [(abs(r["predicted"][i] / r["measured"][i] - 1), n, r) for n, r in enumerate(rows) if r["measured"][i]]
    return sorted(found, key=lambda e: e[:2])


def quantile(sorted_errors, q):
    return sorted_errors[min(len(sorted_errors) - 1, int(q * len(sorted_errors)))][0]


def table(title, rows):
    print(f"\n{title}: {len(rows)} runs")
    print(f"  {'':10} {'median':>9} {'p90':>9} {'p95':>9} {'worst':>9} {'equal':>12}")
    for figure in FIGURES:
        e = errors(rows, figure)
        if not e:
            continue
        equal = sum(1 for x in e if x[0] == 0)
        cells = " ".join(f"{100 * v:8.4f}%" for v in (quantile(e, .5), quantile(e, .9), quantile(e, .95), e[-1][0]))
        print(f"  {figure:10} {cells} {equal:4} ({100 * equal / len(e):.0f} %)")


def largest(rows):
    print(f"\nLargest batch under the cap: {len(rows)} searches")
    if not rows:
        return
    kinds = collections.Counter()
    shares = []
    for r in rows:
        low, high = r["max_ok"], (r["min_oom"] or r["max_ok"] + 1) - 1  # the true one lies in [low, high]
        p = r["predicted"]
        r["distance"] = 0 if low <= p <= high else (p - low if p < low else p - high)
        kinds["equal" if r["distance"] == 0 else "adjacent" if abs(r["distance"]) == 1 else "below" if r["distance"] < 0 else "above"] += 1
        if low:
            shares.append(p / low)
    shares.sort()
    for k in ("equal", "adjacent", "below", "above"):
        print(f"  {k:9} {kinds[k]:4} ({100 * kinds[k] / len(rows):.0f} %)")
    seconds = sorted(r["seconds"] for r in rows)
    print(f"  predicted / measured: median {shares[len(shares) // 2]:.4f}, from {shares[0]:.4f} to {shares[-1]:.4f}")
    print(f"  seconds: median {seconds[len(seconds) // 2]:.1f}, most {seconds[-1]:.1f}")
    for r in sorted(rows, key=lambda r: -abs(r["distance"]))[:12]:
        if r["distance"]:
            print(f"    {r['model']:28} {r['opt']:6} {r['prec']:5} predicted {r['predicted']:5}, measured {r['max_ok']} (fails at {r['min_oom']})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--memmodel", default="build/memmodel")
    parser.add_argument("--files", default="sgd_fp32,adamw_bf16,optimizers_and_options")
    parser.add_argument("--format", default="pt", choices=("pt", "pt2"))
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--every", type=int, default=1, help="every Nth run")
    parser.add_argument("--only", default="", help="a regular expression on the model's name")
    parser.add_argument("--no-peaks", action="store_true")
    parser.add_argument("--no-largest", action="store_true")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=120)
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--out", default="", help="the trials as JSON lines")
    args = parser.parse_args()

    runs = []
    for name in args.files.split(","):
        with open(os.path.join(args.runs, name + ".jsonl")) as f:
            for line in f:
                run = json.loads(line) | {"file": name}
                if not re.search(args.only, run.get("model", "")):
                    continue
                if not os.path.exists(os.path.join(args.models, f"{run.get('model')}.{args.format}")):
                    continue
                is_largest = run.get("kind") == "max_batch"
                if is_largest and not args.no_largest or \
                        not is_largest and not args.no_peaks and run.get("ok") and run.get("cap") is None:
                    runs.append(run)
    runs = runs[::args.every]
    rows = []
    out = open(args.out, "w") if args.out else None
    with concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        for n, row in enumerate(pool.map(lambda r: trial(args, r), runs)):
            rows.append(row)
            if out:
                out.write(json.dumps(row) + "\n")
                out.flush()
            if sys.stderr.isatty():
                print(f"\r{n + 1} of {len(runs)}", end="", file=sys.stderr)
    good = [r for r in rows if "error" not in r]
    peaks = [r for r in good if r["kind"] != "max_batch"]
    print(f"{len(runs)} trials, {len(rows) - len(good)} failed")
    for r in rows:
        if "error" in r:
            print(f"  {r['model']} {r['opt']} {r['prec']} batch {r['batch']}: {r['error']}")
    if peaks:
        table("All", peaks)
        for name in args.files.split(","):
            table(name, [r for r in peaks if r["file"] == name])
        for family in sorted({family_of(r["model"]) for r in peaks}):
            table(family, [r for r in peaks if family_of(r["model"]) == family])
        for figure in ("allocated", "reserved"):
            i = FIGURES.index(figure)
            print(f"\nWorst, {figure}")
            for error, _, r in reversed(errors(peaks, figure)[-args.worst:]):
                print(f"  {100 * error:8.4f}%  {r['model']:28} {r['opt']:11} {r['prec']:5} {'bench ' if r['bench'] else ''}{'cl ' if r['cl'] else ''}"
                      f"batch {r['batch']:3}: predicted {r['predicted'][i]}, measured {r['measured'][i]}")
    if not args.no_largest:
        largest([r for r in good if r["kind"] == "max_batch"])


if __name__ == "__main__":
    main()
