#!/usr/bin/env python3
"""Compares the request streams of `memmodel trace` with streams measured on a GPU, event by event.

    bench/step_streams.py --traces FOLDER --models FOLDER [--memmodel build/memmodel] [--format pt] [--keep FOLDER]

FOLDER of traces: NETWORK_..._bBATCH.trace.gz (docs/trace_format.md) and .json with model, batch, opt, prec, cl, bench,
as accuracy.py names them. An event is a request or a release with its size in units of 512 bytes; a stream is identical
if all its events, from loading the parameters to the end of the last step, are the same in the same order. The share of
matched events is that of the longest common subsequence, part by part (between two markers). For streams with another
order of the same events within a part, `same requests` counts those whose requests alone, in order, are the same.
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import re
import subprocess
import sys

import accuracy

# The traces' names for what memmodel calls otherwise.
OPTIMIZERS = {"sgd": "sgd:momentum=0.9", "sgd0": "sgd", "adamw_fused": "adamw:fused=true", "adamw_loop": "adamw:foreach=false"}
PRECISIONS = {"fp32": "fp32", "bf16": "amp-bf16", "fp16": "amp-fp16"}

OPTIMIZERS = {  # the streams' names -> torch's
    "sgd": "sgd:momentum=0.9", "sgd0": "sgd", "adamw_fused": "adamw:fused=true", "adamw_loop": "adamw:foreach=false",
}
PRECISIONS = {"fp32": "fp32", "bf16": "amp-bf16", "fp16": "amp-fp16"}


def read(path):
    """[(name of the part, [(kind, units)])]"""
    parts = [("", [])]
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as lines:
        for line in lines:
            if line[0] in "af":
                parts[-1][1].append((line[0], (int(line.split()[2]) + 511) // 512))
            elif line[0] == "#":
                parts.append((line[2:].strip(), []))
    return parts


def distance(a, b):
    """Insertions and deletions that turn a into b (Myers, O((N + M) D))."""
    furthest = {1: 0}
    for d in range(len(a) + len(b) + 1):
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and furthest[k - 1] < furthest[k + 1])
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            furthest[k] = x
            if x >= len(a) and x - k >= len(b):
                return d


def command(args, run, out):
    shape, loss = accuracy.input_of(run["model"])
    cmd = [args.memmodel, "trace", "--model", os.path.join(args.models, f"{run['model']}.{args.format}"),
           "--gpu", args.gpu, "--batch", str(run["batch"]), "--optimizer",
           OPTIMIZERS.get(run["opt"], run["opt"]), "--precision", PRECISIONS[run["prec"]],
           "--step-protocol", "fresh", "--timeout", str(args.timeout), "--output", out]
    if not args.stored_inputs:
        cmd += ["--input", shape, "--loss", loss]
    if run.get("bench"):
        cmd.append("--cudnn-benchmark")
    if run.get("cl"):
        cmd.append("--channels-last")
    return cmd


def compare(args, name):
    with open(os.path.join(args.traces, name + ".json")) as f:
        run = json.load(f)
    row = {"name": name}
    if not os.path.exists(os.path.join(args.models, f"{run['model']}.{args.format}")):
        return None
    out = os.path.join(args.keep, name + ".trace")
    if os.path.exists(out):
        os.unlink(out)
    done = subprocess.run(command(args, run, out), capture_output=True, text=True)
    if not os.path.exists(out):
        return row | {"error": done.stderr.strip()[-400:]}
    a, b = read(os.path.join(args.traces, name + ".trace.gz")), read(out)
    events_a, events_b = [e for _, p in a for e in p], [e for _, p in b for e in p]
    row |= {"events": len(events_a), "identical": events_a == events_b}
    row["same_requests"] = [e for e in events_a if e[0] == "a"] == [e for e in events_b if e[0] == "a"]
    if [n for n, _ in a] != [n for n, _ in b]:  # other markers: as one part
        a, b = [("all", events_a)], [("all", events_b)]
    matched = 0
    for (name_a, part_a), (_, part_b) in zip(a, b):
        missing = 0 if part_a == part_b else distance(part_a, part_b)
        matched += (len(part_a) + len(part_b) - missing) // 2
        if missing and "first" not in row:
            place = next((i for i, (x, y) in enumerate(zip(part_a, part_b)) if x != y), min(len(part_a), len(part_b)))
            row["first"] = {"part": name_a, "at": place, "measured": part_a[place:place + 3], "predicted": part_b[place:place + 3]}
            diff = subprocess.run([args.memmodel, "diff", "--json", "--shown", "1", os.path.join(args.traces, name + ".trace.gz"), out],
                                  capture_output=True, text=True)
            found = json.loads(diff.stdout)
            row["first"]["operator"] = next(iter(found["differences"]), None)
            row["groups"] = found["groups"]
    row["matched"] = matched
    if not args.kept:
        os.unlink(out)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--memmodel", default="build/memmodel")
    parser.add_argument("--format", default="pt", choices=("pt", "pt2"))
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--only", default="", help="a regular expression on the trace's name")
    parser.add_argument("--stored-inputs", action="store_true", help="take inputs and loss from the files")
    parser.add_argument("--keep", default="", help="keep the predicted traces in this folder")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=120)
    parser.add_argument("--out", default="", help="the rows as JSON lines")
    args = parser.parse_args()
    args.kept = bool(args.keep)
    args.keep = args.keep or os.environ.get("TMPDIR", "/tmp")
    os.makedirs(args.keep, exist_ok=True)
    names = sorted(n[:-9] for n in os.listdir(args.traces) if n.endswith(".trace.gz") and re.search(args.only, n))
    with concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        rows = [r for r in pool.map(lambda n: compare(args, n), names) if r]
    if args.out:
        with open(args.out, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
    good = [r for r in rows if "error" not in r]
    other = [r for r in good if not r["identical"]]
    for r in rows:
        if "error" in r:
            print(f"{r['name']}: {r['error']}")
    for r in sorted(other, key=lambda r: r["matched"] / r["events"]):
        first = r.get("first", {})
        print(f"{r['name']:44} {r['matched']:6}/{r['events']:6} {100 * r['matched'] / r['events']:8.3f} % "
              f"{'same requests ' if r['same_requests'] else ''}{first.get('part', '')}+{first.get('at', '')}: "
              f"{first.get('measured')} {first.get('predicted')} "
              + " ".join(f"{g['library']}/{g['family']}:{g['size']}s{g['only_a']}-{g['only_b']}+{g['order']}o" for g in r.get("groups", [])[:4]))
    events = sum(r["events"] for r in other)
    print(f"{len(rows)} streams: {len(good) - len(other)} identical, {sum(r['same_requests'] for r in good)} with the same "
          f"requests, {len(rows) - len(good)} failed; matched in the others: "
          f"{100 * sum(r['matched'] for r in other) / max(events, 1):.3f} % of {events} events")
    return 0 if len(good) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
