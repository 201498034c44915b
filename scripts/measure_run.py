"""Measures what a training script takes, for `memmodel validate` (docs/validation.md).

    from measure_run import measured
    with measured("measured.jsonl", model="resnet50", batch=32, optimizer="adamw", precision="fp32"):
        train_three_steps()

Appends one JSON object to the file when the block ends. Build the model and the
optimizer inside the block, so that their memory is counted as the job's. If the
block runs out of memory the line says "ok": false and the error goes on.
"""
import contextlib
import json
import os
import subprocess


def device_bytes(device):
    """What NVML counts for this process on `device` (bytes), or None if it cannot be asked."""
    import torch

    uuid = str(torch.cuda.get_device_properties(device).uuid)
    try:
        rows = subprocess.run(
            ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory",
             "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    for row in rows.splitlines():
        fields = [field.strip() for field in row.split(",")]
        if len(fields) == 3 and uuid in fields[0] and fields[1] == str(os.getpid()):
            # nvidia-smi rounds to MiB. Inside a container the pid may be another one.
            return int(fields[2]) << 20 if fields[2].isdigit() else None
    return None


@contextlib.contextmanager
def measured(path, model, batch, **facts):
    """Runs the block and appends its peaks to `path`.

    model: name of the file that `memmodel validate` will look for. batch: samples a
    step. facts: further fields of docs/validation.md (optimizer, precision, ...).
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("measured() needs a CUDA device: torch.cuda.is_available() is False")
    device = torch.cuda.current_device()
    torch.cuda.init()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    already = torch.cuda.memory_allocated(device)
    line = dict(model=model, batch=batch, **facts)
    line.setdefault("step_protocol", "loop")
    if already:
        line["allocated_before_bytes"] = already
    ok = False
    try:
        yield
        ok = True
    finally:
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize(device)
        line.update(
            ok=ok,
            allocated_bytes=torch.cuda.max_memory_allocated(device),
            reserved_bytes=torch.cuda.max_memory_reserved(device),
            retries=torch.cuda.memory_stats(device)["num_alloc_retries"],
            torch_version=torch.__version__,
            gpu=torch.cuda.get_device_name(device))
        used = device_bytes(device)
        if used is not None:
            line.update(device_bytes=used, reserved_end_bytes=torch.cuda.memory_reserved(device))
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
