"""Traces a network as it runs: how long Python holds its values, and what an export fixes."""

import contextlib
import dis
import inspect
import os
import sys

import torch
from torch import nn

OWN = ("watched_trace.py", "export_model.py")  # whose functions are no part of a network


@contextlib.contextmanager
def watching_autocast(entered, left=lambda *error: None):
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

    FACTORIES = {torch.empty: "new_empty", torch.zeros: "new_zeros", torch.ones: "new_ones", torch.full: "new_full"}

    def __init__(self):
        super().__init__()
        self.reads = {}  # by frame that runs and instruction: the tensor whose data type was read
        self.codes = {}

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        if function == torch.Tensor.dtype.__get__:
            frame, at = self.place()
            if frame not in self.reads:
                running = set(frames_from(frame))
                self.reads = {other: reads for other, reads in self.reads.items() if other in running}
            self.reads.setdefault(frame, {}).pop(at, None)
            self.reads[frame][at] = arguments[0]
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
                return getattr(model, self.FACTORIES[function])(*arguments, **rest)
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
            self.codes[frame.f_code] = {i.offset: (i, after) for i, after in pairs(dis.get_instructions(frame.f_code))}
        instructions = self.codes[frame.f_code]
        if call not in instructions:
            return None
        begin, end = span(instructions[call][0])
        inside = [i for i, _ in instructions.values() if begin <= span(i)[0] and span(i)[1] <= end and i.offset < call]
        names = {i.argval for i in inside if i.opname.startswith("LOAD_FAST")}
        for at, tensor in reversed(self.reads.get(frame, {}).items()):
            if tensor.dtype != dtype or at not in instructions:
                continue
            _, after = instructions[at]
            stored = after.argval if after is not None and after.opname == "STORE_FAST" else None
            if any(i.offset == at for i in inside) or stored in names and frame.f_locals.get(stored) is dtype:
                return tensor
        return None


def frames_from(frame):
    while frame:
        yield frame
        frame = frame.f_back


def is_own(code):
    return os.path.basename(code.co_filename) in OWN


def of_torch(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] == "torch"


def pairs(instructions):
    instructions = list(instructions)
    return zip(instructions, [*instructions[1:], None])


def span(instruction):
    """Where its source begins and ends: (line, column)."""
    p = instruction.positions
    if p is None or None in (p.lineno, p.end_lineno, p.col_offset, p.end_col_offset):
        return (0, 0), (sys.maxsize, 0)
    return (p.lineno, p.col_offset), (p.end_lineno, p.end_col_offset)


class Record:
    """What Variables knows of a value."""

    def __init__(self):
        self.variables = {}  # path of a module: (call, name of the variable)
        self.returned_by = []  # calls, the outermost last
        self.ends = []  # (path, number) of what ends with it
        self.plain = False
        self.held = False


class Variables:
    """Writes into a traced graph how long Python's variables hold its values.

    memmodel frees a value as Python does: when its variable is assigned again or its
    function returns. It reads that from the names of values, but torch.jit.trace takes
    names from whatever frame uses a value and has none for the results of modules. So the
    functions of a network are watched while they run, and a value is named after the
    variable that holds it longest. One of a function that forward calls ends before forward
    does: `labels__until3_` until the last value that the function returns, `loss__end3_`
    (or `none__end3_`, if no variable holds that). A variable that gets a result of the
    function has it from then on: `query__from3_`.

    What an object in a result of a forward function holds, such as the keys and values of a
    cache, ends with the outermost of them: names with __held_.

    Nor does a graph know of `with torch.autocast(..., enabled=False)`, without which a training
    run under autocast would cast there: values that are made inside get names with __plain_.

        script = Variables(model).trace(batch)
    """

    MARK = "memmodel"  # while tracing the name of a value is MARK and its place in self.values

    def __init__(self, model):
        self.model = model
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.running = []  # paths of the modules whose forward functions run, the innermost last
        self.calls = []  # for each whether it is of a forward function
        self.values = []  # a Record for each
        self.replaced = []  # (path, call, variable, Record of its old value, of its new one)

    def trace(self, batch):
        before = sys.gettrace()
        sys.settrace(self.enter_function)
        try:
            with self.outside_of_autocast(), AsInTheRun():
                script = torch.jit.trace(self.model, batch, check_trace=False, strict=False)
        finally:
            sys.settrace(before)
        self.write(script)
        return script

    @contextlib.contextmanager
    def outside_of_autocast(self):
        """Notes what is made while autocast is off."""
        variables = self

        class Plain(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, arguments=(), named=None):
                result = function(*arguments, **(named or {}))
                for value in map(variables.value, result if isinstance(result, (tuple, list)) else (result,)):
                    if value:
                        variables.record(value).plain = True
                return result

        modes = []

        def entered(enabled):
            modes.append(contextlib.nullcontext() if enabled else Plain())
            modes[-1].__enter__()

        with watching_autocast(entered, lambda *error: modes.pop().__exit__(*error)):
            yield

    def enter_function(self, frame, event, _):
        code = frame.f_code
        if code.co_name.startswith("<") or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            return None
        if of_torch(frame):
            return None
        own = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        path = self.paths.get(id(own)) if code.co_name == "forward" else None
        if path is not None:
            self.running.append(path)
        elif not self.running or is_own(code):
            return None
        owner, call = self.running[-1], len(self.calls)
        self.calls.append(path is not None)
        arguments = {v.unique() for v in map(self.value, frame.f_locals.values()) if v}
        held = {}

        def watch(frame, event, result):
            bound = {name: self.value(x) for name, x in frame.f_locals.items()}
            for name, value in bound.items():
                if not value or value.unique() in arguments and (path is not None or self.record(value).variables):
                    continue  # the caller's, who holds it longer
                record, old = self.record(value), held.get(name)
                if old and old.unique() != value.unique():
                    self.replaced.append((owner, call, name, self.record(old), record))
                held[name] = value
                record.variables[owner] = call, name
            if event == "return":
                for name in held.keys() - bound.keys():  # `del` ends a variable, which no name can say
                    self.record(held[name]).variables.pop(owner, None)
                if path is not None:
                    self.running.pop()
                    for value in map(self.value, tensors_of_objects(result)):
                        if value:
                            self.record(value).held = True
                else:
                    for value in map(self.value, result if isinstance(result, tuple) else (result,)):
                        if value:
                            self.record(value).returned_by.append(call)
            return watch

        return watch

    @staticmethod
    def value(x):
        """The value that a tensor is while tracing, if a node of the graph made it."""
        if not isinstance(x, torch.Tensor) or not torch._C._is_tracing():
            return None
        value = torch._C._get_value_trace(x)
        return None if value.node().kind() == "prim::Param" else value

    def record(self, value):
        name = value.debugName()
        if not name.startswith(self.MARK):
            self.values.append(Record())
            name = f"{self.MARK}{len(self.values) - 1}"
            value.setDebugName(name)
        return self.values[int(name.split(".")[0][len(self.MARK) :])]

    def write(self, script):
        graphs = {
            path: {name: module._c._get_method(name).graph for name in module._c._method_names()}
            for path, module in script.named_modules()
            if path in self.paths.values()
        }
        records = [
            (path, value, self.made(graphs, path, value))
            for path, methods in graphs.items()
            for graph in methods.values()
            for node in graph.nodes()
            for value in node.outputs()
            if value.type().kind() == "TensorType"
        ]
        records = [(path, value, self.record(made) if made else Record()) for path, value, made in records]
        for path, call, variable, old, new in reversed(self.replaced):
            # By their names, if the new value is not another variable's in the end; the last
            # first, since a value that is made one here no longer ends those before it.
            if old.variables.get(path) == (call, variable) != new.variables.get(path):
                old.variables[path] = len(self.calls), variable
                new.ends.append((path, len(self.calls)))
                self.calls.append(False)
        names, lasts = {}, {}  # a value's name; the last value of a call
        for path, value, record in records:
            for call in record.returned_by:
                lasts[path, call] = value
            for owner, call in record.ends:
                if owner == path:
                    lasts[path, call] = value
            call, name = record.variables.get(path, (None, None))
            if name:
                name += "_"
                if not self.calls[call]:
                    lasts[path, call] = value
                    name += f"_until{call}_"
                if record.returned_by and call not in record.returned_by:
                    name += f"_from{record.returned_by[-1]}_"
                names[path, value.unique()] = name
        for (path, call), value in lasts.items():
            name = names.get((path, value.unique()), "none_")
            if f"_until{call}_" in name:  # by its last use it has ended
                name = "none_"
            names[path, value.unique()] = f"{name}_end{call}_"
        for path, value, record in records:
            name = names.get((path, value.unique()), "")
            if record.plain:
                name = f"{name or 'none_'}_plain_"
            if record.held and value.node().kind() not in ("prim::CallMethod", "prim::TupleUnpack"):
                name = f"{name or 'none_'}_held_"
            value.setDebugName(name)

    def made(self, graphs, path, value):
        """`value` in the graph of the module whose operator made it, or None."""
        node, place = value.node(), value.offset()
        if node.kind() == "prim::TupleUnpack":
            node = node.inputsAt(0).node()
        if node.kind() != "prim::CallMethod":
            return value
        steps, owner = [], node.inputsAt(0).node()
        while owner.kind() == "prim::GetAttr":
            steps.insert(0, owner.s("name"))
            owner = owner.inputsAt(0).node()
        callee = ".".join(filter(None, [path, *steps]))
        graph = graphs.get(callee, {}).get(node.s("name"))
        if graph is None:
            return None
        result = next(graph.outputs())
        if result.node().kind() == "prim::TupleConstruct":
            result = list(result.node().inputs())[place]
        return self.made(graphs, callee, result)


def tensors_of_objects(result, inside=False, seen=None):
    """The tensors that objects in `result` hold, be they deep in containers."""
    seen = {} if seen is None else seen
    if id(result) in seen or isinstance(result, (nn.Module, type)):
        return
    seen[id(result)] = result  # keeps it, so that no other object gets its id
    if isinstance(result, torch.Tensor):
        if inside:
            yield result
        return
    parts = ()
    if isinstance(result, dict):
        parts = result.values()
    elif isinstance(result, (tuple, list)):
        parts = result
    elif hasattr(result, "__dict__") and not callable(result):
        parts, inside = vars(result).values(), True
    for part in list(parts):
        yield from tensors_of_objects(part, inside, seen)
