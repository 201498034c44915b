"""What stands in place of torch's own functions, and how it gets out of the way of torch.compile.

Dynamo reads the Python of the script and of what it calls, knows torch's functions by identity
and guards what it has read by identity: while it reads, whenever a compiled function is called
(compiled.py) and while torch's modules are imported (import_hook.py), they have to be in their
places.
"""
import contextlib
import sys
import threading

_lock = threading.Lock()
_pairs = []  # (take out, put in), in order
_out = 0     # how often taken out and not put back
_ABSENT = object()


def place(owner, name, replacement):
    """Sets an attribute of a module or class, except while what is placed is out."""
    original = vars(owner).get(name, _ABSENT)

    def take():
        if original is _ABSENT:  # inherited
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    _tell_torchscript(original, replacement)
    add(take, lambda: setattr(owner, name, replacement))


def _tell_torchscript(original, replacement):
    """TorchScript knows torch's functions by identity too, and compiles with what is placed in."""
    builtins = sys.modules.get("torch.jit._builtins")
    name = builtins and builtins._find_builtin(original)
    if name:
        builtins._register_builtin(replacement, name)


def add(take, put):
    """Two functions, of which `put` is called now unless what is placed is out."""
    with _lock:
        _pairs.append((take, put))
        if not _out:
            put()


def take_out():
    global _out
    with _lock:
        _out += 1
        if _out == 1:
            for take, _ in reversed(_pairs):
                take()


def put_in():
    global _out
    with _lock:
        _out -= 1
        if not _out:
            for _, put in _pairs:
                put()


@contextlib.contextmanager
def out():
    take_out()
    try:
        yield
    finally:
        put_in()
