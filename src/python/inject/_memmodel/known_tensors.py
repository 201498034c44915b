"""Which tensors on the GPU hold what is known of them, for as long as nothing writes to them.

No kernel runs, so the virtual GPU knows the bytes that the host sent and no others, and
does not see that a kernel writes over them. PyTorch does: a tensor's version counts the
operators that wrote to it, and a fresh tensor has version 0. Kept here are tensors that
are known at another version, and those that the script made of one value (torch.ones,
full, ...): the attention mask of ones that a model makes for itself is such a tensor,
and whether it masks anything decides memory.
"""
import functools

_FACTORIES = {"ones": 1, "ones_like": 1, "zeros": 0, "zeros_like": 0}
_METHODS = {"new_ones": 1, "new_zeros": 0}
MOST_ELEMENTS = 1 << 20
_MOST_KEPT = 4096


BYTES = object()  # as a value: what the virtual GPU keeps is right


class KnownTensors:
    def __init__(self, torch):
        from torch.multiprocessing.reductions import StorageWeakRef

        self._weak = StorageWeakRef
        self._found = {}  # address of the storage: (weak reference, version, value)
        self._inference = torch.is_inference
        for name, value in _FACTORIES.items():
            self._watch(torch, name, lambda arguments, named, value=value: value)
        for name, value in _METHODS.items():
            self._watch(torch.Tensor, name, lambda arguments, named, value=value: value)
        self._watch(torch, "full", self._given)
        self._watch(torch, "full_like", self._given)
        self._watch(torch.Tensor, "new_full", lambda arguments, named: self._given(arguments[1:], named))

    @staticmethod
    def _given(arguments, named):
        value = arguments[1] if len(arguments) > 1 else named.get("fill_value")
        return value if isinstance(value, (bool, int, float)) else None

    def _watch(self, owner, name, value_of):
        original = getattr(owner, name)

        @functools.wraps(original)
        def made(*arguments, **named):
            tensor = original(*arguments, **named)
            if tensor.is_cuda and tensor.numel() <= MOST_ELEMENTS:
                self.note(tensor, value_of(arguments, named))
            return tensor

        setattr(owner, name, made)

    def note(self, tensor, value):
        """Until something writes to it, every element of `tensor` is `value`."""
        if value is None or type(tensor).__name__ not in ("Tensor", "Parameter") or self._inference(tensor):
            return
        if len(self._found) >= _MOST_KEPT:
            self._found = {a: kept for a, kept in self._found.items() if not kept[0].expired()}
            if len(self._found) >= _MOST_KEPT:
                return
        storage = tensor.untyped_storage()
        self._found[storage.data_ptr()] = (self._weak(storage), tensor._version, value)

    def value(self, tensor):
        """What every element of `tensor` (a view too) is; BYTES if the bytes that the virtual GPU
        keeps are right, None if they are not."""
        if self._inference(tensor):  # has no version
            return BYTES
        version = tensor._version
        found = self._found.get(tensor.untyped_storage().data_ptr())
        if found is not None and found[1] == version and not found[0].expired():
            return found[2]
        return None if version else BYTES
