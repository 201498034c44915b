"""Traces a network as it runs: how long Python holds its values, and what an export fixes."""

import bisect
import contextlib
import dis
import gc
import os
import sys
import warnings
import weakref

import torch

OWN = ("watched_trace.py", "export_model.py")  # whose functions are no part of a network


@contextlib.contextmanager
def watching_autocast(entered, left):
    """Calls entered(enabled) and left(*error) with every `with torch.autocast(...)`."""
    enter, leave = torch.autocast.__enter__, torch.autocast.__exit__

    def tell_and_enter(context):
        entered(context._enabled)
        return enter(context)

    def tell_and_leave(context, *error):
        left(*error)
        return leave(context, *error)

    torch.autocast.__enter__, torch.autocast.__exit__ = tell_and_enter, tell_and_leave
    try:
        yield
    finally:
        torch.autocast.__enter__, torch.autocast.__exit__ = enter, leave


class AsInTheRun(torch.overrides.TorchFunctionMode):
    """While a network is exported, some things are not what they are in a run under autocast, or
    in another data type.

    The result of a conversion that has nothing to do is its argument. In the run `x.float()` may
    be a tensor of its own, and `x` stays what its variable holds. So it becomes one here.

    `x.to(y.dtype)` converts to the data type of the export. The data type of y is read a moment
    before: where the expression of the call, or a variable in it, comes from such a read, the
    call becomes `x.type_as(y)`, and `torch.empty(size, dtype=y.dtype)` becomes `y.new_empty(size)`.

    The least number of the data type of the export, `torch.finfo(x.dtype).min`, is no number of
    a shorter one. It becomes one of all.
    """

    FACTORIES = {  # what is called instead
        torch.empty: torch.Tensor.new_empty,
        torch.zeros: torch.Tensor.new_zeros,
        torch.ones: torch.Tensor.new_ones,
        torch.full: torch.Tensor.new_full,
        torch.rand: lambda model, *size, **named: model.new_empty(*size).uniform_(**named),
        torch.randn: lambda model, *size, **named: model.new_empty(*size).normal_(**named),
    }

    def __init__(self):
        super().__init__()
        # By id of the frame that runs and instruction: weak reference to the tensor whose data type
        # was read. A frame would hold its variables.
        self.reads = {}
        self.codes = {}

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        if function == torch.Tensor.dtype.__get__:
            frame, at = self.place()
            if id(frame) not in self.reads:
                running = {id(other) for other in frames_from(frame)}
                self.reads = {other: reads for other, reads in self.reads.items() if other in running}
            reads = self.reads.setdefault(id(frame), {})
            reads.pop(at, None)
            reads[at] = weakref.ref(arguments[0])
            return function(*arguments)
        if any(isinstance(x, float) for x in (*arguments, *named.values())):
            arguments = tuple(map(self.of_all_types, arguments))
            named = {name: self.of_all_types(x) for name, x in named.items()}
        first = arguments[0] if arguments and isinstance(arguments[0], torch.Tensor) else None
        if function in (torch.Tensor.to, torch.Tensor.type, *self.FACTORIES):
            dtypes = [x for x in (*arguments[1:], *named.values()) if isinstance(x, torch.dtype)]
            model = self.source(dtypes[0]) if len(dtypes) == 1 and dtypes[0].is_floating_point else None
            if model is not None and function in self.FACTORIES:
                rest = {name: x for name, x in named.items() if name not in ("dtype", "device", "out")}
                return self.FACTORIES[function](model, *arguments, **rest)
            elif model is not None and len(arguments) + len(named) == 2:
                function, arguments, named = torch.Tensor.type_as, (first, model), {}
        state = torch._C._get_tracing_state()
        before = torch._C._get_value_trace(first) if state and first is not None else None
        result = function(*arguments, **named)
        if before is None or result is not first or function.__name__.endswith("_"):
            return result
        after = torch._C._get_value_trace(first)
        if after.unique() == before.unique():
            return result
        torch._C._set_tracing_state(None)
        result = first.view_as(first)
        torch._C._set_tracing_state(state)
        torch._C._set_value_trace(result, after)
        torch._C._set_value_trace(first, before)
        return result

    @staticmethod
    def of_all_types(x):
        least, most = -torch.finfo(torch.float16).max, torch.finfo(torch.float16).max
        return max(least, min(x, most)) if isinstance(x, float) and abs(x) == torch.finfo(torch.float32).max else x

    @staticmethod
    def place():
        """The function of the network that is running, and the instruction at which it is."""
        for frame in frames_from(sys._getframe(2)):
            if not of_torch(frame) and not is_own(frame.f_code):
                return frame, frame.f_lasti
        return None, 0

    def source(self, dtype):
        """The tensor that this call has `dtype` from, or None."""
        frame, call = self.place()
        if frame is None or not hasattr(frame.f_code, "co_positions"):
            return None
        if frame.f_code not in self.codes:
            self.codes[frame.f_code] = {i.offset: i for i in dis.get_instructions(frame.f_code)}
        instructions = self.codes[frame.f_code]
        if call not in instructions:
            return None
        begin, end = span(instructions[call])
        inside = [i for i in instructions.values() if begin <= span(i)[0] and span(i)[1] <= end and i.offset < call]
        names = {i.argval for i in inside if i.opname.startswith("LOAD_FAST")}
        for at, reference in reversed(self.reads.get(id(frame), {}).items()):
            tensor = reference()
            if tensor is None or tensor.dtype != dtype or at not in instructions:
                continue
            stored = stored_in(instructions, at)
            if any(i.offset == at for i in inside) or stored in names and variable(frame, stored) is dtype:
                return tensor
        return None


def frames_from(frame):
    while frame:
        yield frame
        frame = frame.f_back


def variable(frame, name):
    """One of a frame's variables. Before Python 3.13 the dictionary of all would hold them."""
    variables = frame.f_locals
    value = variables.get(name)
    if sys.version_info < (3, 13):
        variables.clear()
    return value


def is_own(code):
    return os.path.basename(code.co_filename) in OWN


def of_torch(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] == "torch"


def stored_in(instructions, at):
    """The variable that is assigned the data type read at `at`: `d = x.dtype` or `d, e = x.dtype, y.dtype`."""
    stack = []  # where what lies on it was read, as far as it is known
    for offset, instruction in sorted(instructions.items()):
        operation, number = instruction.opname, instruction.arg or 0
        if operation.startswith("LOAD_FAST"):
            stack.append(None)
        elif operation == "LOAD_ATTR" and stack:
            stack[-1] = offset
        elif operation == "SWAP" and number <= len(stack):
            stack[-1], stack[-number] = stack[-number], stack[-1]
        elif operation == "UNPACK_SEQUENCE" and number <= len(stack):
            stack[-number:] = reversed(stack[-number:])
        elif operation == "STORE_FAST" and stack:
            if stack.pop() == at:
                return instruction.argval
        elif operation not in ("BUILD_TUPLE", "CACHE"):
            stack = []
    return None


def span(instruction):
    """Where its source begins and ends: (line, column)."""
    p = instruction.positions
    if p is None or None in (p.lineno, p.end_lineno, p.col_offset, p.end_col_offset):
        return (0, 0), (sys.maxsize, 0)
    return (p.lineno, p.col_offset), (p.end_lineno, p.end_col_offset)


class Lives(torch.overrides.TorchFunctionMode):
    """Writes into a traced graph how long Python holds each tensor.

    memmodel frees a tensor when Python does: when the last variable, tuple or object that holds
    it lets go. A graph does not know that. So each tensor that a call of torch returns is
    watched here by a weak reference while the network runs, with gradients off, since a graph
    of autograd would hold it too. The values of the graph get names that say it: the fifth one
    is `memmodel5_`; `memmodel5__held_` is held until a later value's name says
    `memmodel8__end5_`; `memmodel5__kept_` is held by the network itself, as a cache is, until
    the next run of forward makes another.

    Nor does a graph know of `with torch.autocast(..., enabled=False)`, without which a training
    run under autocast would cast there: values that are made inside get names with __plain_.

        script = Lives(model).trace(batch)
    """

    MARK = "memmodel"

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.count = 0  # values that have a name
        self.watched = {}  # by id of the tensor: weak reference, number of the value that it was first
        self.made = set()  # numbers of those; others are what an operator made of a tensor in place
        self.ends = {}  # by number of a value: of those that end before the next one is made, in order
        self.apart = set()  # of those that no tensor of the network goes into, such as sizes
        self.plain = set()
        self.autocast_off = []

    def trace(self, batch):
        """A module with the method forward and, of a network in training, `infer` for evaluation."""
        # What a network computes once and keeps is there in the second step; what it keeps of a
        # batch is computed again for one of another size.
        other = tuple(torch.cat([x, x]) for x in batch)
        with contextlib.suppress(Exception), torch.no_grad():  # the trace itself says what is wrong
            self.model(*other)
        training = self.model.training
        inputs = {"forward": batch}
        if training:
            self.model.infer = self.infer
            inputs["infer"] = other
        try:
            with warnings.catch_warnings(record=True) as caught, self.watching():
                warnings.simplefilter("always", torch.jit.TracerWarning)
                script = torch.jit.trace_module(self.model, inputs, check_trace=False, strict=False)
        finally:
            self.model.train(training)
            self.model.__dict__.pop("infer", None)
        gc.collect()
        kept = {number for reference, number in self.watched.values() if reference() is not None}
        self.write(script, kept)
        # A number that Python took, such as a size, may be one of this batch alone.
        self.has_numbers = any("to a Python" in str(warning.message) for warning in caught)
        return script

    @contextlib.contextmanager
    def watching(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            # Nor does a view hold what it is a view of: in the run it may be a copy.
            views = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
            stack.enter_context(torch._C._ExcludeDispatchKeyGuard(views))
            # A network may ask, and torch.no_grad() and the like do.
            enabled = [self.model.training]
            stack.enter_context(patched(torch, "is_grad_enabled", lambda: enabled[-1] and self.model.training))
            stack.enter_context(patched(torch._C, "_set_grad_enabled", enabled.append))
            for module, name in overridable():  # functions that are written in Python are looked into
                stack.enter_context(patched(module, name, lambda *tensors: False))
            # Names would be taken from the variables of frames, which then hold them longer.
            unnamed = lambda up=1: lambda tensor: ""
            stack.enter_context(patched(torch.jit._trace, "_create_interpreter_name_lookup_fn", unnamed))
            entered = lambda on: self.autocast_off.append(not on)
            stack.enter_context(watching_autocast(entered, lambda *error: self.autocast_off.pop()))
            stack.enter_context(AsInTheRun())
            stack.enter_context(self)
            yield

    def infer(self, *batch):
        self.model.eval()
        return self.model.forward(*batch)

    def __torch_function__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        if torch._C._is_tracing() and function is not torch.tensor:  # which the graph itself holds
            # A tensor that is made on a device is made on that of the network.
            self.watch(result, arguments, "device" in (named or {}))
        return result

    def watch(self, result, arguments, placed):
        if isinstance(result, (tuple, list)):
            for part in result:
                self.watch(part, arguments, placed)
        if not isinstance(result, torch.Tensor):
            return
        value = torch._C._get_value_trace(result)
        if value.node().kind() in ("prim::Param", "prim::Constant", "prim::TracedAttr"):
            return
        if not value.debugName().startswith(self.MARK):
            self.count += 1
            value.setDebugName(f"{self.MARK}{self.count}_")
            if self.autocast_off and self.autocast_off[-1]:
                self.plain.add(self.count)
            if value.node().kind() == "prim::NumToTensor" or not (placed or any(map(self.is_of_network, arguments))):
                self.apart.add(self.count)
            else:
                self.use(torch._C._get_tracing_state().graph(), value)
        key = id(result)
        if key not in self.watched:
            self.watched[key] = weakref.ref(result, lambda _: self.end(key)), self.count
            self.made.add(self.count)

    @staticmethod
    def use(graph, value):
        """A graph has no operators whose results are not used, but Python calls them."""
        number = graph.insertNode(graph.create("aten::dim", [value], 1)).output()
        number.setType(torch._C.IntType.get())
        graph.insertNode(graph.create("prim::Print", [number], 0))

    def is_of_network(self, x):
        if isinstance(x, (tuple, list)):
            return any(map(self.is_of_network, x))
        if not isinstance(x, torch.Tensor):
            return False
        if id(x) in self.watched:
            return self.watched[id(x)][1] not in self.apart
        return torch._C._get_value_trace(x).node().kind() in ("prim::Param", "prim::TracedAttr")

    def end(self, key):
        _, number = self.watched.pop(key)
        if torch._C._is_tracing():
            self.ends.setdefault(self.count, []).append(number)

    def write(self, script, kept):
        values = {}  # by number
        for module in script.modules():
            for method in module._c._method_names():
                for node in list(module._c._get_method(method).graph.nodes()):
                    if node.kind() == "prim::Print":
                        self.remove_unless_needed(node)
                        continue
                    for value in node.outputs():
                        name = value.debugName()
                        value.setDebugName("")
                        if name.startswith(self.MARK) and self.is_made_here(value):
                            values[int(name[len(self.MARK) :].split("_")[0])] = value
        texts = {number: "__plain_" * (number in self.plain) + "__kept_" * (number in kept) for number in values}
        ends = [(number, after) for after, numbers in sorted(self.ends.items()) for number in numbers]
        places, ended = sorted(values), {number for number, _ in ends}
        for number, after in ends:
            if number in values:
                texts[number] += "__held_"
                texts[places[bisect.bisect(places, after) - 1]] += f"__end{number}_"
        for number in (self.made & values.keys()) - ended - kept:
            texts[number] += "__held_"  # to the end of the run
        for number, value in values.items():
            value.setDebugName(f"{self.MARK}{number}{texts[number] or '_'}")

    @staticmethod
    def remove_unless_needed(node):
        """One that keeps a value which nothing uses, or that is returned at once: without another use
        it would have no name when the graph is saved."""
        number = node.inputsAt(0).node()
        if any(use.user.kind() not in ("aten::dim", "prim::Return") for use in number.inputsAt(0).uses()):
            node.destroy()
            number.destroy()

    @staticmethod
    def is_made_here(value):
        node = value.node()
        if node.kind() == "prim::TupleUnpack":
            node = node.inputsAt(0).node()
        return value.type().kind() == "TensorType" and node.kind() not in ("prim::Param", "prim::CallMethod")


@contextlib.contextmanager
def patched(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def overridable():
    """Where torch asks whether a function is overridden, as it is while it is watched."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").partition(".")[0] == "torch":
            for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
                if module is not torch._C and name in vars(module):
                    yield module, name
