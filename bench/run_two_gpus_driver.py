"""Runs trials of protocol_multi.py (unmodified) one after another.

usage: run_two_gpus_driver.py FOLDER OUT SPECS    as run_protocol_driver.py; a spec is the protocol's own object.
The protocol gives up on a trial after 90 s, which a busy machine without GPUs can take: here it waits.
"""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[1])
import protocol_multi  # noqa: E402

if os.path.exists(sys.argv[2]):
    sys.exit()  # run_protocol_driver.py says why
communicate = subprocess.Popen.communicate
subprocess.Popen.communicate = lambda process, timeout=None: communicate(process, timeout=timeout and 10 * timeout)
with open(sys.argv[3]) as file:
    specs = json.load(file)
with open(sys.argv[2], "a") as out:
    for spec in specs:
        begun = time.time()
        result = protocol_multi.trial(dict(spec))
        result["trial_s"] = round(time.time() - begun, 2)
        out.write(json.dumps(result) + "\n")
        out.flush()
