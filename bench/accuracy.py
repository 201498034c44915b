#!/usr/bin/env python3
"""Predictions against the measured runs of a folder, by `memmodel validate`, with tables by file and family of networks.

    bench/accuracy.py --runs FOLDER --models FOLDER [--memmodel build/memmodel] [--every N] ...

FOLDER of runs: JSON lines as docs/validation.md has them (FILE.jsonl), without the networks' inputs, which are added here.
FOLDER of models: MODEL.pt or MODEL.pt2 for each (--format). What `memmodel validate` compares and how is said there; this adds which
input and loss each network was measured with, runs jobs side by side, and sorts the errors.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

FIGURES = ("allocated", "reserved", "device")


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


def validate(args, runs):
    """The comparisons and failures of runs that share a job, as `memmodel validate` finds them."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for run in runs:
            shape, loss = input_of(run["model"])
            file.write(json.dumps(run | {"input": shape, "loss": loss}) + "\n")
        file.flush()
        done = subprocess.run([args.memmodel, "validate", "--runs", file.name, "--models", args.models, "--gpu", args.gpu, "--json",
                               *([] if args.no_largest else ["--largest-batches"])], capture_output=True, text=True)
    if not done.stdout:
        return [], [(run, done.stderr.strip()[-300:]) for run in runs]
    answer = json.loads(done.stdout)
    found = [c | {"run": runs[c["line"] - 1]} for c in answer["comparisons"]]
    return found, [(runs[f["line"] - 1], f["why"]) for f in answer["failed"]]


def quantile(sorted_errors, q):
    return sorted_errors[min(len(sorted_errors) - 1, int(q * len(sorted_errors)))]


def table(title, comparisons):
    print(f"\n{title}: {len({id(c['run']) for c in comparisons})} runs")
    print(f"  {'':10} {'median':>9} {'p90':>9} {'p95':>9} {'worst':>9} {'equal':>12}")
    for figure in FIGURES:
        e = sorted(abs(c["error"]) for c in comparisons if c["quantity"] == figure)
        if not e:
            continue
        equal = sum(x == 0 for x in e)
        cells = " ".join(f"{100 * v:8.4f}%" for v in (quantile(e, .5), quantile(e, .9), quantile(e, .95), e[-1]))
        print(f"  {figure:10} {cells} {equal:4} ({100 * equal / len(e):.0f} %)")


def largest(comparisons):
    found = [c for c in comparisons if c["quantity"] == "largest_batch"]
    print(f"\nLargest batch under the cap: {len(found)} searches")
    kinds = collections.Counter("equal" if c["error"] == 0 else "adjacent" if abs(c["predicted"] - c["measured"]) == 1 else
                                "below" if c["error"] < 0 else "above" for c in found)
    for kind in ("equal", "adjacent", "below", "above"):
        print(f"  {kind:9} {kinds[kind]:4} ({100 * kinds[kind] / max(1, len(found)):.0f} %)")
    for c in sorted(found, key=lambda c: -abs(c["error"]))[:12]:
        if c["error"]:
            run = c["run"]
            print(f"    {run['model']:28} {run['opt']:6} {run['prec']:5} predicted {c['predicted']:5}, measured {run['max_ok']} (fails at {run['min_oom']})")


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
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--out", default="", help="the comparisons as JSON lines")
    args = parser.parse_args()

    runs = []
    for name in args.files.split(","):
        with open(os.path.join(args.runs, name + ".jsonl")) as f:
            for line in f:
                run = json.loads(line)
                search = run.get("kind") == "max_batch"
                if (re.search(args.only, run.get("model", "")) and not (args.no_largest if search else args.no_peaks)
                        and (search or run.get("ok") and run.get("cap") is None and run.get("mode", "train") in ("train", "infer"))
                        and os.path.exists(os.path.join(args.models, f"{run['model']}.{args.format}"))):
                    runs.append(run | {"file": name})
    jobs = collections.defaultdict(list)  # runs that one loaded model answers
    for n, run in enumerate(runs[::args.every]):
        key = tuple(str(run.get(k)) for k in ("file", "model", "opt", "prec", "bench", "cl", "mode", "accumulate"))
        jobs[key + (n if run.get("kind") == "max_batch" else 0,)].append(run)
    comparisons, failed = [], []
    # Of a folder with both formats validate would take .pt2.
    folder = tempfile.TemporaryDirectory()
    for file in os.listdir(args.models):
        if file.endswith("." + args.format):
            os.symlink(os.path.abspath(os.path.join(args.models, file)), os.path.join(folder.name, file))
    args.models = folder.name
    with concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        for n, (found, failures) in enumerate(pool.map(lambda job: validate(args, job), jobs.values())):
            comparisons += found
            failed += failures
            if sys.stderr.isatty():
                print(f"\r{n + 1} of {len(jobs)} jobs", end="", file=sys.stderr)
    if args.out:
        with open(args.out, "w") as out:
            for c in comparisons:
                run = c["run"]
                out.write(json.dumps({k: c[k] for k in ("model", "batch", "quantity", "measured", "predicted", "error")}
                                     | {k: run.get(k) for k in ("file", "opt", "prec", "bench", "cl")}) + "\n")
    print(f"{sum(len(job) for job in jobs.values())} runs, {len(failed)} without a prediction")
    for run, why in failed:
        print(f"  {run['model']} {run['opt']} {run['prec']} batch {run.get('batch')}: {why}")
    peaks = [c for c in comparisons if c["quantity"] in FIGURES]
    if peaks:
        table("All", peaks)
        equal = {id(c["run"]) for c in peaks if c["quantity"] == "reserved" and c["error"] == 0}
        table("Where the reserved figure is equal", [c for c in peaks if id(c["run"]) in equal])
        for name in args.files.split(","):
            table(name, [c for c in peaks if c["run"]["file"] == name])
        for family in sorted({family_of(c["model"]) for c in peaks}):
            table(family, [c for c in peaks if family_of(c["model"]) == family])
        for figure in FIGURES:
            print(f"\nWorst, {figure}")
            worst = sorted((c for c in peaks if c["quantity"] == figure), key=lambda c: -abs(c["error"]))[:args.worst]
            for c in (c for c in worst if c["error"]):
                run = c["run"]
                print(f"  {100 * c['error']:8.4f}%  {c['model']:28} {run['opt']:11} {run['prec']:5} {'bench ' if run.get('bench') else ''}"
                      f"{'cl ' if run.get('cl') else ''}batch {c['batch']:3}: predicted {c['predicted']}, measured {c['measured']}")
    if not args.no_largest:
        largest(comparisons)


if __name__ == "__main__":
    main()
