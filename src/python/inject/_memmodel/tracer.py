"""Follows one process of the script from its first use of CUDA to the last step asked for.

Installed after `import torch`; does nothing until CUDA is initialised (in this
process: forked children start afresh), then records the allocator's history and
writes one report and one trace a process when the asked steps are done, when the
process ends, or dies of its own error.
"""
import atexit
import json
import math
import os
import sys
import threading
import time

from . import compiled, history, job, known_values, modules, nvml, operators, reads, refusals, statistics, steps

PROFILED_STEPS = 3  # steps whose operators are recorded; those after are counted only


class Run:
    def __init__(self, torch):
        self._torch = torch
        self._asked = job.get()
        self._statistics = statistics.Statistics(torch)
        self._operators = operators.Operators(torch)
        self._steps = steps.Steps(torch, self)
        self._modules = modules.Modules(torch, self._steps)
        compiled.install(self._modules)
        self._reads = reads.Reads(torch, self._modules, self)
        self._begun = time.time()
        self._error = None
        self._reset()
        torch.cuda._lazy_call(self._cuda_begins)
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self):
        self._statistics.forget()
        self._reads.forget()
        self._live = False
        self._reported = self._finished = False
        self._marks = {}  # device: [(position, line)]
        self._profiled_from = {}
        self._ooms = []
        self._weights = None
        self._devices = []
        self._profiler_bytes = 0
        self._context = None  # on a real GPU, at the end

    # What Steps asks.

    def live(self):
        return self._live

    def tagging(self):
        return self._steps.done < PROFILED_STEPS

    def mark(self, line):
        for device in self._devices:
            self._marks.setdefault(device, []).append((self._statistics.position(device), line))

    def tag(self, role, tensor, name):
        block = history.block_of(self._torch, tensor)
        if block is not None:
            device, address, size = block
            self._marks.setdefault(device, []).append(
                (self._statistics.position(device),
                 "t %s %x %d %s" % (role, address, size, name.replace(" ", "_") or "-")))

    def phase_ended(self):
        found = None
        for device in self._devices:
            stats = self._statistics.start_phase(device)
            if found is None or stats["allocated_bytes"]["all"]["peak"] > found["allocated_peak"]:
                found = {"allocated_peak": stats["allocated_bytes"]["all"]["peak"],
                         "allocated": stats["allocated_bytes"]["all"]["current"],
                         "reserved": stats["reserved_bytes"]["all"]["current"]}
        return found

    @staticmethod
    def keyword_arguments():
        """Of the module call that the pre-hook interrupts."""
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_name in ("inner", "_call_impl"):
                return frame.f_locals.get("kwargs")
            frame = frame.f_back
        return None

    def first_step_begins(self):
        if self._weights is None:
            self._weights = sum(self._statistics.of_run(d)["allocated_bytes"]["all"]["current"]
                                for d in self._devices)
            before = nvml.context_bytes(self._torch, 0) if job.on_real_gpu() else None
            if self._asked.get("operators", True) and self._operators.start():
                if before is not None:  # the profiler's own buffers on the GPU
                    self._profiler_bytes = nvml.context_bytes(self._torch, 0) - before
                self._modules.recording = True
                self._profiled_from = {d: self._statistics.position(d) for d in self._devices}

    def step_done(self):
        done = self._steps.done
        if done >= PROFILED_STEPS and self._operators.running():
            self._stop_profiling()
        if self._asked["steps"] > 0 and self._steps.complete(self._asked["steps"]):
            self.report("steps")
            self._end()

    def tell_before_read(self, function):
        self._reads.tell_before_read(function)

    def phase(self):
        return self._steps.name_of_phase()

    def step(self):
        return self._steps.done + 1

    def positions(self):
        return {d: self._statistics.position(d) for d in self._devices}

    # The life of the run.

    def _cuda_begins(self):
        history.record(self._torch)
        self._devices = list(range(self._torch._C._cuda_getDeviceCount()))
        self._torch._C._cuda_attach_out_of_memory_observer(self._out_of_memory)
        self._live = True
        self._limit()
        self.mark("# load")
        self._modules.watch()
        self._reads.watch()
        self._allocations_before = self._allocations()

    def _allocations(self):
        return sum(self._statistics.of_run(d)["allocation"]["all"]["allocated"] for d in self._devices)

    def _limit(self):
        """--allocator-limit, as torch.cuda.set_per_process_memory_fraction sets it."""
        limit = self._asked.get("allocator_limit_bytes") or 0
        for device in self._devices if limit else ():
            total = self._torch._C._cuda_getMemoryInfo(device)[1] if hasattr(
                self._torch._C, "_cuda_getMemoryInfo") else self._torch.cuda.mem_get_info(device)[1]
            fraction = min(1.0, limit / total)
            while fraction < 1.0 and int(fraction * total) < limit:  # torch truncates the product
                fraction = math.nextafter(fraction, 1.0)
            self._torch._C._cuda_setMemoryFraction(fraction, device)

    def _out_of_memory(self, device, size, total, free):
        self._ooms.append({"bytes": size, "free_bytes": free, "step": self._steps.done + 1,
                           "phase": self.phase(), "module": self._modules.path(self._modules.current())})

    def _stop_profiling(self):
        self._modules.recording = False
        self._operators.stop()

    def finished(self):
        return self._finished

    @staticmethod
    def leave():
        leave_now()

    def _end(self):
        """Ends the script; one that catches everything still ends, at its next step at the latest."""
        self._finished = True
        threading.Thread(target=_end_for_sure, daemon=True).start()
        raise SystemExit(0)

    def uncaught(self, kind, error):
        ran_out = self._out_of_memory_behind(error)
        self._error = {"type": kind.__name__, "message": str(ran_out or error)[:2000], "oom": ran_out is not None}

    def _note_uncaught(self):
        """Libraries (typer, rich) put a sys.excepthook of their own in place of ours; the interpreter has kept
        the error before it called that."""
        error = getattr(sys, "last_value", None)
        if self._error is None and isinstance(error, Exception):
            self.uncaught(type(error), error)

    def _out_of_memory_behind(self, error):
        """A library may say in words of its own what it was doing (raise ... from error)."""
        seen = set()  # a chain may be made to end in itself
        while error is not None and id(error) not in seen:
            if isinstance(error, self._torch.OutOfMemoryError):
                return error
            seen.add(id(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return None

    def report(self, ended, exit_code=0):
        if self._reported:
            return
        self._reported = True
        self._note_uncaught()
        if not self._live:
            job.write("report.%d.json" % os.getpid(), json.dumps(
                {"cuda_used": False, "pid": os.getpid(), "error": self._described_error(),
                 "torch_version": str(self._torch.__version__), "ended": ended, "exit_code": exit_code}))
            return
        self._live = False
        if job.on_real_gpu() and self._devices:
            self._context = nvml.context_bytes(self._torch, self._devices[0])
        self._reads.pause()
        if self._operators.running():
            self._stop_profiling()
        self._modules.unwatch()
        stats = {device: self._statistics.of_run(device) for device in self._devices}
        ends = self.positions()
        self._reads.check_allocations(self._allocations() - self._allocations_before)
        # Gives back what PyTorch keeps for cuBLAS, and so shows which blocks these are.
        self._torch._C._cuda_clearCublasWorkspaces()
        snapshot = self._torch.cuda.memory._snapshot()
        # Set in the script itself, it may be, before it imports torch.
        self._alloc_conf = snapshot.get("allocator_settings", {}).get("PYTORCH_CUDA_ALLOC_CONF", "")
        writer = history.Writer(snapshot, self._operators, self._modules)
        devices = [self._device(index, writer, stats[index], ends[index]) for index in writer.devices()]
        job.write("report.%d.json" % os.getpid(), json.dumps(self._whole(ended, exit_code, devices)))

    def _device(self, index, writer, stats, end):
        peak = lambda name: stats[name]["all"]["peak"]
        marks = self._marks.get(index, []) + [(end, "# end")]
        text, events = writer.text(index, marks, self._profiled_from.get(index), end, {
            "torch_version": str(self._torch.__version__), "batch": self._steps.batch or 0,
            "device": self._torch.cuda.get_device_name(index), "steps": self._steps.done})
        complete = events == end
        return {"device": index, "trace": job.write("trace.%d.%d" % (os.getpid(), index), text),
                "trace_complete": complete,
                "peak": {"allocated_bytes": peak("allocated_bytes"), "reserved_bytes": peak("reserved_bytes"),
                         "active_bytes": peak("active_bytes"), "requested_bytes": peak("requested_bytes")},
                "retries": stats["num_alloc_retries"], "ooms": stats["num_ooms"],
                "segments": stats["segment"]["all"]["current"]}

    def _real_context(self):
        """"context" of the child protocol, without what the profiler took of the GPU."""
        measured = self._context and self._context - self._profiler_bytes
        return {"context": {"measured_bytes": measured}} if measured else {}

    def _cudnn_version(self):
        """None where there is no cuDNN, or one that this torch does not take."""
        if not (job.on_real_gpu() or os.environ.get("MEMMODEL_VGPU_CUDNN")):
            return None
        try:
            return self._torch.backends.cudnn.version()
        except RuntimeError:
            return None

    def _outcome(self, ended, exit_code):
        if ended == "steps":
            return "ok"
        if self._error:
            return "oom" if self._error["oom"] else "error"
        if self._ooms and (exit_code or not self._steps.done):
            return "oom"  # caught by the script, which then gave up
        return "error" if exit_code else "ok"

    def _whole(self, ended, exit_code, devices):
        torch = self._torch
        outcome = self._outcome(ended, exit_code)
        unknown, harmless, counts = self._reads.found()
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        best = max(devices, key=lambda d: d["peak"]["allocated_bytes"], default={})
        report = {
            "probe": os.getpid(), "cuda_used": True, "pid": os.getpid(), "ended": ended, "exit_code": exit_code,
            "outcome": outcome, "batch": self._steps.batch,
            "rank": torch.distributed.get_rank() if distributed else int(os.environ.get("RANK") or 0),
            "world_size": torch.distributed.get_world_size() if distributed else 1,
            "bucket_bytes": self._modules.bucket_bytes, "alloc_conf": self._alloc_conf,
            "steps_done": self._steps.done, "steps": self._steps.reports[:steps.MOST_STEPS_REPORTED],
            "weights_bytes": self._weights, "torch_version": str(torch.__version__),
            "cudnn_version": self._cudnn_version(), "python": sys.version.split()[0],
            "stale_bytes": self._reads.stale_bytes or None, "unknown": unknown, "harmless_reads": harmless,
            "counts": counts, "compiled": compiled.report(), "out_of_memory": self._ooms[:20],
            "devices": devices, "elapsed_ms": (time.time() - self._begun) * 1000}
        report.update({key: value for key, value in best.items() if key != "device"})
        report.update(self._real_context() if job.on_real_gpu() else self._reads.virtual_gpu_report())
        if outcome == "oom" and self._ooms:
            last = self._ooms[-1]
            report["error"] = {"message": (self._error or {}).get("message") or
                               "out of memory: %d bytes asked in step %d, %s"
                               % (last["bytes"], last["step"], last["phase"]),
                               "operator": "", "module": last["module"]}
        elif self._error:
            report["error"] = self._described_error()
        return report

    def _described_error(self):
        if not self._error:
            return {}
        message = self._error["type"] + (": " + self._error["message"] if self._error["message"] else "")
        return {"message": message, "operator": "", "module": ""}


def _end_for_sure():
    time.sleep(3)
    leave_now()


def leave_now():
    getattr(os._exit, "memmodel_original", os._exit)(0)


def _watch_the_end(run):
    """A report at every way out that Python can see."""
    atexit.register(lambda: run.report("exit"))
    hook = sys.excepthook

    def excepthook(kind, error, traceback):
        if not issubclass(kind, SystemExit):
            run.uncaught(kind, error)
        hook(kind, error, traceback)

    sys.excepthook = excepthook
    leave = os._exit

    def _exit(status):
        run.report("exit", status)
        leave(status)

    _exit.memmodel_original = leave
    os._exit = _exit


def install(torch):
    run = Run(torch)
    _watch_the_end(run)
    refusals.install(torch)
    run.tell_before_read(known_values.install(torch))
