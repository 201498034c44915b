"""What a virtual GPU cannot answer for, stopped where it starts, with a way out."""
import importlib.machinery
import mmap
import struct

from . import job


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
    _extensions()
