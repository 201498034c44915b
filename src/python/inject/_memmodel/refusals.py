"""What a virtual GPU cannot answer for, stopped where it starts, with a way out."""
import importlib.machinery
import mmap
import struct
import sys

from . import import_hook, job


def _who():
    return job.place(job.users_frame(sys._getframe(2)))


def _compiler(module):
    """torch._dynamo.convert_frame: what torch.compile does at a function's first call."""
    converter = getattr(module, "ConvertFrame", None)
    if converter is None:
        return

    def refuse(self, *arguments, **named):
        job.refuse("torch_compile",
                   "torch.compile is used (%s): its kernels are written and measured on the GPU, and "
                   "they allocate less than the operators they replace, so that no virtual GPU can "
                   "know their memory. Run with --eager: the same script without compiling; real "
                   "compiled training then needs as much or less" % _who())

    converter.__call__ = refuse


def _triton(module):
    """triton.runtime.jit: kernels that the script or a library wrote itself."""
    function = getattr(module, "JITFunction", None)
    if function is None:
        return

    def run(self, *arguments, **named):
        name = getattr(self, "__name__", None) or getattr(getattr(self, "fn", None), "__name__", "?")
        job.refuse("triton_kernel",
                   "the Triton kernel '%s' is launched (%s): Triton compiles for the GPU it finds, and "
                   "there is none. Most libraries with Triton kernels have a switch to PyTorch's own "
                   "operators; with --eager none is made by torch.compile" % (name, _who()))

    function.run = run


def has_its_own_runtime(path):
    """Whether a shared library (64-bit ELF) holds CUDA kernels and does not need libcudart."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:5] != b"\x7fELF\x02":
                return False
            table, = struct.unpack_from("<Q", data, 0x28)
            size, count, names = struct.unpack_from("<HHH", data, 0x3A)
            section = lambda index: struct.unpack_from("<IIQQQQ", data, table + index * size)
            strings = lambda offset, length: data[offset:offset + length]
            if b".nv_fatbin\0" not in strings(*section(names)[4:6]):
                return False
            needed = b"".join(strings(*found[4:6]) for found in map(section, range(count)) if found[1] == 3)
            return b"libcudart.so" not in needed
    except (OSError, ValueError, struct.error):
        return False


def _extensions():
    """Modules in C++: those whose CUDA calls would go past the virtual GPU."""
    loader = importlib.machinery.ExtensionFileLoader
    create = loader.create_module

    def create_module(self, spec):
        if has_its_own_runtime(self.path):
            job.refuse("static_extension",
                       "%s (%s) is a CUDA extension with a CUDA runtime of its own inside (nvcc's -cudart "
                       "static): what it does goes past the virtual GPU. Build it with -cudart shared, as "
                       "torch.utils.cpp_extension does, or use the library's switch to PyTorch's own "
                       "operators" % (spec.name, self.path))
        return create(self, spec)

    loader.create_module = create_module


def install(torch):
    if job.on_real_gpu():
        return
    if not job.get().get("eager"):
        import_hook.after_import("torch._dynamo.convert_frame", _compiler)
    import_hook.after_import("triton.runtime.jit", _triton)
    _extensions()
