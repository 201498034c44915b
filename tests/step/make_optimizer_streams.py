#!/usr/bin/env python3
"""Makes data/optimizer_streams.txt and its networks: what Python's torch.optim of torch 2.11
asks of the caching allocator on the CUDA device that torch sees, a real or a virtual one (no
kernel's result and no device property decides any of these requests). Run by hand.

A line of the file: members of the job as JSON, and the requests (a) and releases (f) of the
optimizer's part of steps 1 and 2, with their sizes in units of 512 bytes.
"""

import json
import os
import sys
from multiprocessing import get_context

import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "scripts"))
BATCH = 16


class Net(nn.Module):
    """Tensors of sizes that tell them apart; Muon takes matrices alone."""

    def __init__(self, matrices_only: bool):
        super().__init__()
        bias = not matrices_only
        self.a = nn.Linear(64, 300, bias=bias)
        self.norm = nn.Identity() if matrices_only else nn.LayerNorm(300)
        self.b = nn.Linear(300, 200, bias=bias)
        self.c = nn.Linear(200, 130, bias=bias)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.norm(self.a(x))))))


CLASSES = {
    "sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "adagrad": "Adagrad",
    "nadam": "NAdam", "radam": "RAdam", "adamax": "Adamax", "adadelta": "Adadelta", "asgd": "ASGD",
    "rprop": "Rprop", "adafactor": "Adafactor", "muon": "Muon",
}  # fmt: skip


def cases():
    """(optimizer, its options, options of the job)"""
    decayed = {"maximize": True, "weight_decay": 0.1}
    for name in CLASSES:
        if name == "muon":
            yield name, {}, {}
            yield name, {"nesterov": False, "ns_steps": 2}, {}
            continue
        for foreach in (True, False):
            if name == "asgd" and not foreach:
                yield name, {"foreach": False, "capturable": True}, {}
                continue
            yield name, {"foreach": foreach}, {}
            if name != "rprop":
                yield name, {"foreach": foreach, "weight_decay": 0.1}, {}
                yield name, {"foreach": foreach, **decayed}, {}
            # (ASGD's loop branches on a value that only a real GPU has.)
            if name not in ("sgd", "adagrad", "adafactor"):
                yield name, {"foreach": foreach, "capturable": True}, {}
    for foreach in (True, False):
        yield "sgd", {"foreach": foreach, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {}
        yield "adam", {"foreach": foreach, "amsgrad": True}, {}
        yield "rmsprop", {"foreach": foreach, "centered": True, "momentum": 0.9}, {}
    for name in ("sgd", "adam", "adamw"):
        yield name, {"fused": True}, {}
    for name, options in (("sgd", {"momentum": 0.9}), ("adamw", {}), ("adamw", {"fused": True})):
        yield name, options, {"clip_grad_norm": 1.0}
        yield name, options, {"precision": "amp-fp16"}
        yield name, options, {"precision": "amp-fp16", "clip_grad_norm": 1.0}
        yield name, options, {"precision": "bf16"}


def record(name, options, job, pipe):
    torch.set_num_threads(1)
    net = Net(name == "muon").train()
    dtype = torch.bfloat16 if job.get("precision") == "bf16" else torch.float32
    scaler = torch.amp.GradScaler("cuda") if job.get("precision") == "amp-fp16" else None
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=1 << 20)
    net = net.to("cuda", dtype)
    optimizer = getattr(torch.optim, CLASSES[name])(net.parameters(), **options)
    events = lambda: torch.cuda.memory._snapshot()["device_traces"][0]
    parts = []
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        x = torch.zeros(BATCH, 64, dtype=dtype, device="cuda")
        y = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        with torch.autocast("cuda", torch.float16, enabled=scaler is not None):
            loss = F.cross_entropy(net(x), y)
        (scaler.scale(loss) if scaler else loss).backward()
        start = len(events())
        if "clip_grad_norm" in job:
            if scaler:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), job["clip_grad_norm"])
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        kinds = {"alloc": "a", "free_requested": "f"}
        parts.append(
            " ".join(
                f"{kinds[e['action']]}{(e['size'] + 511) // 512}"
                for e in events()[start:]
                if e["action"] in kinds
            )
        )
        del x, y, loss
    pipe.send(parts)


def main():
    import export_model

    for file, matrices_only in (("linear_net.pt", False), ("matrix_net.pt", True)):
        script = torch.jit.script(Net(matrices_only).train())
        export_model.hollow(script)
        script.save(os.path.join(HERE, file))
    context = get_context("fork")
    path = os.path.join(HERE, "optimizer_streams.txt")
    known = {}
    if os.path.exists(path):
        with open(path) as file:
            known = {line.split("\t")[0]: line for line in file}
    with open(path, "w") as out:
        for name, options, job in cases():
            members = json.dumps({"optimizer": {"name": name, "options": options}, **job})
            if members in known:  # goes on where it was stopped
                out.write(known[members])
                continue
            receiver, sender = context.Pipe(False)
            child = context.Process(target=record, args=(name, options, job, sender))
            child.start()
            sender.close()
            try:
                out.write("\t".join((members, *receiver.recv())) + "\n")
                out.flush()
            except EOFError:
                print(f"{members}: failed", file=sys.stderr)
            child.join()


if __name__ == "__main__":
    main()
