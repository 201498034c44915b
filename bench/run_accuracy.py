"""The measuring protocol itself under `memmodel run`, unmodified, against what it measured on a real GPU.

usage: run_accuracy.py FOLDER [--memmodel PROGRAM] [--python PYTHON] [--gpu h200] [--batches 1,16,64]
                       [--settings sgd_fp32,adamw_bf16] [--networks a,b] [--chunk 13] [--out FILE.jsonl]

FOLDER holds protocol.py and the measured runs (sgd_fp32.jsonl, ...: one JSON object a trial with
model, batch, opt, prec, bench, cl, cap, peak_alloc, peak_reserved). Prints one line a network with
the relative errors of both peaks, and for each setting the median, the 95th percentile and how many
are equal to the byte.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def measured(folder, settings, batches, networks):
    """{trial spec: measured row} of the trials without a cap that went well."""
    rows = {}
    for setting in settings:
        with open(os.path.join(folder, setting + ".jsonl")) as file:
            for line in file:
                row = json.loads(line)
                if not row.get("ok") or row.get("cap") is not None or row.get("kind"):
                    continue
                if batches and row["batch"] not in batches or networks and row["model"] not in networks:
                    continue
                spec = tuple(row[k] for k in ("model", "batch", "opt", "prec", "bench", "cl", "cap", "steps"))
                rows[spec] = dict(row, setting=setting)
    return rows


def run(arguments, specs, folder):
    with tempfile.TemporaryDirectory() as scratch:
        specs_path, out = os.path.join(scratch, "specs.json"), os.path.join(scratch, "out.jsonl")
        with open(specs_path, "w") as file:
            json.dump(specs, file)
        done = subprocess.run(
            [arguments.memmodel, "run", "--gpu", arguments.gpu, "--steps", "0", "--json", "--", arguments.python,
             os.path.join(HERE, "run_protocol_driver.py"), folder, out, specs_path],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not os.path.exists(out):
            sys.exit("memmodel run failed: " + done.stderr[-2000:])
        with open(out) as file:
            return [json.loads(line) for line in file]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--memmodel", default="memmodel")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--settings", default="sgd_fp32,adamw_bf16")
    parser.add_argument("--networks", default="")
    parser.add_argument("--chunk", type=int, default=40)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    batches = [int(b) for b in arguments.batches.split(",") if b]
    rows = measured(arguments.folder, arguments.settings.split(","), batches,
                    [n for n in arguments.networks.split(",") if n])
    specs, errors, failed = sorted(rows), {}, []
    for start in range(0, len(specs), arguments.chunk):
        for result in run(arguments, specs[start:start + arguments.chunk], arguments.folder):
            spec = tuple(result.get(k) for k in ("model", "batch", "opt", "prec", "bench", "cl", "cap", "steps"))
            if arguments.out:
                with open(arguments.out, "a") as file:
                    file.write(json.dumps(result) + "\n")
            if not result.get("ok") or spec not in rows:
                failed.append((result.get("model"), result.get("batch"), result.get("error", "out of memory")))
                print("failed", *failed[-1], flush=True)
                continue
            row = rows[spec]
            error = [result[k] / row[k] - 1 for k in ("peak_alloc", "peak_reserved")]
            errors.setdefault(row["setting"], []).append(error)
            print("%-12s %-28s b%-4d allocated %+9.4f %%  reserved %+9.4f %%" % (
                row["setting"], row["model"], row["batch"], 100 * error[0], 100 * error[1]), flush=True)
    for setting, found in errors.items():
        for index, name in enumerate(("allocated", "reserved")):
            sizes = [abs(e[index]) for e in found]
            print("%-12s %-10s %3d trials, %3d equal, median %.4f %%, 95th percentile %.4f %%" % (
                setting, name, len(sizes), sum(s == 0 for s in sizes), 100 * percentile(sizes, 0.5),
                100 * percentile(sizes, 0.95)))
    print("failed: %d of %d" % (len(failed), len(specs)))


if __name__ == "__main__":
    main()
