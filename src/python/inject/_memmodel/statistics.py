"""The allocator's statistics, with peaks that neither the script's resets nor ours can lose.

A peak of each phase needs a reset at each phase's start, and the script may reset
too. Both go through here: a reset first folds the peaks so far into what the
script has seen and into the run's own maximum, and what the script reads is the
larger of the allocator's peak and what was folded since the script's last reset.
"""
from . import patches

_STATISTICS = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
_RESETS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")


def _fold(into, stats):
    """Raises every "peak" of the nested dict `into` to that of `stats`."""
    for key, value in stats.items():
        if isinstance(value, dict):
            _fold(into.setdefault(key, {}), value)
        elif key == "peak":
            into["peak"] = max(into.get("peak", 0), value)


def _apply(stats, peaks):
    for key, value in peaks.items():
        if isinstance(value, dict):
            if key in stats:
                _apply(stats[key], value)
        elif key in stats:
            stats[key] = max(stats[key], value)


class Statistics:
    def __init__(self, torch):
        self._raw = torch._C._cuda_memoryStats
        self._reset = torch._C._cuda_resetPeakMemoryStats
        self._seen = {}  # device: peaks since the script's last reset
        self._run = {}   # device: peaks of the whole run
        for name in _STATISTICS:
            if hasattr(torch._C, name):
                patches.place(torch._C, name, self._reader(getattr(torch._C, name)))
        for name in _RESETS:
            if hasattr(torch._C, name):
                patches.place(torch._C, name, self._resetter(getattr(torch._C, name)))

    def _reader(self, original):
        def read(device):
            stats = original(device)
            _apply(stats, self._seen.get(int(device), {}))
            return stats

        return read

    def _resetter(self, original):
        def reset(device):
            self.start_phase(int(device))
            self._seen[int(device)] = {}
            return original(device)

        return reset

    def start_phase(self, device):
        """Statistics of the phase that ends here (its peaks alone); a new one starts."""
        stats = self._raw(device)
        _fold(self._seen.setdefault(device, {}), stats)
        _fold(self._run.setdefault(device, {}), stats)
        self._reset(device)
        return stats

    def of_run(self, device):
        """Statistics now, with the peaks of the whole run."""
        stats = self._raw(device)
        _apply(stats, self._run.get(device, {}))
        return stats

    def position(self, device):
        """Requests and releases so far: an index into the stream of those."""
        allocations = self._raw(device)["allocation"]["all"]
        return allocations["allocated"] + allocations["freed"]

    def forget(self):
        self._seen, self._run = {}, {}
