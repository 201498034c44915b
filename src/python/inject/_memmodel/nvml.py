"""What NVML counts for this process, on a real GPU."""
import ctypes
import os


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of nvml.h, version 2 and later."""
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


def process_bytes(uuid):
    """Bytes of this process on the GPU of that uuid (without "GPU-"); None if NVML does not say:
    no NVML, or a container whose process numbers are not the driver's."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        device = ctypes.c_void_p()
        if nvml.nvmlInit_v2() != 0 or nvml.nvmlDeviceGetHandleByUUID(
                ("GPU-" + uuid).encode(), ctypes.byref(device)) != 0:
            return None
        count = ctypes.c_uint(1024)
        processes = (_Process * count.value)()
        if nvml.nvmlDeviceGetComputeRunningProcesses_v3(
                device, ctypes.byref(count), processes) != 0:
            return None
    except (OSError, AttributeError):
        return None
    for process in processes[:count.value]:
        if process.pid == os.getpid() and process.bytes != 2 ** 64 - 1:  # NVML_VALUE_NOT_AVAILABLE
            return process.bytes
    return None


def context_bytes(torch, device):
    """NVML's figure less what torch reserves; None if NVML does not say."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    used = None if uuid is None else process_bytes(str(uuid))
    if used is None:
        return None
    return used - torch.cuda.memory_stats(device)["reserved_bytes.all.current"]
