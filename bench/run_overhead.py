"""What `memmodel run` of a training script costs beside `import torch`.

usage: run_overhead.py [--memmodel PROGRAM] [--python PYTHON] [--repeats 5]

Runs three scripts in turn under `memmodel run --gpu h200`: one that imports torch, one that also makes torchvision's
ResNet-50 on the CPU and its optimizer (a script's own set-up), one that trains three steps of it at batch 16. Prints
medians of wall time and of processor time (of all processes; the one to go by on a busy machine), in seconds, and the
whole beside twice the import plus the set-up. The host time of a single step, here and on a real GPU, is measured by
data/certified/step_host_time.py.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

IMPORT = "import torch\n"
SET_UP = IMPORT + """
import torchvision
model = torchvision.models.resnet50()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""
TRAIN = SET_UP + """
model.cuda()
images = torch.zeros(16, 3, 224, 224, device="cuda")
labels = torch.zeros(16, dtype=torch.long, device="cuda")
while True:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
"""


def seconds(command):
    """(wall, processor) time."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--memmodel", default="memmodel")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    times = {"import": [], "set-up": [], "whole": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.repeats + 1):
            for name, text in zip(times, (IMPORT, SET_UP, TRAIN)):
                path = os.path.join(folder, name + ".py")
                with open(path, "w") as file:
                    file.write(text)
                times[name].append(seconds([arguments.memmodel, "run", "--gpu", "h200", "--", arguments.python, path]))
    for index, what in enumerate(("wall", "processor")):
        # The first round fills the disk's cache and cuDNN's kept answers.
        middle = {name: statistics.median(t[index] for t in found[1:]) for name, found in times.items()}
        own = middle["set-up"] - middle["import"]
        print("%-10s import torch %.2f s, own set-up %.2f s, whole run %.2f s: %.2f times twice the import plus set-up" % (
            what, middle["import"], own, middle["whole"], middle["whole"] / (2 * middle["import"] + own)))


if __name__ == "__main__":
    main()
