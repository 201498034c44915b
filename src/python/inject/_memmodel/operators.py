"""Which operator asked for each block: torch's own profiler, on the CPU side alone.

The profiler's event tree holds every allocation with its address, below the
operator and the module range (modules.py) in which it happened. Backward
operators carry the sequence number of the forward operator that made them, and
so the module. It keeps no tensor alive and adds no request of its own.
"""
import os

from . import modules

_KINETO_LOG = "KINETO_LOG_LEVEL"
_GRAPH = "## Call CompiledFxGraph "  # Inductor's record of all that a compiled function does


class Operators:
    def __init__(self, torch):
        self._profiler = torch.autograd.profiler
        self._state = None
        self.names = []   # operator names
        self._ids = {}
        # device: {address: [(is allocation, operator, module), ...]}, in order
        self.blocks = {}

    def start(self):
        """False if the script's own profiler is at work: then no operator is known."""
        log_level = os.environ.get(_KINETO_LOG)
        os.environ[_KINETO_LOG] = "9"  # it would warn that CUPTI finds no GPU
        try:
            state = self._profiler.profile(use_cpu=True, use_device=None, profile_memory=True)
            state.__enter__()
            self._state = state
            self._guard()
        except Exception:
            self._state = None
        finally:
            if log_level is None:
                del os.environ[_KINETO_LOG]
            else:
                os.environ[_KINETO_LOG] = log_level
        return self._state is not None

    def _guard(self):
        """A profiler that the script starts must find none running."""
        for name in ("_prepare_profiler", "_enable_profiler"):
            original = getattr(self._profiler, name, None)
            if original is None or hasattr(original, "memmodel_original"):
                continue

            def guarded(*arguments, _original=original, **named):
                self.stop()
                return _original(*arguments, **named)

            guarded.memmodel_original = original
            setattr(self._profiler, name, guarded)

    def running(self):
        return self._state is not None

    def stop(self):
        state, self._state = self._state, None
        if state is None:
            return
        from torch._C._autograd import _disable_profiler

        results = _disable_profiler()
        if hasattr(self._profiler, "_is_profiler_enabled"):
            self._profiler._is_profiler_enabled = False
        _Walk(self).run(results.experimental_event_tree())

    def id_of(self, name):
        index = self._ids.get(name)
        if index is None:
            index = self._ids[name] = len(self.names)
            self.names.append(name)
        return index


class _Walk:
    """Two passes over the tree: forward operators' modules first, then the blocks."""

    def __init__(self, operators):
        self._operators = operators
        self._by_sequence = {}  # (thread, sequence number): module of the forward operator
        self._found = []        # (time, device, address, is allocation, operator, module)

    def run(self, tree):
        nodes = []  # (event, kind, parent's place in nodes)
        stack = [(event, -1) for event in reversed(tree)]
        while stack:
            event, parent = stack.pop()
            place = len(nodes)
            nodes.append((event, event.typed[0].name, parent))
            stack.extend((child, place) for child in reversed(event.children))
        inside = [-1] * len(nodes)  # module of each node, as forward sees it
        for place, (event, kind, parent) in enumerate(nodes):
            module = inside[parent] if parent >= 0 else -1
            if kind == "TorchOp":
                fields = event.typed[1]
                if event.name.startswith(modules.PREFIX):
                    module = int(event.name[len(modules.PREFIX):])
                elif module >= 0 and fields.sequence_number >= 0 and fields.scope.name == "FUNCTION":
                    self._by_sequence.setdefault((event.start_tid, fields.sequence_number), module)
            inside[place] = module
        operator = [-1] * len(nodes)
        for place, (event, kind, parent) in enumerate(nodes):
            here = operator[parent] if parent >= 0 else -1
            if kind == "TorchOp" and not event.name.startswith(modules.PREFIX):
                whole_graph = event.name.startswith(_GRAPH)
                here = -1 if whole_graph else self._operators.id_of(event.name)
                if event.typed[1].scope.name == "BACKWARD_FUNCTION":
                    inside[place] = self._forward_module(event)
            operator[place] = here
            if parent >= 0 and inside[place] < 0:
                inside[place] = inside[parent]
            if kind == "Allocation":
                self._block(event, here, inside[place])
        self._found.sort(key=lambda found: found[0])
        for _, device, address, allocation, here, module in self._found:
            self._operators.blocks.setdefault(device, {}).setdefault(address, []).append(
                (allocation, here, module))

    def _forward_module(self, event):
        fields = event.typed[1]
        for thread in (getattr(fields, "forward_tid", None), event.start_tid):
            module = self._by_sequence.get((thread, fields.sequence_number))
            if module is not None:
                return module
        for (_, number), module in self._by_sequence.items() if fields.sequence_number >= 0 else ():
            if number == fields.sequence_number:
                return module
        return -1

    def _block(self, event, operator, module):
        fields = event.typed[1]
        device = str(fields.device)
        if device.startswith("cuda"):
            index = int(device[5:] or 0) if ":" in device else 0
            self._found.append((event.start_time_ns, index, fields.ptr, fields.alloc_size > 0,
                                operator, module))
