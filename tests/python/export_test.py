"""Files of scripts/export_model.py against the Python program: peaks as torch itself counts them in the script.

usage: export_test.py    MEMMODEL is the program; the interpreter is one with a CUDA build of torch.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

MEMMODEL = os.environ.get("MEMMODEL", "memmodel")
EXPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "export_model.py")

# A cache, a tuple, a function's variables, a change in place, a part without autocast, a result that nothing uses, brackets
# whose last slice is full, and modules that are given what no sample goes into.
NETWORK = """
import torch
from torch import nn


def doubled(x):
    wide = torch.cat([x, x], 1)
    half = wide[:, :512]
    return half * 2


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(256, 512), nn.LayerNorm(512), nn.Linear(512, 10)
        self.drop, self.shift = nn.Dropout(0.1), None
        self.register_buffer("places", torch.zeros(4096, 2))
        self.bias = nn.Sequential(nn.Linear(2, 1024), nn.ReLU(), nn.Dropout(0.0), nn.Linear(1024, 512))

    def forward(self, x):
        if self.shift is None:
            self.shift = torch.ones(1, 512, device=x.device) * 3
        (x > 5).any()
        h = self.first(x)
        pair = (torch.relu(h), doubled(h))
        h = pair[0] + pair[1][:, :512] + self.shift + self.bias(self.places).mean(0)
        pair = None
        with torch.autocast(x.device.type, enabled=False):
            h = self.norm(h.float())
        h = self.drop(h)
        h.mul_(2)
        return self.last(h)
"""

TRAINING = """
import torch
from network import Network
model = Network().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.zeros(1024, 256).cuda(), torch.zeros(1024, dtype=torch.long).cuda()
for step in range(3):
    optimizer.zero_grad()
    out = model(x)
    loss = torch.nn.functional.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    loss = out = None
print("PEAK", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
"""

INFERENCE = """
import torch
from network import Network
model = Network().cuda().eval()
with torch.no_grad():
    for step in range(3):
        x = None
        x = torch.zeros(1024, 256).cuda()
        out = model(x)
        out = None
print("PEAK", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
"""


class ExportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in (("network.py", NETWORK), ("training.py", TRAINING), ("inference.py", INFERENCE)):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
        # memmodel run stands in for the libraries without which torch cannot be imported. There is nothing to answer,
        # since the exporter uses no GPU.
        done = subprocess.run([MEMMODEL, "run", "--gpu", "h200", "--", sys.executable, EXPORT, "network:Network", "--input",
                               "256", "--out", "network"], cwd=self.folder, capture_output=True, text=True)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "network.pt")), done.stderr[-3000:])

    def run_here(self, *command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done

    def in_python(self, script):
        done = self.run_here(MEMMODEL, "run", "--gpu", "h200", "--steps", "0", "--json", "--", sys.executable, script)
        return tuple(map(int, re.search(r"PEAK (\d+) (\d+)", done.stderr).groups()))

    def predicted(self, *options):
        done = self.run_here(MEMMODEL, "predict", "--gpu", "h200", "--model", "network.pt", "--batch", "1024", "--json",
                             "--step-protocol", "minimal", *options)
        peak = json.loads(done.stdout)["peak"]
        return peak["allocated_bytes"], peak["reserved_bytes"]

    def test_peaks_are_those_of_the_program(self):
        self.assertEqual(self.predicted("--optimizer", "sgd"), self.in_python("training.py"))
        self.assertEqual(self.predicted("--mode", "infer"), self.in_python("inference.py"))


if __name__ == "__main__":
    unittest.main()
