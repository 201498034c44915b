"""Which tensors on the GPU hold what is known of them, for as long as nothing writes to them.

No kernel runs, so the virtual GPU knows the bytes that the host sent and no others, and
does not see that a kernel writes over them. PyTorch does: a tensor's version counts the
operators that wrote to it, and a fresh tensor has version 0. Kept here are tensors that
are known at another version, those that the script made of one value (torch.ones, full,
...), and integers that it sent and that are too many for the virtual GPU to keep. Whether
an attention mask, made or sent, masks anything decides memory.
"""
import functools

from . import patches

_FACTORIES = {"ones": 1, "ones_like": 1, "zeros": 0, "zeros_like": 0}
_METHODS = {"new_ones": 1, "new_zeros": 0}
MOST_ELEMENTS = 1 << 20
LARGEST_KEPT_BY_GPU = 1 << 16  # bytes, src/vgpu/shadow_bytes.h
_MOST_KEPT = 4096
_MOST_VALUES = 64


def _storage(tensor):
    """None of a tensor that has none of its own: functorch's, as inside torch.vmap."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


BYTES = object()  # as a value: what the virtual GPU keeps is right


class KnownTensors:
    def __init__(self, torch):
        from torch.multiprocessing.reductions import StorageWeakRef

        self._weak = StorageWeakRef
        self._tensor = torch.Tensor
        self._found = {}  # address of the storage: (weak reference, version, value)
        self._values = {}  # the same where `value` is a tensor
        self._inference = torch.is_inference
        self._tracing = torch._C._get_tracing_state  # by torch.jit.trace: sizes are tensors
        for name, value in _FACTORIES.items():
            self._watch(torch, name, lambda arguments, named, value=value: value)
        for name, value in _METHODS.items():
            self._watch(torch.Tensor, name, lambda arguments, named, value=value: value)
        self._watch(torch, "full", self._given)
        self._watch(torch, "full_like", self._given)
        self._watch(torch.Tensor, "new_full", lambda arguments, named: self._given(arguments[1:], named))

        for name in ("to", "cuda"):
            self._watch_sent(torch.Tensor, name)
        # torch.load makes a tensor of a storage that it sent, which counts as a write to the tensor.
        self._watch(torch._utils, "_rebuild_tensor", lambda arguments, named: BYTES)

    @staticmethod
    def _given(arguments, named):
        value = arguments[1] if len(arguments) > 1 else named.get("fill_value")
        return value if isinstance(value, (bool, int, float)) else None

    def _watch(self, owner, name, value_of):
        original = getattr(owner, name)

        @functools.wraps(original)
        def made(*arguments, **named):
            tensor = original(*arguments, **named)
            if tensor.is_cuda and not self._tracing() and tensor.numel() <= MOST_ELEMENTS:
                self.note(tensor, value_of(arguments, named))
            return tensor

        patches.place(owner, name, made)

    def _watch_sent(self, owner, name):
        original = getattr(owner, name)

        @functools.wraps(original)
        def sent(tensor, *arguments, **named):
            result = original(tensor, *arguments, **named)
            if (result.is_cuda and not tensor.is_cuda and not self._tracing() and not result.is_floating_point()
                    and result.dtype == tensor.dtype and tensor.is_contiguous()
                    and result.numel() <= MOST_ELEMENTS
                    and result.numel() * result.element_size() > LARGEST_KEPT_BY_GPU):
                self.note(result, tensor)
            return result

        patches.place(owner, name, sent)

    def note(self, tensor, value):
        """Until something writes to it, `tensor` holds `value`: one number, or a contiguous tensor on
        the CPU, whose values count as long as nothing writes to that either."""
        if value is None or type(tensor).__name__ not in ("Tensor", "Parameter") or self._inference(tensor):
            return
        kept, most = self._found, _MOST_KEPT
        if isinstance(value, self._tensor):
            if self._inference(value) or tensor.storage_offset() or not tensor.is_contiguous():
                return
            value, kept, most = (value, value._version), self._values, _MOST_VALUES
        if len(kept) >= most:
            for address in [a for a, found in kept.items() if found[0].expired()]:
                del kept[address]
            if len(kept) >= most:
                del kept[next(iter(kept))]
        storage = _storage(tensor)
        if storage is None:
            return
        address = storage.data_ptr()
        self._found.pop(address, None)
        self._values.pop(address, None)
        kept[address] = (self._weak(storage), tensor._version, value)

    def value(self, tensor):
        """What `tensor` (a view too) holds: the number that every element is, or a tensor on the CPU;
        BYTES if the bytes that the virtual GPU keeps are right, None if they are not."""
        if self._inference(tensor):  # has no version
            return BYTES
        storage = _storage(tensor)
        if storage is None:
            return None
        version, address = tensor._version, storage.data_ptr()
        found = self._found.get(address) or self._values.get(address)
        if found is None or found[1] != version or found[0].expired():
            return None if version else BYTES
        if not isinstance(found[2], tuple):
            return found[2]
        values, at = found[2]
        if values._version != at or values.dtype != tensor.dtype:
            return None
        return values.detach().as_strided(tensor.size(), tensor.stride(),
                                          values.storage_offset() + tensor.storage_offset())
