"""DDP, FSDP2, inference, accumulation and checkpointing by protocol_multi.py under `memmodel run --gpus 2`.

usage: run_two_gpus.py FOLDER [--memmodel PROGRAM] [--python PYTHON] [--every N] [--modes ddp,fsdp2,...]
                       [--networks a,b] [--out FILE.jsonl]

FOLDER holds protocol.py, protocol_multi.py and two_gpus_and_variants.jsonl (rank 0's figures, measured). --every N
takes each N-th trial. Prints a line a trial and for each mode the median error of both peaks.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = ("model", "batch", "opt", "prec", "mode", "world", "kw", "accum")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--memmodel", default="memmodel")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--modes", default="ddp,fsdp2,infer,accum,ckpt")
    parser.add_argument("--networks", default="", help="only these; all if empty")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    rows = []
    with open(os.path.join(arguments.folder, "two_gpus_and_variants.jsonl")) as file:
        for line in file:
            row = json.loads(line)
            if (row.get("ok") and row["mode"] in arguments.modes.split(",")
                    and (not arguments.networks or row["model"] in arguments.networks.split(","))):
                rows.append(row)
    rows = rows[::arguments.every]
    with tempfile.TemporaryDirectory() as scratch:
        specs, out = os.path.join(scratch, "specs.json"), os.path.join(scratch, "out.jsonl")
        with open(specs, "w") as file:
            json.dump([{k: row[k] for k in SPEC if k in row} for row in rows], file)
        subprocess.run([arguments.memmodel, "run", "--gpu", arguments.gpu, "--gpus", "2", "--steps", "0", "--json", "--",
                        arguments.python, os.path.join(HERE, "run_two_gpus_driver.py"), arguments.folder, out, specs],
                       stdout=subprocess.DEVNULL, check=False)
        with open(out) as file:
            results = [json.loads(line) for line in file]
    if arguments.out:
        with open(arguments.out, "w") as file:
            file.writelines(json.dumps(result) + "\n" for result in results)
    errors = {}
    for row, result in zip(rows, results):
        name = "%-6s %-18s %-6s %-5s b%-3d %s" % (row["mode"], row["model"], row["opt"], row["prec"], row["batch"],
                                                  json.dumps(row.get("kw") or {}))
        if not result.get("ok"):
            print(name, "failed", result.get("error"))
            errors.setdefault(row["mode"], []).append(None)
            continue
        error = [result[k] / row[k] - 1 for k in ("peak_alloc", "peak_reserved")]
        errors.setdefault(row["mode"], []).append(error)
        print("%s allocated %+8.4f %%  reserved %+8.4f %%" % (name, 100 * error[0], 100 * error[1]))
    for mode, found in errors.items():
        good = [e for e in found if e]
        for index, what in enumerate(("allocated", "reserved")):
            sizes = sorted(abs(e[index]) for e in good)
            print("%-6s %-10s %3d of %3d ran, %3d equal, median %.4f %%" % (
                mode, what, len(good), len(found), sum(s == 0 for s in sizes),
                100 * sizes[len(sizes) // 2] if sizes else float("nan")))


if __name__ == "__main__":
    main()
