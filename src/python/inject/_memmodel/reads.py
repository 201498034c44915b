"""Values that the host reads although only a kernel could have written them.

The virtual GPU calls back for each such read. What is known then: the Python line,
the tensor method that reads (item, __bool__, ...; wrapped below to learn the type),
the bytes. A floating-point number that Python takes (a loss to print) cannot be a
size, and questions after infinities are answered "all finite"; these are harmless.
For the others `memmodel run` runs the script a second time with other answers
("answer": "one" in place of "zero"): if not one request differs, they were
harmless too. "true" answers booleans alone with one: a request that comes or goes
with them does not matter if the peaks stay. Else the answer is unknown and the read
is named.
"""
import ctypes
import importlib
import json
import linecache
import os
import struct
import sys
import threading

from . import job, known_values, patches

_METHODS = ("item", "tolist", "__float__", "__int__", "__bool__", "__index__", "__complex__",
            "__format__", "__repr__", "cpu", "numpy", "__contains__")
_NUMBERS = ("item", "tolist", "__float__", "__format__", "__repr__")
_FINITE = ("isfinite",)
_NOT_FINITE = ("isnan", "isinf", "found_inf", "_has_inf_or_nan")
# transformers.masking_utils asks whether position ids (an arange on the GPU, unless the batch
# brings its own) go on by one to the end; only then it needs no mask of its own.
_UNPACKED = ("packed_sequence_mask",)
_READER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64,
                           ctypes.c_void_p)
_KNOWN = ctypes.CFUNCTYPE(ctypes.c_int64)
_LIMIT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int)
MOST_PLACES = 200
MOST_LINES = 12
_PADDING = "the rest of a tensor that carries a pickled object"


class Reads:
    def __init__(self, torch, modules, run):
        self._torch = torch
        self._modules = modules
        self._run = run
        self._local = threading.local()
        self._places = {}  # (file, line, method): what is reported
        self._ones = job.get().get("answer")  # "zero", "one", "true"
        self._reader = _READER(self._read)  # kept: C calls it
        self._library = None
        self._share = job.get().get("unknown_count")  # of the largest count; None: unknown
        self._limit = None  # the native questions after the operator that counts
        self._known_count = None
        self._before_read = None  # function(tensor), see known_values.install
        self._blocks_out = None  # requests that _trace_allocator heard of
        self.stale_bytes = None  # why bytes of reused blocks may count as known, if they may
        self._wrap_methods()

    def watch(self):
        library = ctypes.CDLL(None)
        if hasattr(library, "memmodel_vgpu_on_unknown_read"):
            self._library = library
            library.memmodel_vgpu_report_json.restype = ctypes.c_char_p
            library.memmodel_vgpu_on_unknown_read(self._reader, None)
            self._watch_allocations()

    def _watch_allocations(self):
        """Bytes of a block that is handed out anew are no longer known (src/tracer/allocation_watch.cc)."""
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        path = os.path.join(here, "libmemmodel_allocation_watch.so")
        self.stale_bytes = "the watch of allocations is not installed"
        if os.path.exists(path):
            try:
                native = ctypes.CDLL(path)
                failed = native.memmodel_watch_allocations(str(self._torch.__version__).encode())
                self.stale_bytes = failed and self._other_torch(native)
                if not failed:
                    native.memmodel_watch_counts()
                    self._known_count = _KNOWN(("memmodel_known_count", native))
                    if self._share is not None:
                        self._limit = _LIMIT(("memmodel_largest_count", native))
            except OSError as error:
                self.stale_bytes = "memmodel's watch does not fit torch %s (%s)" % (
                    self._torch.__version__, error)
        if self._share is not None and self._limit is None:
            job.refuse("unknown_count_torch",
                       "--unknown-count needs to see into torch's operators, which it cannot here: %s. Leave "
                       "it out, or run the script with that torch, in a virtual environment" % self.stale_bytes, 2)
        if self.stale_bytes and self._trace_allocator():
            self.stale_bytes = None

    def _trace_allocator(self):
        """The same for any torch, by the calls that it makes for torch.cuda._sanitizer: they tell
        where a block begins, and the virtual GPU works out what becomes unknown."""
        activate = getattr(self._torch._C, "_activate_gpu_trace", None)
        try:
            trace = importlib.import_module("torch.cuda._gpu_trace")
        except ImportError:
            return False
        if activate is None:
            return False
        library = ctypes.PyDLL(None)  # keeps the interpreter's lock: these calls take a microsecond
        for name in ("memmodel_vgpu_block_out", "memmodel_vgpu_block_back"):
            getattr(library, name).argtypes = [ctypes.c_uint64]
            getattr(library, name).restype = ctypes.c_uint64
        self._blocks_out = 0

        def block_out(address):
            self._blocks_out = library.memmodel_vgpu_block_out(address)

        trace.register_callback_for_memory_allocation(block_out)
        trace.register_callback_for_memory_deallocation(library.memmodel_vgpu_block_back)
        activate()
        return True

    def check_allocations(self, count):
        """`count`: the requests that the allocator counted since the watch began."""
        if self._blocks_out is not None and self._blocks_out < count:
            self.stale_bytes = "torch told of %d of %d requests" % (self._blocks_out, count)

    def _other_torch(self, native):
        native.memmodel_compiled_for.restype = ctypes.c_char_p
        return "memmodel's watch is built for torch %s and the script's is %s" % (
            native.memmodel_compiled_for().decode(), self._torch.__version__)

    def tell_before_read(self, function):
        self._before_read = function

    def pause(self):
        if self._library is not None:
            self._library.memmodel_vgpu_on_unknown_read(_READER(), None)

    def _wrap_methods(self):
        tensor = self._torch.Tensor
        for name in _METHODS:
            original = getattr(tensor, name, None)
            if original is not None:
                patches.place(tensor, name, self._wrapped(name, original))

    def _wrapped(self, name, original):
        local = self._local

        def method(tensor, *arguments, **named):
            outer = getattr(local, "reading", None)
            if outer is None:
                local.reading = (name, tensor.dtype)
                if self._before_read is not None:
                    self._before_read(tensor)
            try:
                return original(tensor, *arguments, **named)
            finally:
                local.reading = outer

        method.__name__ = name
        method.__doc__ = original.__doc__
        method.__wrapped__ = original
        return method

    def _read(self, _, address, size, destination):
        try:
            return self._answer(size, destination)
        except Exception as error:  # no exception may cross into C
            sys.stderr.write("memmodel: unknown read not followed: %r\n" % (error,))
            return 0

    def _answer(self, size, destination):
        known = self._known_count() if self._known_count is not None and size in (4, 8) else -1
        if known >= 0:
            ctypes.memmove(destination, known.to_bytes(size, sys.byteorder), size)
            return 1
        inner = sys._getframe(1).f_back  # None on autograd's own threads
        if inner is not None and inner.f_globals.get("__name__") == __name__:
            inner = inner.f_back  # one of our wrapped methods
        method, dtype = getattr(self._local, "reading", None) or _printing(inner) or ("", None)
        counted = self._counted(size)
        if counted is not None:
            method = counted[0]
        key = (inner and inner.f_code, inner and inner.f_lasti, method)
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= MOST_PLACES:
                return 0
            place = self._places[key] = self._describe(inner, method, dtype, size)
        place["count"] += 1
        if counted is not None and place["value"] is None:
            _, least, most = counted
            count = max(least, int(self._share * most))
            place["most"] = max(place.get("most", 0), most)
            ctypes.memmove(destination, count.to_bytes(size, sys.byteorder), size)
            return 1
        value = place["value"]
        if callable(value):
            value = value(inner)
        if place["reason"] == _PADDING:
            return 0  # what is known of the bytes stays
        if value is None:
            value = int(self._ones == "one" or (self._ones == "true" and place["boolean"]))
            if not value:
                return 0
        if not value:
            return 1
        # Numbers of 8, or fewer, bytes each. One is true, 1, or the smallest float above zero.
        width = min(size, 8)
        ctypes.memmove(destination, value.to_bytes(width, "little") * (size // width), size // width * width)
        return 1

    def _counted(self, size):
        """(operator, least, most) if an operator reads how many elements it found, else None."""
        if self._limit is None or size not in (4, 8):
            return None
        name = ctypes.create_string_buffer(64)
        most = self._limit(name, len(name))
        if most < 0:
            return None
        operator = name.value.decode()
        return operator, int("unique" in operator and most > 0), most

    def _describe(self, inner, method, dtype, size):
        outer = job.users_frame(inner)
        text = _expression(inner)
        outer_text = text if outer is inner else _expression(outer)
        value, reason = None, ""
        both = text + " " + outer_text + " " + (inner.f_code.co_name if inner else "")
        if known_values.running():
            value, reason = 0, _PADDING
        elif inner and (asked := _asked_by_torch(inner)):
            value, reason = asked
        elif inner and _generated(inner) is not None:
            value, reason = _generated, "sequences taken to grow to the largest length that is allowed"
        elif inner and _is_step_count(inner, dtype, size):
            value, reason = _bits(float(self._run.step())), "an optimizer's count of steps, taken to be the run's"
        elif any(word in both for word in _NOT_FINITE):
            value, reason = 0, "taken to be finite"
        elif any(word in both for word in _FINITE):
            value, reason = 1, "taken to be finite"
        elif any(word in both for word in _UNPACKED):
            value, reason = 1, "sequences taken to be unpacked: position ids 0, 1, 2, ..."
        elif method in _NUMBERS and dtype is not None and dtype.is_floating_point:
            value, reason = 0, "a floating-point number"
        operator = method if "::" in method else "Tensor." + method if method else text
        return {"operator": operator, "bytes": int(size), "value": value,
                "boolean": dtype is self._torch.bool and size == 1,
                "is_count": "::" in method or (not method and size in (4, 8)),
                "reason": reason, "module": self._modules.path(self._modules.current()),
                "where": "%s: %s" % (job.place(outer), outer_text) if outer else
                "in " + self._run.phase(), "phase": self._run.phase(),
                "step": self._run.step(), "positions": self._run.positions(), "count": 0}

    def found(self):
        """(not recognised, harmless, counts answered), each read's place once, in order of
        appearance."""
        unknown, harmless, counts = [], [], []
        for place in self._places.values():
            kept = {key: place[key] for key in place if key not in ("value", "most")}
            if "most" in place:
                kept["reason"] = "%s: %g of at most %d" % (place["operator"], self._share, place["most"])
                counts.append(kept)
                continue
            (unknown if place["value"] is None else harmless).append(kept)
        return unknown, harmless, counts

    def forget(self):
        self._places = {}

    def virtual_gpu_report(self):
        """"refused", "approximate" and "context" as the child protocol has them."""
        if self._library is None:
            return {}
        try:
            said = json.loads(self._library.memmodel_vgpu_report_json().decode())
        except (ValueError, AttributeError):
            return {}
        refused = said.pop("refused", [])
        approximate = said.pop("approximate", [])
        workspace = said.pop("workspace", "")
        return {"refused": refused, "approximate": approximate, "workspace": workspace, "context": said}


def _asked_by_torch(frame):
    """(answer, reason) where torch's own Python asks what has one answer in a training that works, else None."""
    module = frame.f_globals.get("__name__")
    if module == "torch.distributions.distribution":  # else it raises an exception
        return 1, "arguments of a distribution taken to be valid"
    if module == "torch.testing._comparison":  # assert_close; torch.jit.trace checks what it made
        return 1, "a comparison taken to hold"
    if module == "torch.nn.modules._functions" and "world_size" in frame.f_locals:  # SyncBatchNorm counts them
        return frame.f_locals["world_size"], "every rank taken to have a batch"
    return None


def _generated(frame):
    """What transformers' generate reads: after each token whether all sequences have ended (with beams: whether any
    has not), which without an answer it would ask for ever; with beams also how long they are. None for other reads."""
    if frame.f_globals.get("__name__") != "transformers.generation.utils":
        return None
    loop = frame if "stopping_criteria" in frame.f_locals else frame.f_back
    names, text = loop.f_locals, frame.f_code.co_name + _expression(frame)
    longest = getattr(names.get("stopping_criteria"), "max_length", None)
    if longest is None:
        return None
    if loop.f_code.co_name != "_beam_search":
        return int(names["input_ids"].shape[1] >= longest) if "unfinished" in text else None
    if "max_generated_length" in text:
        return names["cur_len"] - names["decoder_prompt_len"]
    if "output_length" in text:
        return names["cur_len"]
    return int(names["cur_len"] < longest) if "unfinished" in text else None


def _is_step_count(frame, dtype, size):
    """Adam and the like keep it on the CPU, but torch.load(map_location="cuda") puts it on the GPU. It divides by
    1 - beta ** step, so that zero is no answer."""
    return (frame.f_globals.get("__name__") == "torch.optim.optimizer" and "step" in _expression(frame.f_back)
            and str(dtype) == "torch.float32" and size == 4)


def _bits(number):
    """Of a float32, as an integer."""
    return int.from_bytes(struct.pack("<f", number), "little")


def _printing(frame):
    """("__repr__", data type) if a tensor is written as text: Dynamo does so while our methods are out."""
    for _ in range(MOST_LINES):
        if frame is None:
            return None
        if frame.f_code.co_name == "_str" and frame.f_globals.get("__name__") == "torch._tensor_str":
            return "__repr__", getattr(frame.f_locals.get("self"), "dtype", None)
        frame = frame.f_back
    return None


def _expression(frame):
    """The source text of what `frame` is in: the call's own from Python 3.11 on if it stands on
    one line, else the whole statement up to its closing bracket, in one line."""
    if frame is None:
        return ""
    name, first = frame.f_code.co_filename, frame.f_lineno
    if hasattr(frame.f_code, "co_positions"):
        for index, (line, last, start, end) in enumerate(frame.f_code.co_positions()):
            if index == frame.f_lasti // 2:
                if line is not None and line == last and start is not None:
                    part = linecache.getline(name, line).encode()[start:end]
                    text = part.decode(errors="replace").strip()
                    if text:
                        return text
                first = line or first
                break
    text = linecache.getline(name, first).strip()
    for line in range(first + 1, first + MOST_LINES):
        if text.count("(") + text.count("[") <= text.count(")") + text.count("]"):
            break
        text += " " + linecache.getline(name, line).strip()
    return text
