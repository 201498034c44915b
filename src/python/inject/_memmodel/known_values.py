"""Small integer arithmetic on values that are known, where memory hangs on the result.

broadcast_object_list and its like send sizes through tensors on the GPU and compute
with them there (torch.sum, comparisons). The bytes that the ranks exchange are known
(the NCCL stand-in moves them), but what a kernel makes of them is not. While such a
collective runs, each operator on small known tensors is also computed on the CPU, and
its result is written over the one on the virtual GPU: no request more or less. The
same goes for transformers' question whether an attention mask masks anything, which
decides whether a mask of all positions is made: the batch came from the host, or the
model made a mask of ones; and for the constants that Inductor folds, on the GPU.
"""
import ctypes
import functools
import threading

from . import import_hook, known_tensors, patches

_COLLECTIVES = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
                "send_object_list", "recv_object_list")
_MASKS = ("_preprocess_mask_arguments", "_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa",
          "_prepare_4d_attention_mask_for_sdpa")
_MASK_MODULES = ("transformers.masking_utils", "transformers.modeling_attn_mask_utils")  # the latter of 4.x
# Operators whose results follow from their arguments, so that they can be made on the CPU instead.
_MAKERS = ("to", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like", "arange", "scalar_tensor",
           "_to_copy", "device_put", "lift_fresh_copy")
_MOST_ELEMENTS = known_tensors.MOST_ELEMENTS
_running = threading.local()


def running():
    """How many object collectives the calling thread is in."""
    return getattr(_running, "depth", 0)


def _name(function):
    """Of a function of torch's, or of an operator ("add_.Tensor")."""
    return function.__name__.partition(".")[0]


def _in_place(name):
    if name.startswith("__"):
        return name.startswith("__i") and name not in ("__invert__", "__index__", "__int__")
    return name.endswith("_")


def _mode(torch, peek, tensors):
    from torch.overrides import TorchFunctionMode

    def known(tensor):
        """The tensor's values as a CPU tensor, None if not all are known."""
        if not tensor.is_cuda:
            return tensor
        if tensor.numel() > _MOST_ELEMENTS:
            return None
        value = known_tensors.BYTES if running() else tensors.value(tensor)
        if value is not known_tensors.BYTES:
            if value is None or isinstance(value, torch.Tensor):
                return value
            return torch.full(tensor.shape, value, dtype=tensor.dtype)
        if not tensor.is_contiguous():
            return None
        size = tensor.numel() * tensor.element_size()
        values = torch.empty(tensor.shape, dtype=tensor.dtype)
        if size and not peek(tensor.data_ptr(), size, values.data_ptr()):
            return None
        return values

    def on_cpu(value):
        if isinstance(value, torch.Tensor):
            values = known(value)
            if values is None:
                raise LookupError
            return values
        if isinstance(value, (list, tuple)):
            return type(value)(on_cpu(item) for item in value)
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return value

    class Follow(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), named=None):
            result = function(*arguments, **(named or {}))
            if not (isinstance(result, torch.Tensor) and result.is_cuda and result.is_contiguous()
                    and result.numel() <= _MOST_ELEMENTS):
                return result
            if "device" in (named or {}):
                if _name(function) not in _MAKERS or known(result) is not None:
                    return result
                named = {k: v for k, v in named.items() if k != "device"}
            if known(result) is not None and result._is_view():
                return result
            try:
                values = function(*[on_cpu(a) for a in arguments],
                                  **{k: on_cpu(v) for k, v in (named or {}).items()})
                if (isinstance(values, torch.Tensor) and not values.is_cuda
                        and values.shape == result.shape and values.dtype == result.dtype
                        and not _in_place(_name(function))):
                    if values.numel() * values.element_size() > known_tensors.LARGEST_KEPT_BY_GPU:
                        tensors.note(result, values.contiguous())
                    else:
                        result.copy_(values)
                        tensors.note(result, known_tensors.BYTES)
            except Exception:  # not known, or not to be had on the CPU: stays unknown
                pass
            return result

    return Follow


def _follow_masks(module, mode):
    for owner in (module, getattr(module, "AttentionMaskConverter", None)):
        for name in _MASKS:
            original = vars(owner).get(name) if owner is not None else None
            if original is None:
                continue
            function = getattr(owner, name)

            @functools.wraps(function)
            def followed(*arguments, _original=function, **named):
                with mode():
                    return _original(*arguments, **named)

            patches.place(owner, name, staticmethod(followed) if isinstance(original, staticmethod) else followed)


def _follow_folding(module, mode):
    folder = getattr(module, "ConstantFolder", None)
    if folder is None:
        return
    run = folder.run

    @functools.wraps(run)
    def followed(self):
        with mode():
            return run(self)

    folder.run = followed


def _forgetting(torch, library, tensors):
    """forget(tensor): bytes that an operator wrote over are not known, whatever the host sent."""
    library.memmodel_vgpu_forget.argtypes = (ctypes.c_uint64, ctypes.c_uint64)

    def forget(tensor):
        if (type(tensor) is torch.Tensor and tensor.is_cuda and not running() and tensor.is_contiguous()
                and tensors.value(tensor) is None):
            library.memmodel_vgpu_forget(tensor.data_ptr(), tensor.numel() * tensor.element_size())

    return forget


def install(torch):
    """Called after `import torch`; does nothing on a real GPU. Returns a function to be called
    with each tensor that the host is about to read."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "memmodel_vgpu_peek"):
        return lambda tensor: None
    peek = library.memmodel_vgpu_peek
    peek.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)
    tensors = known_tensors.KnownTensors(torch)
    mode = _mode(torch, peek, tensors)
    _install_collectives(torch, mode)
    import_hook.after_import("torch._inductor.constant_folding", lambda module: _follow_folding(module, mode))
    for name in _MASK_MODULES:
        import_hook.after_import(name, lambda module: _follow_masks(module, mode))
    return _forgetting(torch, library, tensors)


def _install_collectives(torch, mode):
    if not torch.distributed.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    for name in _COLLECTIVES:
        original = getattr(c10d, name, None)
        if original is None:
            continue

        @functools.wraps(original)
        def followed(*arguments, _original=original, **named):
            _running.depth = running() + 1
            try:
                with mode():
                    return _original(*arguments, **named)
            finally:
                _running.depth -= 1

        setattr(c10d, name, followed)
        if hasattr(torch.distributed, name):
            setattr(torch.distributed, name, followed)
