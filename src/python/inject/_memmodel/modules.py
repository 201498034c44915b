"""Which module runs: global forward hooks of torch.nn.Module, no edit of the model.

While the profiler records, each call of a module is written into its event tree
as a range named "memmodel:<id>"; outermost calls are told to the listener, which
makes steps and phases of them.
"""
import threading

PREFIX = "memmodel:"
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")


class Modules:
    def __init__(self, torch, listener):
        self._torch = torch
        self._listener = listener  # .forward_begins(module, arguments), .forward_ended(module, output)
        self._range = torch._C._profiler._RecordFunctionFast
        self._local = threading.local()
        self._ids = {}     # id(module): index into names, or -1 before it is named
        self._kept = []    # the modules of _ids, so that no id is used again
        self.names = []    # (type, path)
        self.bucket_bytes = 0  # of DistributedDataParallel's gradient buckets
        self.recording = False
        self._handles = []

    def watch(self):
        if not self._handles:
            hooks = self._torch.nn.modules.module
            self._handles = [
                hooks.register_module_forward_pre_hook(self._before),
                hooks.register_module_forward_hook(self._after, always_call=True)]

    def unwatch(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def current(self):
        stack = getattr(self._local, "stack", None)
        return stack[-1][0] if stack else -1

    def path(self, index):
        return self.names[index][1] if index >= 0 else ""

    def _name(self, root):
        """Names a root and all below it; a wrapper's only child stands for the root."""
        if type(root).__name__ == "DistributedDataParallel":
            self.bucket_bytes += sum(p.numel() * p.element_size() for p in root.parameters() if p.requires_grad)
        inner, prefix = root, ""
        while type(inner).__name__ in _WRAPPERS and isinstance(
                getattr(inner, "module", None), self._torch.nn.Module):
            inner, prefix = inner.module, prefix + "module."
        for path, module in root.named_modules():
            if id(module) in self._ids:
                continue
            path = path[len(prefix):] if path.startswith(prefix) else ("" if prefix else path)
            self._ids[id(module)] = len(self.names)
            self._kept.append(module)
            self.names.append((type(module).__name__, path))

    def _before(self, module, arguments):
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        index = self._ids.get(id(module))
        if index is None:
            self._name(module)
            index = self._ids[id(module)]
        if not stack:
            self._listener.forward_begins(module, arguments)
        span = None
        if self.recording:
            span = self._range(PREFIX + str(index))
            span.__enter__()
        stack.append((index, span))

    def _after(self, module, arguments, output):
        stack = getattr(self._local, "stack", None)
        if not stack:
            return
        index = self._ids.get(id(module))
        while stack:  # more than one if a module's hook was passed over by an exception
            top, span = stack.pop()
            if span is not None:
                span.__exit__(None, None, None)
            if top == index:
                break
        if not stack:
            self._listener.forward_ended(module, output)
