"""Loads the virtual GPU's libraries in front of the ones that torch would load.

The dynamic loader takes a library that is already there for every later request
of the same SONAME, so nothing else is needed: no LD_PRELOAD, no LD_LIBRARY_PATH,
and programs that this process starts see nothing of it.

torch itself opens some libraries by their path (torch/__init__.py,
_preload_cuda_deps), as other packages do; by that rule the real library would come
beside the stand-in, and its start-up code would run against the stand-ins. So
ctypes opens the stand-in in place of a file of the same name.
"""
import ctypes
import glob
import os
import re
import sys

from . import compiled, job

_loaded = False


def _torch_version(folder):
    """(version, cuda) from torch/version.py, read without importing torch."""
    text = ""
    try:
        with open(os.path.join(folder, "version.py")) as file:
            text = file.read()
    except OSError:
        pass
    found = {}
    for name in ("__version__", "cuda", "hip"):
        match = re.search(r"^%s\b[^=\n]*=\s*'([^']*)'" % name, text, re.M)
        found[name] = match.group(1) if match else None
    return found["__version__"], found["cuda"], found["hip"]


def _major_of_the_torch_to_come():
    """The CUDA version with stand-ins of the torch that the script would import, else None."""
    for folder in sys.path:
        cuda = _torch_version(os.path.join(folder, "torch"))[1]
        if cuda and cuda.split(".")[0] in job.get()["standins"]:
            return cuda.split(".")[0]
    return None


def _refuse_what_cannot_run(version, cuda, hip, where):
    major = (cuda or "").split(".")[0]
    if not cuda:
        kind = "a ROCm build (AMD GPUs)" if hip else "a CPU-only build"
        job.refuse("cpu_only_torch",
                   "the torch %s that %s imports (%s) is %s; memmodel runs PyTorch's CUDA build, "
                   "which needs no GPU: pip install torch (the default build on Linux)"
                   % (version, sys.executable, where, kind), 2)
    if major not in job.get()["standins"]:
        have = " and ".join(sorted(job.get()["standins"]))
        job.refuse("no_standins",
                   "torch %s is built for CUDA %s and this memmodel has stand-ins for CUDA %s only: "
                   "install a torch built for CUDA %s beside it, in a virtual environment"
                   % (version, cuda, have, have.replace("and", "or")), 2)
    return major


def _first_file(*patterns):
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)) if pattern else ():
            return path
    return None


def _real_libraries(site_packages, major, version):
    """The real cuDNN and cublasLt that the stand-ins ask: the interpreter's own, else memmodel's.
    `version` of torch: what lacks one cannot be used."""
    asked = job.get()
    folders = [os.path.join(root, part) for root in site_packages
               for part in ("nvidia/%s/lib", "nvidia/cu%s/lib" % major)]
    folders += [os.path.join(sys.prefix, "lib"), "/usr/lib/x86_64-linux-gnu"]  # of Conda, of the system
    cublas = "nvidia-cublas" + ("-cu12" if major == "12" else "")
    for variable, given, part, name, package in (
            ("MEMMODEL_VGPU_CUDNN", asked.get("cudnn"), "cudnn", "libcudnn.so.9", "nvidia-cudnn-cu" + major),
            ("MEMMODEL_VGPU_CUBLASLT", asked.get("cublaslt"), "cublas", "libcublasLt.so." + major, cublas)):
        path = _first_file(*[os.path.join(folder.replace("%s", part), name) for folder in folders]) or given
        if path:
            os.environ[variable] = path
        elif version:
            job.refuse("no_real_library",
                       "no %s beside torch %s (%s): memmodel asks the real one what operators need, "
                       "which takes no GPU. Install what that torch depends on (pip install %s), or name "
                       "the file with %s" % (name, version, site_packages[0], package, variable), 2)


def _refuse_other_processes_groups():
    world = int(os.environ.get("WORLD_SIZE") or 1)
    local = int(os.environ.get("LOCAL_WORLD_SIZE") or world)
    if world > local:
        job.refuse("multi_node",
                   "WORLD_SIZE is %d but only %d processes run on this machine: jobs over several "
                   "machines cannot be run. Every rank of one machine needs the same memory if "
                   "the model is replicated (DDP): run it with --nnodes=1" % (world, local))
    if world > job.get()["gpus"]:
        job.refuse("too_few_gpus",
                   "the script runs %d processes, one a GPU, but the machine has %d virtual GPU%s: "
                   "add --gpus %d" % (world, job.get()["gpus"], "s" * (job.get()["gpus"] > 1), world), 2)


def _stand_in_for_paths(libraries):
    """ctypes.CDLL(path) of a library that has a stand-in opens the stand-in."""
    by_name = {os.path.basename(path): path for path in libraries}
    original = ctypes.CDLL.__init__

    def __init__(self, name, *arguments, **named):
        try:
            name = by_name.get(os.path.basename(os.fsdecode(name)), name)
        except TypeError:  # None: the program itself
            pass
        original(self, name, *arguments, **named)

    ctypes.CDLL.__init__ = __init__


def load(name, spec):
    """Before the module `name` is executed; once a process. Nothing on a real GPU."""
    global _loaded
    if job.on_real_gpu():
        return
    version = None
    if name == "torch":
        folder = os.path.dirname(spec.origin) if spec.origin else ""
        if not os.path.exists(os.path.join(folder, "version.py")):
            return  # some other module of that name
        version, cuda, hip = _torch_version(folder)
        major = _refuse_what_cannot_run(version, cuda, hip, where=folder)
        _refuse_other_processes_groups()
        site_packages = [os.path.dirname(folder)] + sys.path
    else:
        major = _major_of_the_torch_to_come() or sorted(job.get()["standins"])[-1]
        site_packages = sys.path
    if _loaded:
        return
    _real_libraries(site_packages, major, version)
    folder = job.get()["standins"][major]
    libraries = sorted((path for path in glob.glob(os.path.join(folder, "lib*.so*"))
                        if re.search(r"\.so(\.\d+)*$", path)),
                       key=lambda path: ("libmemmodel" not in path, path))
    if not libraries:
        job.refuse("no_standins", "no stand-in libraries in %s: memmodel is not installed completely"
                   % folder, 2)
    for library in libraries:
        try:
            ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
        except OSError as error:
            job.refuse("standin_failed", "cannot load a stand-in: %s" % error, 2)
    _stand_in_for_paths(libraries)
    compiled.use_own_caches(folder)
    _loaded = True
