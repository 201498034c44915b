#!/usr/bin/env python3
"""Fits the workspaces of cublasLt's algorithms to measured convolution plans (docs/cudnn.md).

usage: fit_matmuls.py PLANS JUDGES > hopper.matmuls

PLANS: lines `op type N C H W K R S padH padW strideH strideW dilationH dilationW groups channels_last
BYTES ENGINE WORKSPACE` of 1x1 convolutions in the engines that call cublasLt (forward 58, backward
data 63, backward filter 62), asked with a handle on the GPU; WORKSPACE is that knob's value.
JUDGES: lines that begin as those do. A layer (sizes without the batch) that stands there is left out of the fit.

For each kind of product a decision tree picks a formula of the bytes. Needs numpy and scikit-learn.
"""
import sys

import numpy as np
from sklearn.tree import DecisionTreeClassifier

MULTIPROCESSORS = 132  # of the GPU that was measured
LIMITS = np.array([0, 4 << 20, 128 << 20])  # by the knob WORKSPACE
LEAVES, LEAST_ROWS = 100, 3  # of each tree
TILES = [(64, 64), (128, 128), (128, 64), (64, 128), (128, 256), (256, 128)]
SPLIT_TILES = TILES + [(64, 256), (256, 64), (32, 128), (128, 32), (32, 32), (64, 32), (32, 64), (128, 192), (192, 128),
                       (96, 128), (128, 96), (16, 32), (32, 16)]
DEPTHS = (4, 16, 32, 48, 64, 96, 128, 192, 256, 320, 512, 640, 1280)
NO_CAP = 1 << 20


def ceil(a, b):
    return -(-a // b)


def matmul(word):
    """m, n, k, batch, transpose_a, transpose_b, bytes of an element, row bytes of a, b and d, as cuDNN asks for them."""
    n, c, h, w, k = map(int, word[2:7])
    last, pixels, e = word[16] == "1", h * w, 4 if word[1] == "f32" else 2
    if word[0] == "fwd":
        return (k, n * pixels, c, 1, 1, 0, e, c * e, c * e, k * e) if last or pixels == 1 else (
            pixels, k, c, n, 0, 0, e, pixels * e, c * e, pixels * e)
    if word[0] == "dgrad":
        return (c, n * pixels, k, 1, 0, 0, e, c * e, k * e, c * e) if last or pixels == 1 else (
            pixels, c, k, n, 0, 1, e, pixels * e, c * e, pixels * e)
    return (c, k, n * pixels, 1, 0, 1, e, c * e, k * e, c * e) if last else (c, k, pixels, n, 1, 0, e, pixels * e, pixels * e, c * 4)


def read(plans, judges):
    left_out = {tuple(line.split()[3:16]) for line in open(judges)}
    rows = []
    for line in open(plans):
        word = line.split()
        if tuple(word[3:16]) in left_out or word[19] == "0":
            continue
        m = matmul(word)
        # What is cuDNN's own: one float sum for each image and weight.
        own = 4 * m[0] * m[1] * m[3] if word[0] == "wgrad" and word[16] == "0" and (word[1] != "f32" or m[3] > 1) else 0
        rows.append((*m, int(word[19]), int(word[17]) - own, own))
    return np.array(rows, dtype=np.int64)


def features(a):
    m, n, k, batch, ta, tb = (a[:, i] for i in range(6))
    multiple = lambda x: np.minimum(x & -x, 128)
    columns = {"m": m, "n": n, "k": k, "batch": batch, "ta": ta, "tb": tb, "mn": m * n * batch, "mnk": m * n * batch * k,
               "mn/k": m * n * batch / k, "m2": multiple(m), "n2": multiple(n), "k2": multiple(k)}
    for rows, cols in TILES:
        t = ceil(m, rows) * ceil(n, cols) * batch / MULTIPROCESSORS
        columns[f"t{rows}x{cols}"] = t  # whole and broken waves
        columns[f"r{rows}x{cols}"] = t - np.floor(t)
    return list(columns), np.stack([np.asarray(c, dtype=np.float64) for c in columns.values()], 1)


def formulas(a, batched):
    """Bytes by formula: the text that the tree file has of it (src/vgpu/cublas_lt_workspace.cc)."""
    m, n, k = (a[:, i] for i in range(3))
    out = {"fixed 0": np.zeros(len(a), np.int64), "fixed 16": np.full(len(a), 16), "fixed 144": np.full(len(a), 144)}
    if batched:
        return out
    for rows, cols in TILES:
        out[f"counters {rows} {cols}"] = 4 * ceil(m, rows) * ceil(n, cols)
    for parts in (1, 2, 3, 4, 5, 7, 9, 13, 16, 19, 24, 27, 33, 36, 44, 66, 132, 264):
        out[f"parts {parts}"] = 4 * parts * m * n
    half = a[0, 6] == 2
    for rows, cols in SPLIT_TILES:
        t = ceil(m, rows) * ceil(n, cols)
        choices = [(w, d, s, NO_CAP) for w in ((1, 2) if rows * cols > 4096 else (1, 2, 3, 4, 8)) for d in DEPTHS
                   for s in (1, 16, 32, 64)]
        choices += [(w, 4, s, cap) for w in (1, 2, 4) for s in (4, 8, 32) for cap in (36, 66, 128)]
        for waves, depth, step, cap in choices:
            s = np.minimum(np.minimum(waves * MULTIPROCESSORS // t, k // depth), cap)
            if step > 1:
                steps = ceil(k, step)
                s = np.where(s < 2, 0, ceil(steps, ceil(steps, np.maximum(s, 1))))
            s = np.where(s < 2, 0, s)
            for size in (4, 2) if half else (4,):
                out[f"split {waves} {rows} {cols} {depth} {step} {cap} {size} 1"] = s * m * n * size
                if half:
                    out[f"split {waves} {rows} {cols} {depth} {step} {cap} {size} 32"] = s * ceil(m, 32) * 32 * n * size + 16 * (s > 0)
    for rows, cols in TILES:
        t = ceil(m, rows) * ceil(n, cols)
        for waves in (1, 2):
            u = waves * MULTIPROCESSORS
            for least in (8, 16, 32, 33, 40):
                out[f"stream {waves} {rows} {cols} {least}"] = np.minimum(u, t * (ceil(k, 32) // least)) * rows * cols * 4 + 272
            out[f"whole {waves} {rows} {cols}"] = np.where(t <= u, u // t * t, u) * rows * cols * 4 + 272
            out[f"rest {waves} {rows} {cols}"] = np.where(t <= u, u, t % u) * rows * cols * 4 + 272
    return out


def asked(value, limit):
    """What cuDNN asks for, in blocks of 512 bytes: multiples of 16, and 256 to align."""
    value = np.where(value > limit, 0, value)
    return np.where(value > 0, ceil(value, 16) * 16 + 256, 0)


def fit(a, batched):
    names, table, equal = [], [], []
    limit, own = LIMITS[a[:, 10]], a[:, 12]
    target = ceil(a[:, 11] + own, 512)
    for name, value in formulas(a, batched).items():
        names.append(name)
        table.append(ceil(asked(value, limit) + own, 512) == target)
        equal.append(asked(value, limit) == a[:, 11])
    table, equal = np.stack(table), np.stack(equal)
    # Few formulas that explain most rows: each time the one that explains the most that is left, to the byte if it can.
    label, left, used = -np.ones(len(a), int), np.ones(len(a), bool), []
    while len(used) < 40:
        counts = (table & left).sum(1)
        best = (counts + (equal & left).sum(1) / (1 + len(a))).argmax()
        if counts[best] < max(5, 0.003 * len(a)):
            break
        label[table[best] & left] = len(used)
        left &= ~table[best]
        used.append(names[best])
    keys, x = features(a)
    known = label >= 0
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=LEAST_ROWS, random_state=0).fit(x[known], label[known])
    return keys, used, tree


def lines(keys, used, tree, node=0):
    t = tree.tree_
    if t.children_left[node] < 0:
        return ["= " + used[int(tree.classes_[t.value[node][0].argmax()])]]
    below, above = lines(keys, used, tree, t.children_left[node]), lines(keys, used, tree, t.children_right[node])
    if len(below) == 1 and below == above:
        return below
    return [f"? {keys[t.feature[node]]} {t.threshold[node]:.9g}"] + below + above


def main():
    rows = read(sys.argv[1], sys.argv[2])
    print(f"# memmodel matmul workspaces 1; compute capability 90; source: fitted to {len(rows)} plans of cuDNN 9.19 with cuBLAS 13.1, "
          "asked with a handle on an NVIDIA H200, driver 580.159")
    aligned = (rows[:, 7] % 16 == 0) & (rows[:, 8] % 16 == 0) & (rows[:, 9] % 16 == 0)
    for size in (4, 2):
        for tensor_maps in (1, 0):
            for batched in (0, 1):
                for knob in (1, 2):
                    some = rows[(rows[:, 6] == size) & (aligned == tensor_maps) & ((rows[:, 3] > 1) == batched) & (rows[:, 10] == knob)]
                    print(f"tree {size} {tensor_maps} {batched} {LIMITS[knob]}")
                    print("\n".join(lines(*fit(some, batched))))


if __name__ == "__main__":
    main()
