#!/usr/bin/env python3
"""Turns a PyTorch memory snapshot into a request stream for `memmodel simulate`.

    torch.cuda.memory._record_memory_history(max_entries=10_000_000)
    ...                                            # the steps
    torch.cuda.memory._dump_snapshot("run.pickle")

    snapshot_to_requests.py run.pickle -o run.requests.gz
    memmodel simulate --requests run.requests.gz --alloc-conf expandable_segments:True

Reads the pickle without torch, and refuses pickles that hold anything but plain
data. Blocks that were in use before the recording started are written first, as
requests at their addresses, so that the peaks count them. The format is that of
docs/trace_format.md.
"""
import argparse
import gzip
import os
import pickle
import sys
import tempfile

CODES = {"alloc": "a", "free_requested": "f", "free_completed": "c", "segment_alloc": "S",
         "segment_free": "X", "segment_map": "M", "segment_unmap": "U", "oom": "O"}


class PlainUnpickler(pickle.Unpickler):
    """A snapshot holds dictionaries, lists, tuples, strings and numbers alone."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it would load {module}.{name}; a snapshot holds plain data")


def events_of(snapshot, device):
    traces = snapshot["device_traces"]
    if not 0 <= device < len(traces):
        raise ValueError(f"device {device} is not in the snapshot, which has {len(traces)}")
    return traces[device]


def live_before(snapshot, device, events):
    """(address, requested, stream) of the blocks that were live when the recording began."""
    live = {}
    for segment in snapshot["segments"]:
        if segment["device"] != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                size = block.get("requested_size", block["size"])
                live[block.get("address", address)] = (size, segment["stream"])
            address += block["size"]
    for event in reversed(events):
        if event["action"] == "alloc":
            live.pop(event["addr"], None)
        elif event["action"] == "free_completed":
            live[event["addr"]] = (event["size"], event["stream"])
    return [(address, size, stream) for address, (size, stream) in sorted(live.items())]


def is_empty_cache(events, i):
    """Whether the releases of segments from events[i] on come from empty_cache: no
    failed or new segment follows them."""
    while i < len(events) and events[i]["action"] in ("segment_free", "segment_unmap"):
        i += 1
    return i == len(events) or events[i]["action"] not in ("segment_alloc", "segment_map", "oom")


def requests_of(snapshot, device):
    events = [e for e in events_of(snapshot, device) if e["action"] in CODES]
    streams = {}
    lines = []

    def line(code, address, size, stream):
        number = streams.setdefault(stream, len(streams))
        lines.append(f"{code} {address:x} {size} {number}")

    before = live_before(snapshot, device, events)
    if before:
        lines.append("# live before the recording")
    for address, size, stream in before:
        line("a", address, size, stream)
    for i, event in enumerate(events):
        code = CODES[event["action"]]
        if code in "XU" and (i == 0 or events[i - 1]["action"] not in ("segment_free", "segment_unmap")):
            if is_empty_cache(events, i):
                lines.append("# empty_cache")
        address = event.get("device_free", event.get("addr", 0)) if code == "O" else event["addr"]
        line(code, address, event["size"], event.get("stream", 0))
    lines.append("# end")
    return lines, len(before)


def write_atomically(path, text):
    data = text.encode()
    if path.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".snapshot_to_requests")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("snapshot", help="pickle of torch.cuda.memory._dump_snapshot")
    parser.add_argument("-o", "--output", required=True, help="request stream; .gz is compressed")
    parser.add_argument("--device", type=int, default=0)
    arguments = parser.parse_args()
    try:
        with open(arguments.snapshot, "rb") as file:
            snapshot = PlainUnpickler(file).load()
        lines, before = requests_of(snapshot, arguments.device)
        if len(lines) <= 1:
            raise ValueError("it holds no history; call torch.cuda.memory._record_memory_history first")
        write_atomically(arguments.output, "\n".join(lines) + "\n")
    except (OSError, EOFError, pickle.UnpicklingError, ValueError, KeyError, TypeError, IndexError,
            AttributeError) as error:
        what = f"no field {error}" if isinstance(error, KeyError) else error
        print(f"snapshot_to_requests.py: cannot use {arguments.snapshot}: {what}", file=sys.stderr)
        return 2
    print(f"{len(lines)} lines to {arguments.output}"
          + (f", {before} blocks were live before the recording" if before else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
