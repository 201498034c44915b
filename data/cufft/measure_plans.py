#!/usr/bin/env python3
"""Asks cuFFT on a GPU for the work areas of plans, in the layouts that torch.fft asks for. Needs torch.

usage: measure_plans.py OUT SECONDS [PROCESSES]

Lines: `rank n0 n1 n2 type element batch layout bytes status`: sizes of the real signal (0 where unused), c2c, r2c or c2r,
bytes of a real number, `simple` or ((inembed),istride,idist),((onembed),ostride,odist), the work area, the cufftResult.
In random order, so that what SECONDS leave out is spread over all.
"""
import ctypes
import math
import multiprocessing
import queue
import random
import sys
import time

REAL, COMPLEX = {4: 0, 8: 1, 2: 2}, {4: 4, 8: 5, 2: 6}  # cudaDataType
KINDS = ("c2c", "r2c", "c2r")


def layout(kind, sizes, batch, stride=1, distance=None, padded=False):
    """As torch describes a packed output and an input whose elements lie `stride` apart."""
    half = (*sizes[:-1], sizes[-1] // 2 + 1)
    ins = half if kind == "c2r" else sizes
    outs = half if kind == "r2c" and not padded else sizes
    if distance is None:
        distance = math.prod(ins) * stride
    return ((tuple(ins), stride, distance), (tuple(outs), 1, math.prod(outs)))


def plans():
    chance = random.Random(2)
    wanted = []

    def add(kind, sizes, element, batch, how=None):
        if math.prod(sizes) * batch * 2 * element < 1 << 32:
            wanted.append((sizes, kind, element, batch, how))

    for kind in KINDS:
        for n in range(2, 4097):
            add(kind, (n,), 4, 7)
            if n <= 2048:
                add(kind, (n,), 8, 7)
        for n in range(2, 1025):
            add(kind, (n,), 4, 64, layout(kind, (n,), 64, stride=64, distance=1))
        for _ in range(1000):  # large batches
            n = chance.choice([chance.randint(2, 1024), 2 ** chance.randint(1, 11), chance.choice([14, 28, 56, 400, 480, 768, 1200])])
            add(kind, (n,), 4, chance.choice([1001, 4096, 6144, 12800, 50000]))
        for _ in range(500):
            n = chance.randint(2, 2048)
            batch = chance.choice([2, 7, 64, 4096])
            add(kind, (n,), 4, batch, layout(kind, (n,), batch))
            if kind != "c2r":
                add(kind, (n,), 4, batch, layout(kind, (n,), batch, distance=max(1, n // 4)))
        for _ in range(1500):  # channels last, a batch of one
            sizes = tuple(chance.choice([chance.randint(2, 256), 2 ** chance.randint(1, 8), 14, 28, 56, 112, 224]) for _ in range(2))
            batch = chance.choice([3, 16, 64, 384])
            add(kind, sizes, 4, batch, layout(kind, sizes, batch, stride=batch, distance=1))
            add(kind, sizes, 4, chance.choice([1001, 2048, 6144]))
    for n in range(2, 2049):
        add("c2c", (n, 16), 4, 2)
        if n <= 1024:
            add("c2c", (n, 16), 8, 2)
            add("r2c", (n,), 4, 7, layout("r2c", (n,), 7, padded=True))
    for _ in range(2000):
        sizes = tuple(chance.choice([chance.randint(2, 256), 2 ** chance.randint(1, 9), 14, 28, 56, 112, 224]) for _ in range(chance.choice([2, 3])))
        batch = chance.choice([1, 2, 7, 64])
        add("r2c", sizes, 4, batch, layout("r2c", sizes, batch, padded=True))
        if len(sizes) == 2:
            n, columns = sizes
            add("r2c", (n,), 4, columns, layout("r2c", (n,), columns, stride=columns, distance=1, padded=True))
    chance.shuffle(wanted)
    return wanted


def measure(share, seconds, answers):
    import torch
    torch.zeros(1, device="cuda")
    library = ctypes.CDLL("libcufft.so." + ("12" if torch.version.cuda.startswith("13") else "11"))  # the one that torch has loaded
    number = ctypes.c_longlong

    def three(values):
        return (number * 3)(*values, *[0] * (3 - len(values)))

    end = time.time() + seconds
    for sizes, kind, element, batch, how in share:
        if time.time() > end:
            break
        plan, work = ctypes.c_int(), ctypes.c_size_t(0)
        library.cufftCreate(ctypes.byref(plan))
        library.cufftSetAutoAllocation(plan, 0)
        in_type = REAL[element] if kind == "r2c" else COMPLEX[element]
        out_type = REAL[element] if kind == "c2r" else COMPLEX[element]
        sides = [(None, number(1), number(1)) if how is None else (three(side[0]), number(side[1]), number(side[2])) for side in how or (0, 0)]
        status = library.cufftXtMakePlanMany(plan, len(sizes), three(sizes), *sides[0], in_type, *sides[1], out_type, number(batch),
                                             ctypes.byref(work), COMPLEX[element])
        library.cufftDestroy(plan)
        words = [len(sizes), *sizes, *[0] * (3 - len(sizes)), kind, element, batch, "simple" if how is None else repr(how).replace(" ", "")]
        answers.put(" ".join(map(str, [*words, work.value, status])))
    answers.put(None)


def main():
    out, seconds, processes = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 14
    wanted = plans()
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [context.Process(target=measure, args=(wanted[k::processes], seconds, answers), daemon=True) for k in range(processes)]
    for worker in workers:
        worker.start()
    lines, running = [], processes
    with open(out, "w", encoding="utf-8") as file:
        while running:
            try:
                line = answers.get(timeout=seconds + 90)
            except queue.Empty:
                break  # a process died
            if line is None:
                running -= 1
            else:
                lines.append(line)
                file.write(line + "\n")
    print(f"{len(lines)} of {len(wanted)} plans")


if __name__ == "__main__":
    main()
