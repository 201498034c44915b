"""What `memmodel run` asked for, and the folder where the answers go.

MEMMODEL_RUN_JOB is the path of a JSON file: {"folder", "steps", "gpus", "eager",
"answer", "device": "virtual" or "cuda", "standins": {"13": folder}, "cudnn", "cublaslt"}; see docs/run.md.
"""
import json
import os
import sys

_job = None


def get():
    global _job
    if _job is None:
        with open(os.environ["MEMMODEL_RUN_JOB"]) as file:
            _job = json.load(file)
    return _job


def on_real_gpu():
    """Whether the script runs without the stand-ins."""
    return get().get("device") == "cuda"


def write(name, text):
    """Writes a file of the run's folder; whole or not at all."""
    path = os.path.join(get()["folder"], name)
    temporary = "%s.%d.part" % (path, os.getpid())
    with open(temporary, "w") as file:
        file.write(text)
    os.replace(temporary, path)
    return path


def note_python_started():
    """So that memmodel can tell an interpreter it did not enter from one without torch."""
    try:
        write("python.%d" % os.getpid(), "%s\n" % sys.executable)
    except OSError:
        pass


def refuse(code, message, exit_code=3):
    """Ends this process: what it is about to do cannot be answered. Does not return."""
    try:
        write("refused.%d.json" % os.getpid(), json.dumps({"code": code, "message": message}))
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            pass
        getattr(os._exit, "memmodel_original", os._exit)(exit_code)


def users_frame(frame):
    """The innermost frame that is neither torch's nor memmodel's, else the given one."""
    first = frame
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not (name == "torch" or name.startswith(("torch.", "_memmodel", "importlib", "contextlib"))):
            return frame
        frame = frame.f_back
    return first


def place(frame):
    """"train.py:42" for a frame, "" for none."""
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    for root in sorted(filter(None, sys.path), key=len, reverse=True):
        if path.startswith(root.rstrip("/") + "/"):
            path = path[len(root.rstrip("/")) + 1:]
            break
    return "%s:%d" % (path, frame.f_lineno)
