"""Runs trials of protocol_multi.py (unmodified) one after another.

usage: run_two_gpus_driver.py FOLDER OUT SPECS    as run_protocol_driver.py; a spec is the protocol's own object.
"""
import json
import sys
import time

sys.path.insert(0, sys.argv[1])
import protocol_multi  # noqa: E402

with open(sys.argv[3]) as file:
    specs = json.load(file)
with open(sys.argv[2], "a") as out:
    for spec in specs:
        begun = time.time()
        result = protocol_multi.trial(dict(spec))
        result["trial_s"] = round(time.time() - begun, 2)
        out.write(json.dumps(result) + "\n")
        out.flush()
