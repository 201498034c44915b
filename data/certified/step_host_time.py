#!/usr/bin/env python3
"""Host time of one training step of ResNet-50 (batch 16, eager, in Python), in milliseconds.

    data/certified/step_host_time.py [BATCH]                              on the GPU
    memmodel run --steps 0 --gpu h200 -- python data/certified/step_host_time.py   on the virtual one

Two figures a setting: from a synchronised start until the last launch has returned, and until the GPU
is done. Median, smallest and largest of 30 steps after 10.
"""
import statistics
import sys
import time

import torch
import torchvision

batch = int(sys.argv[1]) if len(sys.argv) > 1 else 16
print("torch", torch.__version__, torch.cuda.get_device_name(0), "threads", torch.get_num_threads(), file=sys.stderr)
for name, optimizer, amp in (("sgd fp32", lambda p: torch.optim.SGD(p, lr=1e-4, momentum=0.9), False),
                             ("adamw fp32", torch.optim.AdamW, False),
                             ("adamw amp-bf16", torch.optim.AdamW, True)):
    model = torchvision.models.resnet50(weights=None).cuda().train()
    step = optimizer(model.parameters())
    images = torch.zeros(batch, 3, 224, 224, device="cuda")
    labels = torch.zeros(batch, dtype=torch.long, device="cuda")
    launched, done = [], []
    for _ in range(40):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        step.step()
        launched.append(1e3 * (time.perf_counter() - start))
        torch.cuda.synchronize()
        done.append(1e3 * (time.perf_counter() - start))
    for what, times in (("last launch returned", launched[10:]), ("synchronised", done[10:])):
        print("%-14s batch %d  %-20s median %.2f ms  min %.2f  max %.2f" % (
            name, batch, what, statistics.median(times), min(times), max(times)), file=sys.stderr)
