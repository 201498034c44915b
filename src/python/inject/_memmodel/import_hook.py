"""Waits for `import torch`: loads the virtual GPU just before, the tracer just after.

Costs one string comparison an import until then. `pynvml` counts too: a script
that asks the driver before it imports torch must see the same card.
"""
import contextlib
import os
import sys

from . import patches

_WATCHED = {"torch": True, "pynvml": False}  # name: install the tracer afterwards


class _Finder:
    """First on sys.meta_path; finds nothing itself, passes on what the others find."""

    busy = False

    def find_spec(self, name, path=None, target=None):
        if name.startswith("torch.") and not self.busy:  # they may keep what they find in torch
            return _wrap(self._others(name, path, target), _AFTER_IMPORT.get(name, _nothing), patches.out())
        if name in _AFTER_IMPORT:
            return _wrap(self._others(name, path, target), _AFTER_IMPORT[name])
        if name not in _WATCHED or self.busy:
            return None
        spec = self._others(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        from . import standins

        standins.load(name, spec)
        if _WATCHED[name]:

            def after(torch):
                from . import tracer

                tracer.install(torch)

            return _wrap(spec, after)
        return spec

    def _others(self, name, path, target):
        self.busy = True
        try:
            for finder in sys.meta_path:
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        finally:
            self.busy = False
        return None


_AFTER_IMPORT = {}  # module name: function(module), see after_import


def _nothing(module):
    pass


def _wrap(spec, after, within=contextlib.nullcontext()):
    """Lets `after(module)` run when the module of `spec` has been executed, inside `within`."""
    if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
        return spec
    loader, run = spec.loader, spec.loader.exec_module

    def exec_module(module):
        with within:
            run(module)
        try:
            del loader.exec_module
        except AttributeError:
            pass
        after(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:  # a loader with __slots__: cannot be watched
        pass
    return spec


def after_import(name, function):
    """Calls function(module) once `name` has been imported, now if it has been."""
    if name in sys.modules:
        function(sys.modules[name])
    else:
        _AFTER_IMPORT[name] = function


def install():
    from . import job

    job.note_python_started()
    sys.meta_path.insert(0, _Finder())
    if "torch" in sys.modules:  # a sitecustomize chain imported it before us
        job.refuse("torch_imported_early",
                   "torch was imported before memmodel's hook could load the virtual GPU "
                   "(by another sitecustomize or a .pth file): %s" % os.environ.get("PYTHONPATH"))
