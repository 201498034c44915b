"""torch.compile on the virtual GPU: Dynamo, Inductor and Triton run as they are.

What a compiled function allocates is decided on the CPU, by the code that Inductor
writes; its kernels are compiled for the card in question and never run. Kept apart from
the script's own caches is what they would remember of it: trials of kernels are timed by
the virtual GPU's clock.
"""
import functools
import os
import sys
import types
import warnings

from . import import_hook, job, patches

_modules = None  # modules.Modules
_seen = {"functions": set(), "trials": 0}


def use_own_caches(libcuda_folder):
    """Before torch is imported. Triton links its launchers against libcuda.so.1 of that folder."""
    os.environ["TRITON_LIBCUDA_PATH"] = libcuda_folder
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(job.get()["folder"], "inductor")
    os.environ["TRITON_CACHE_DIR"] = job.get()["triton_cache"]


def report():
    """What of it was used, None if nothing."""
    if not _seen["functions"] and not _seen["trials"]:
        return None
    return {"functions": len(_seen["functions"]), "trials": _seen["trials"]}


def _call(frame):
    """(function, arguments, named) of the compiled call that `frame` is in, None if it is not found."""
    for _ in range(4):
        if frame is None:
            return None
        names = frame.f_locals
        if "fn" in names and "args" in names and "kwargs" in names:
            return names["fn"], names["args"], names["kwargs"]
        frame = frame.f_back
    return None


def _begins():
    """At every call of a compiled function; returns what is to be called at its end."""
    call = _call(sys._getframe(1))
    module, followed = None, False
    if call is not None:
        function = call[0]
        _seen["functions"].add(getattr(function, "__qualname__", "?"))
        if isinstance(function, types.MethodType) and _modules.is_module(function.__self__):
            module = function.__self__
        followed = _modules.call_begins(module, call[1:])
    patches.take_out()
    return functools.partial(_ended, module, followed)


def _ended(module, followed):
    patches.put_in()
    if followed:
        _modules.call_ended(module)


def _dynamo(eval_frame):
    context = getattr(eval_frame, "_TorchDynamoContext", None)
    if context is None:
        return
    init = context.__init__

    @functools.wraps(init)
    def __init__(self, *arguments, **named):
        init(self, *arguments, **named)
        getattr(self, "enter_exit_hooks", []).append(_begins)

    context.__init__ = __init__
    call = context.__call__

    @functools.wraps(call)
    def __call__(self, function):
        with patches.out():
            return call(self, function)

    context.__call__ = __call__
    # The hooks are memmodel's, and out of the way when it matters.
    warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")


def _count_trials(owner, name):
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def counted(*arguments, **named):
        _seen["trials"] += 1
        return original(*arguments, **named)

    setattr(owner, name, counted)


def install(modules):
    global _modules
    _modules = modules
    import_hook.after_import("torch._dynamo.eval_frame", _dynamo)
    import_hook.after_import("torch._dynamo.trace_rules", lambda rules: getattr(rules, "add", id)(__package__))
    import_hook.after_import("torch._inductor.runtime.triton_heuristics", lambda heuristics: _count_trials(
        getattr(heuristics, "CachingAutotuner", None), "benchmark_all_configs"))
    import_hook.after_import("triton.runtime.autotuner", lambda autotuner: _count_trials(
        getattr(autotuner, "Autotuner", None), "_bench"))
