"""Parts of src/python that need no torch: values counted on paper."""
import os
import sys
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "python", "inject"))
from _memmodel import history, patches, reads, standins, statistics  # noqa: E402


def entry(action, address, size, stream=0):
    return {"action": action, "addr": address, "size": size, "stream": stream}


class FakeC:
    """torch._C with one counter of peaks: allocate(), free() and the two functions that are wrapped."""

    def __init__(self):
        self.current = self.peak = self.requests = 0

    def _cuda_memoryStats(self, device):
        return {"allocated_bytes": {"all": {"current": self.current, "peak": self.peak}},
                "allocation": {"all": {"allocated": self.requests, "freed": 0}}}

    def _cuda_resetPeakMemoryStats(self, device):
        self.peak = self.current

    def allocate(self, size):
        self.current += size
        self.requests += 1
        self.peak = max(self.peak, self.current)

    def free(self, size):
        self.current -= size


class StatisticsTest(unittest.TestCase):
    def setUp(self):
        self.c = FakeC()
        self.statistics = statistics.Statistics(types.SimpleNamespace(_C=self.c))

    def peak_as_the_script_sees_it(self):
        return self.c._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"]

    def test_phases_do_not_lose_the_scripts_peak(self):
        self.c.allocate(100)
        self.c.free(100)
        ended = self.statistics.start_phase(0)
        self.assertEqual(ended["allocated_bytes"]["all"]["peak"], 100)
        self.c.allocate(40)
        self.assertEqual(self.peak_as_the_script_sees_it(), 100)
        self.assertEqual(self.statistics.start_phase(0)["allocated_bytes"]["all"]["peak"], 40)

    def test_the_scripts_reset_does_not_lose_the_runs_peak(self):
        self.c.allocate(100)
        self.c.free(100)
        self.c._cuda_resetPeakMemoryStats(0)
        self.c.allocate(30)
        self.assertEqual(self.peak_as_the_script_sees_it(), 30)
        self.assertEqual(self.statistics.of_run(0)["allocated_bytes"]["all"]["peak"], 100)


class WriterTest(unittest.TestCase):
    def text(self, entries, marks, blocks=None, profiled_from=None, end=None):
        operators = types.SimpleNamespace(names=["aten::mm"], blocks={0: blocks or {}})
        modules = types.SimpleNamespace(names=[("Linear", "fc")])
        writer = history.Writer({"device_traces": [entries]}, operators, modules)
        requests = sum(e["action"] in ("alloc", "free_requested") for e in entries)
        return writer.text(0, marks, profiled_from, requests if end is None else end, {})[0].splitlines()

    def test_marks_stand_before_the_request_that_follows_and_its_segment(self):
        lines = self.text([entry("segment_alloc", 0x1000, 2097152), entry("alloc", 0x1000, 512),
                           entry("segment_alloc", 0x9000, 2097152), entry("alloc", 0x9000, 700)],
                          [(0, "# load"), (1, "# step b=4"), (2, "# end")])
        self.assertEqual(lines[4:], ["# load", "S 1000 2097152 0", "a 1000 512 0", "# step b=4",
                                     "S 9000 2097152 0", "a 9000 700 0", "# end"])

    def test_operators_follow_the_address_even_if_a_release_was_not_seen(self):
        entries = [entry("alloc", 1, 512), entry("free_requested", 1, 512), entry("alloc", 1, 512)]
        blocks = {1: [(True, 0, 0), (True, 0, -1)]}
        lines = self.text(entries, [], blocks, profiled_from=0)
        self.assertEqual(lines[4:], ["a 1 512 0 0 0", "f 1 512 0", "a 1 512 0 0 -1"])

    def test_blocks_given_back_after_the_end_are_the_libraries_workspaces(self):
        entries = [entry("alloc", 1, 33554432), entry("alloc", 2, 512), entry("free_requested", 1, 33554432)]
        lines = self.text(entries, [(2, "# end")], end=2)
        self.assertEqual(lines[4:], ["a 1 33554432 0", "t library_workspace 1 33554432 workspace",
                                     "a 2 512 0", "# end"])

    def test_streams_are_numbered_by_first_use(self):
        lines = self.text([entry("alloc", 1, 512, 99), entry("alloc", 2, 512, 7), entry("alloc", 3, 512, 99)], [])
        self.assertEqual([line.split()[3] for line in lines[4:]], ["0", "1", "0"])


class PatchesTest(unittest.TestCase):
    def test_what_is_placed_is_out_of_the_way_as_long_as_asked(self):
        class Base:
            def own(self):
                return "base"

        class Class(Base):
            def other(self):
                return "class"

        patches.place(Class, "own", lambda self: "placed")
        patches.place(Class, "other", lambda self: "placed")
        self.assertEqual((Class().own(), Class().other()), ("placed", "placed"))
        with patches.out(), patches.out():  # a compiled function calls another
            self.assertEqual((Class().own(), Class().other()), ("base", "class"))
            patches.place(Class, "third", lambda self: "placed")
            self.assertFalse(hasattr(Class, "third"))
        self.assertEqual((Class().own(), Class().other(), Class().third()), ("placed",) * 3)


class VersionTest(unittest.TestCase):
    def test_version_py_is_read_without_importing_it(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "version.py"), "w") as file:
                file.write("from typing import Optional\n__version__ = '2.11.0+cu130'\ndebug = False\n"
                           "cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n")
            self.assertEqual(standins._torch_version(folder), ("2.11.0+cu130", "13.0", None))


class ExpressionTest(unittest.TestCase):
    @unittest.skipIf(sys.version_info < (3, 11), "columns are known from Python 3.11 on")
    def test_the_call_that_runs_is_named_not_the_whole_line(self):
        def inner():
            return reads._expression(sys._getframe().f_back)

        text = [inner(), 1][0]
        self.assertEqual(text, "inner()")


if __name__ == "__main__":
    unittest.main()
