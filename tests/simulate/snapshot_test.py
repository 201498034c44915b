"""The snapshot of `memmodel simulate` read by Python's unpickler and by
scripts/snapshot_to_requests.py: the stream that comes back is the one that went in.

    snapshot_test.py MEMMODEL SOURCE_DIR
"""
import gzip
import json
import os
import pickle
import subprocess
import sys
import tempfile

PROGRAM, SOURCE = sys.argv[1:3]
RECORDED = os.path.join(SOURCE, "tests", "simulate", "recorded")
CONVERT = os.path.join(SOURCE, "scripts", "snapshot_to_requests.py")


def check(condition, what):
    if not condition:
        sys.exit("FAILED: " + what)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def bare(path):
    with gzip.open(path, "rt") as file:
        return [line for line in file if line[0] != "#" or line.startswith("# empty_cache")]


def round_trip(name, folder):
    stream = os.path.join(RECORDED, name + ".trace.gz")
    with open(os.path.join(RECORDED, name + ".json")) as file:
        recorded = json.load(file)
    pickled, back = os.path.join(folder, "s.pickle"), os.path.join(folder, "s.requests.gz")
    command = [PROGRAM, "simulate", "--requests", stream, "--segment-addresses", "recorded", "--json",
               "--alloc-conf", recorded["conf_value"], "--snapshot", pickled]
    if recorded["cap"]:
        command += ["--allocator-limit", str(recorded["cap"]), "--gpu-mem", str(recorded["total"])]
    done = run(*command)
    check(done.returncode == 0, f"{name}: {done.stderr}")
    out = json.loads(done.stdout)
    check("first_difference" not in out, f"{name}: {out.get('first_difference')}")
    for statistic, value in recorded["stats"].items():
        check(out["statistics"][statistic] == value, f"{name}: {statistic}")
    check(out["peak"]["reserved_bytes"] == recorded["stats"]["reserved_bytes.all.peak"], name)
    check(out["allocator"]["ooms"] == recorded["stats"]["num_ooms"], name)

    with open(pickled, "rb") as file:
        snapshot = pickle.load(file)
    check(len(snapshot["segments"]) == len(recorded["segments"]), f"{name}: segments")
    for have, want in zip(snapshot["segments"], recorded["segments"]):
        check(hex(have["address"]) == want["addr"] and have["total_size"] == want["size"], name)
        check((have["segment_type"] == "small") == want["small"], name)
        blocks = [[b["size"], b["state"], b["requested_size"]] for b in have["blocks"]]
        check(blocks == want["blocks"], f"{name}: blocks of {want['addr']}")

    done = run(sys.executable, CONVERT, pickled, "-o", back)
    check(done.returncode == 0, f"{name}: {done.stderr}")
    # The free memory of an O line is the device's business, not the stream's.
    cut = lambda lines: ["O " + line.split(" ", 2)[2] if line[0] == "O" else line for line in lines]
    check(cut(bare(stream)) == cut(bare(back)), f"{name}: the stream changed on its way")


def live_before(folder):
    """A recording that starts late: blocks that were live then come first."""
    snapshot = {
        "segments": [{"device": 0, "address": 0x1000, "stream": 0, "blocks": [
            {"size": 512, "requested_size": 100, "state": "active_allocated"},
            {"size": 1024, "requested_size": 900, "state": "active_allocated"},
            {"size": 512, "requested_size": 1, "state": "inactive"}]}],
        "device_traces": [[
            {"action": "free_requested", "addr": 0x1600, "size": 7, "stream": 0},
            {"action": "free_completed", "addr": 0x1600, "size": 7, "stream": 0},
            {"action": "alloc", "addr": 0x1200, "size": 900, "stream": 0}]]}
    path, out = os.path.join(folder, "late.pickle"), os.path.join(folder, "late.requests")
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)
    check(run(sys.executable, CONVERT, path, "-o", out).returncode == 0, "late recording")
    with open(out) as file:
        lines = [line.split() for line in file if line[0] != "#"]
    check(lines == [["a", "1000", "100", "0"], ["a", "1600", "7", "0"], ["f", "1600", "7", "0"],
                    ["c", "1600", "7", "0"], ["a", "1200", "900", "0"]], f"late recording: {lines}")


class Hostile:
    def __reduce__(self):
        return os.system, ("touch hostile-was-here",)


def bad_input(folder):
    path, out = os.path.join(folder, "bad.pickle"), os.path.join(folder, "bad.requests")
    for content in (b"", b"garbage", pickle.dumps(Hostile()), pickle.dumps({}), pickle.dumps([1]),
                    pickle.dumps({"segments": [], "device_traces": []}),
                    pickle.dumps({"segments": [], "device_traces": [[]]})):
        with open(path, "wb") as file:
            file.write(content)
        done = run(sys.executable, CONVERT, path, "-o", out)
        check(done.returncode == 2 and done.stderr.count("\n") == 1, f"{content[:20]}: {done.stderr}")
        check(not os.path.exists(out), "half a file was left")
    check(not os.path.exists("hostile-was-here"), "a hostile pickle ran code")
    for extra, code in ((["--alloc-conf", "nonsense:1"], 2), (["--allocator-limit", "x"], 2),
                        (["--context", "1G"], 2), (["--segment-addresses", "x"], 2),
                        (["--snapshot", folder + "/no/such/folder"], 2),
                        (["--allocator-limit", "1M"], 1)):
        done = run(PROGRAM, "simulate", "--requests",
                   os.path.join(RECORDED, "147_lstm_train3_default.trace.gz"), *extra)
        check(done.returncode == code, f"{extra}: exit code {done.returncode}, {done.stderr}")


with tempfile.TemporaryDirectory() as temporary:
    os.environ.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    os.environ.pop("PYTORCH_ALLOC_CONF", None)
    for run_name in ("147_lstm_train3_default", "148_lstm_train3_expandable", "157_lstm_empty_default",
                     "167_lstm_lastbatch_expandable_cap", "060_vit_b_16_grow_split64_cap",
                     "083_mobilenet_v2_lastbatch_expandable_cap"):
        round_trip(run_name, temporary)
    live_before(temporary)
    bad_input(temporary)
print("ok")
