"""Entry into the Python processes that `memmodel run` starts.

`memmodel run` puts this folder in front of PYTHONPATH. Python's start-up imports
this module; it installs an import hook that waits for `import torch`, and then
runs the sitecustomize that would have been imported without it.
"""
import os
import sys


def _run_the_users_own():
    here = os.path.dirname(os.path.abspath(__file__))
    path = [p for p in sys.path if os.path.abspath(p or ".") != here]
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if sys.version_info >= (3, 8):
    if os.environ.get("MEMMODEL_RUN_JOB"):
        try:
            from _memmodel import import_hook

            import_hook.install()
        except Exception as error:  # the user's program comes first
            sys.stderr.write("memmodel: not started in this Python: %r\n" % (error,))
    _run_the_users_own()
