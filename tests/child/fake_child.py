#!/usr/bin/env python3
"""Speaks the child protocol (docs/architecture.md) without PyTorch.

Memory is plain arithmetic, so that tests know the right answer on paper: a batch
of b takes FAKE_BASE + b * FAKE_PER_SAMPLE bytes reserved, and 10 % less allocated; where
plans of the largest workspaces are the fastest, b * FAKE_PER_SAMPLE_LARGEST instead. Batch
FAKE_HOLE runs out of memory on a card with an end, unless they are.
FAKE_MODE makes it misbehave: die, die_loading, signal, hang, hang_loading, garbage,
silent_exit, state_dict, bad_input, unknown, error, fixed, reverse, personality.
"""
import json
import os
import signal
import sys
import time

MODE = os.environ.get("FAKE_MODE", "")
BASE = int(os.environ.get("FAKE_BASE", str(1 << 30)))
PER_SAMPLE = int(os.environ.get("FAKE_PER_SAMPLE", str(100 << 20)))
PER_SAMPLE_LARGEST = int(os.environ.get("FAKE_PER_SAMPLE_LARGEST", str(PER_SAMPLE)))
HOLE = int(os.environ.get("FAKE_HOLE", "0"))


def say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def reserved_of(batch, per_sample):
    return (BASE + batch * per_sample) // (2 << 20) * (2 << 20)


def write_trace(path, batch, size):
    """One segment, one block that fills nine tenths of it, in forward."""
    block = size * 9 // 10 // 512 * 512
    with open(path, "w") as f:
        f.write("! memmodel-trace 1\no aten::relu\nm Net \nm ReLU act\n# load\n"
                f"S 7f0000000000 {size} 0\n# step b={batch}\n"
                f"a 7f0000000000 {block} 0 0 1\n# forward done\n"
                f"f 7f0000000000 {block} 0 0 1\nc 7f0000000000 {block} 0 0 1\n"
                "# backward done\n# step done\n# end\n")
    return block, size


def probe(request):
    batch, total = request["batch"], request["total_bytes"]
    largest = request["largest_workspace_fastest"]
    need = reserved_of(batch, PER_SAMPLE_LARGEST if largest else PER_SAMPLE)
    room = total - request["context_bytes"] if total else need
    if request["allocator_limit_bytes"]:
        room = min(room, request["allocator_limit_bytes"])
    answer = {"probe": request["probe"], "elapsed_ms": 1.0, "ooms": 0,
              "context": {"cublas_handles": 2, "cudnn_handles": 2}, "unknown": []}
    block, size = write_trace(request["trace"], batch, need)
    if MODE == "unknown" and request["unknown_count"] == 0:
        block, size = block // 2, size // 2
    if MODE == "error":
        answer.update(outcome="error", error={"message": "mat1 and mat2 shapes cannot be multiplied",
                                              "operator": "aten::addmm", "module": "head"})
    elif block > room or (batch == HOLE and total and not largest):
        answer.update(outcome="oom", ooms=1, retries=1)
    else:
        answer.update(outcome="ok", segments=1, retries=0 if size <= room else 1,
                      peak={"allocated_bytes": block, "reserved_bytes": min(size, room)})
    if MODE == "unknown":
        answer["unknown"] = [{"operator": "aten::nonzero", "module": "roi_heads", "bytes": 8}]
    return answer


def main():
    assert sys.argv[1:] == ["--serve"]
    job = json.loads(sys.stdin.readline())
    if MODE == "die_loading":
        sys.stderr.write("terminate called\nwhat(): the file is damaged\n")
        sys.exit(7)
    if MODE == "personality":
        sys.stderr.write("personality " + open("/proc/self/personality").read())
        sys.exit(7)
    if MODE == "hang_loading":
        time.sleep(3600)
    if MODE == "garbage":
        print("Hello from a library that prints")
        sys.stdout.flush()
        time.sleep(3600)
    if MODE == "bad_input":
        say({"error": {"code": "bad_input", "message": "x.pt is no zip archive", "operator": "",
                       "module": ""}})
        return
    say({"loaded": True, "kind": "state_dict" if MODE == "state_dict" else "torchscript",
         "torch_version": "2.11.0+cu130", "cudnn_version": 91900, "parameters": 25 << 20,
         "parameter_bytes": 100 << 20, "buffer_bytes": 0,
         "inputs": [{"name": "", "shape": [3, 224, 224], "dtype": "float32", "assumed": True}],
         "batch_fixed": 16 if MODE == "fixed" else None, "loss": "ce",
         "assumptions": ["input 3x224x224, found by trying"], "load_ms": 2.0,
         "job_seen": job})
    held = []
    for line in sys.stdin:
        request = json.loads(line)
        if MODE == "die":
            sys.stderr.write("out of luck\n")
            sys.exit(3)
        if MODE == "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        if MODE == "hang":
            time.sleep(3600)
        if MODE == "silent_exit":
            os._exit(0)
        if MODE == "reverse":  # answers in another order than it was asked
            held.append(request)
            if len(held) == 2:
                for r in reversed(held):
                    say(probe(r))
                held = []
            continue
        say(probe(request))


main()
