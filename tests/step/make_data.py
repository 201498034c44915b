#!/usr/bin/env python3
"""Makes data/: files of torch.save that are no TorchScript, and a network whose functions have variables.

Needs torch; run by hand.
"""

import collections
import os
import sys

import torch
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "scripts"))
import export_model  # noqa: E402


def halved(x):
    wide = x + 1
    wider = wide * 2
    return wider[:, :128] + 0.5


class VariablesNet(nn.Module):
    """256 numbers a sample. `wide` and `wider` live until halved returns, z twice, y to the end."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(128))

    def forward(self, x):
        y = halved(x)
        z = y + 1
        z = z * self.scale
        return z


class Kept:
    def __init__(self, value):
        self.value = value


class KeepingNet(nn.Module):
    def forward(self, x):
        y = x * 2
        return y[:, :128] + 1, Kept(y)


def widened(out):
    out = out.float()
    return out * 2


class ObjectsNet(nn.Module):
    """256 numbers a sample. What `kept` holds, and `out` in its own data type, live to the end."""

    def __init__(self):
        super().__init__()
        self.inner = KeepingNet()

    def forward(self, x):
        out, kept = self.inner(x)
        result = widened(out)
        return result


class ContainersNet(nn.Module):
    """256 numbers a sample. A tuple holds two tensors until it is let go, one changed in place."""

    def forward(self, x):
        pair = (x + 1, x * 2)
        pair[1].add_(1)
        y = pair[0][:, :128] + pair[1][:, 128:]
        pair = None
        z = y * 2
        return z


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 10))
    path = lambda name: os.path.join(HERE, name)
    torch.save(net.state_dict(), path("state_dict.pt"))
    torch.save({"epoch": 3, "state_dict": net.state_dict()}, path("checkpoint.pt"))
    torch.save(net, path("module.pt"))
    torch.save(
        net.state_dict(), path("legacy_state_dict.pt"), _use_new_zipfile_serialization=False
    )
    tied = nn.Linear(6, 6, bias=False)
    torch.save(collections.OrderedDict(a=tied.weight, b=tied.weight), path("tied.pt"))
    torch.save([1, 2, 3], path("list.pt"))
    inputs = [("x", [256], torch.float32)]
    norm = nn.Sequential(nn.Linear(256, 8), nn.BatchNorm1d(8))  # which needs more than one sample
    export_model.save_script(torch.jit.script(norm), inputs, path("norm_net.pt"))
    for net, name in (
        (VariablesNet(), "variables_net.pt"),
        (ObjectsNet(), "objects_net.pt"),
        (ContainersNet(), "containers_net.pt"),
    ):
        net = export_model.FirstTensor(net)
        script = export_model.Lives(net).trace((torch.zeros(2, 256),))
        export_model.save_script(script, inputs, path(name))


if __name__ == "__main__":
    main()
