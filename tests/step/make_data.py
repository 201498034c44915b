#!/usr/bin/env python3
"""Makes data/: files of torch.save that are no TorchScript. Needs torch; run by hand."""

import collections
import os

import torch
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


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


if __name__ == "__main__":
    main()
