"""The allocator's own history as a trace file (docs/trace_format.md)."""
import json

_CODES = {"alloc": "a", "free_requested": "f", "free_completed": "c", "segment_alloc": "S",
          "segment_free": "X", "segment_map": "M", "segment_unmap": "U", "oom": "O"}
MOST_ENTRIES = 4000000  # a ring: what is older is lost, and the trace says so


def record(torch):
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=MOST_ENTRIES)


class Writer:
    """Places marks and tags by counts of requests and releases, operators by address."""

    def __init__(self, snapshot, operators, modules):
        self._snapshot = snapshot
        self._operators = operators
        self._modules = modules

    def devices(self):
        traces = self._snapshot.get("device_traces", [])
        return [index for index, trace in enumerate(traces) if trace]

    def _workspaces(self, device, end):
        """Positions of the requests whose blocks were still there at position `end` and
        are given back after it: {position: (address, bytes)}."""
        requests, position, found = {}, 0, {}
        for entry in self._snapshot["device_traces"][device]:
            if entry["action"] == "alloc":
                if position < end:
                    requests[entry["addr"]] = position
            elif entry["action"] == "free_requested":
                if position >= end and entry["addr"] in requests:
                    found[requests[entry["addr"]]] = (entry["addr"], entry["size"])
            else:
                continue
            position += 1
        return found

    def text(self, device, marks, profiled_from, end, metadata):
        """`marks`: (position, text line) in order; operators are known from position
        `profiled_from` on (None: nowhere); the trace ends at position `end`. What is given
        back after it are the libraries' workspaces."""
        workspaces = self._workspaces(device, end)
        lines = ["! memmodel-trace 1", "= " + json.dumps(metadata)]
        lines += ["o " + name for name in self._operators.names]
        lines += [("m %s %s" % pair) for pair in self._modules.names]
        blocks = {address: list(reversed(found))
                  for address, found in self._operators.blocks.get(device, {}).items()}
        streams, position, next_mark = {}, 0, 0
        for entry in self._snapshot["device_traces"][device]:
            code = _CODES.get(entry["action"])
            if code is None:
                continue
            if position == end and code in "af":
                break
            if code != "c":
                # Segments taken for a request come before it: they stand behind the same marks.
                while next_mark < len(marks) and marks[next_mark][0] <= position:
                    lines.append(marks[next_mark][1])
                    next_mark += 1
            stream = streams.setdefault(entry.get("stream", 0), len(streams))
            address = entry.get("device_free", 0) if code == "O" else entry["addr"]
            known = ""
            if code in "af":
                if profiled_from is not None and position >= profiled_from:
                    found = self._found(blocks, address, code == "a")
                    if found is not None:
                        known = " %d %d" % (found[1], found[2])
                position += 1
            lines.append("%s %x %d %d%s" % (code, address, entry["size"], stream, known))
            if code == "a" and position - 1 in workspaces:
                lines.append("t library_workspace %x %d workspace" % workspaces[position - 1])
        lines += [line for _, line in marks[next_mark:]]
        return "\n".join(lines) + "\n", position

    @staticmethod
    def _found(blocks, address, allocation):
        waiting = blocks.get(address)
        if not waiting:
            return None
        if waiting[-1][0] == allocation:
            return waiting.pop()
        if allocation:  # the profiler did not see the release before
            while waiting and not waiting[-1][0]:
                waiting.pop()
            return waiting.pop() if waiting else None
        return None


def first_tensor(torch, value, depth=3):
    """The first tensor in nested arguments, None if there is none."""
    if isinstance(value, torch.Tensor):
        return value
    if depth and isinstance(value, dict):
        value = list(value.values())
    if depth and isinstance(value, (list, tuple)):
        for item in value:
            found = first_tensor(torch, item, depth - 1)
            if found is not None:
                return found
    return None


def tensors(torch, value, depth=4):
    """All tensors in nested lists, tuples, dicts and dataclass-like outputs."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors(torch, item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(torch, item, depth - 1)


def block_of(torch, tensor):
    """(device, address, bytes) of the storage of a CUDA tensor, None for others."""
    local = getattr(tensor, "_local_tensor", tensor)  # a DTensor's shard
    try:
        if local.device.type != "cuda":
            return None
        storage = local.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
    except Exception:  # no storage of its own: functional wrappers, sparse tensors
        return None
    return (local.device.index or 0, address, size) if address and size else None
