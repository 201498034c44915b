"""Runs trials of a measuring protocol (its module unmodified) one after another.

usage: run_protocol_driver.py FOLDER OUT SPECS

FOLDER holds protocol.py; SPECS is a JSON file with a list of trial specs (model,
batch, optimizer, precision, benchmark, channels_last, cap, steps), OUT gets a JSON
line a trial. Each trial is the protocol's own fresh process. Does nothing if OUT
is there: `memmodel run` starts a script again to see whether the values that it
read matter.
"""
import json
import os
import sys
import time

sys.path.insert(0, sys.argv[1])
import protocol  # noqa: E402


def main():
    if os.path.exists(sys.argv[2]):
        return
    # What the protocol's own main imports before it forks.
    import pynvml, timm, torchvision, transformers  # noqa: F401

    with open(sys.argv[3]) as file:
        specs = json.load(file)
    with open(sys.argv[2], "a") as out:
        for spec in specs:
            begun = time.time()
            result = protocol.trial(tuple(spec))
            result["trial_s"] = round(time.time() - begun, 2)
            out.write(json.dumps(result) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
