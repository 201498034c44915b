"""Which module runs: global forward hooks of torch.nn.Module, no edit of the model.

While the profiler records, each call of a module is written into its event tree
as a range named "memmodel:<id>"; outermost calls are told to the listener, which
makes steps and phases of them.
"""
import threading

from . import patches

PREFIX = "memmodel:"
# Wrappers of one module, which stands for them: type and name of the child.
_WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "FullyShardedDataParallel": "module",
             "OptimizedModule": "_orig_mod"}
WRAPPER_PREFIXES = tuple({child + "." for child in _WRAPPERS.values()})  # of names of parameters


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
        self._watching = False

    def watch(self):
        if not self._watching:
            self._watching = True
            patches.add(self._unhook, self._hook)

    def unwatch(self):
        self._watching = False
        self._unhook()

    def _hook(self):
        if self._watching:
            hooks = self._torch.nn.modules.module
            self._handles = [
                hooks.register_module_forward_pre_hook(self._before),
                hooks.register_module_forward_hook(self._after, always_call=True)]

    def _unhook(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def is_module(self, value):
        return isinstance(value, self._torch.nn.Module)

    def call_begins(self, module, arguments):
        """A compiled function is called, a module's if `module` is not None, with hooks of no use.
        Whether call_ended is to be told."""
        if not self._watching:
            return False
        if module is not None:
            self._before(module, arguments)
            return True
        stack = self._stack()
        if stack or not self._listener.function_begins(arguments):
            return False
        stack.append((-1, None))
        return True

    def call_ended(self, module):
        self._after(module, None, None)

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
        while type(inner).__name__ in _WRAPPERS:
            child = _WRAPPERS[type(inner).__name__]
            if not self.is_module(getattr(inner, child, None)):
                break
            inner, prefix = getattr(inner, child), prefix + child + "."
        for path, module in root.named_modules():
            if id(module) in self._ids:
                continue
            path = path[len(prefix):] if path.startswith(prefix) else ("" if prefix else path)
            self._ids[id(module)] = len(self.names)
            self._kept.append(module)
            self.names.append((type(module).__name__, path))

    def _stack(self):
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack

    def _before(self, module, arguments):
        stack = self._stack()
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
        index = self._ids.get(id(module), -1)
        while stack:  # more than one if a module's hook was passed over by an exception
            top, span = stack.pop()
            if span is not None:
                span.__exit__(None, None, None)
            if top == index:
                break
        if not stack:
            self._listener.forward_ended(module, output)
