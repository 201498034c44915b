#!/usr/bin/env python3
"""What training Faster R-CNN takes on the GPU, by batch: torch's own peaks and NVML's figure.

    data/certified/faster_rcnn.py OUT.jsonl 1 8 16 32

torchvision's fasterrcnn_resnet50_fpn, random weights, images of 320x320 that are not resized, four
boxes an image, SGD with momentum, three steps, each batch in a process of its own.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
SIZE = 320


def train(path, batch):
    import torch
    import torchvision
    from measure_run import measured

    torch.manual_seed(0)
    with measured(path, model="fasterrcnn_resnet50_fpn", batch=batch, optimizer="sgd", precision="fp32",
                  pixels=SIZE, step_protocol="loop"):
        model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, min_size=SIZE, max_size=SIZE).cuda().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
        images = [torch.rand(3, SIZE, SIZE, device="cuda") for _ in range(batch)]
        corner = torch.rand(batch, 4, 2, device="cuda") * SIZE / 2
        side = 16 + torch.rand(batch, 4, 2, device="cuda") * SIZE / 3
        targets = [{"boxes": torch.cat([corner[i], corner[i] + side[i]], 1),
                    "labels": torch.randint(1, 91, (4,), device="cuda")} for i in range(batch)]
        for _ in range(3):
            loss = sum(model(images, targets).values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if len(sys.argv) == 3:
    train(sys.argv[1], int(sys.argv[2]))
else:
    for size in sys.argv[2:]:
        subprocess.run([sys.executable, os.path.abspath(__file__), sys.argv[1], size], check=True)
