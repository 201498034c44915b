"""A training script with measure_run.py's two added lines: three steps of ResNet-50.

    python data/certified/measured_resnet50.py OUT.jsonl BATCH
"""
import os
import sys

import torch
import torchvision

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from measure_run import measured

path, batch = sys.argv[1], int(sys.argv[2])
with measured(path, model="resnet50", batch=batch, optimizer="adamw", precision="fp32"):
    model = torchvision.models.resnet50(weights=None).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        images = torch.zeros(batch, 3, 224, 224).cuda()
        labels = torch.zeros(batch, dtype=torch.long).cuda()
        optimizer.zero_grad()
        output = model(images)
        loss = torch.nn.functional.cross_entropy(output, labels)
        loss.backward()
        optimizer.step()
print("peaks", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
