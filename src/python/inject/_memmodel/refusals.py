"""What a virtual GPU cannot answer for, stopped where it starts, with a way out."""
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


def install(torch):
    if job.on_real_gpu():
        return
    if not job.get().get("eager"):
        import_hook.after_import("torch._dynamo.convert_frame", _compiler)
    import_hook.after_import("triton.runtime.jit", _triton)
