#!/usr/bin/env python3
"""Fits the workspaces of cublasLt's algorithms to measured convolution plans (docs/cudnn.md).

usage: fit_matmuls.py PLANS JUDGES > hopper.matmuls

PLANS: lines `op type N C H W K R S padH padW strideH strideW dilationH dilationW groups channels_last
BYTES ENGINE WORKSPACE` of 1x1 convolutions in the engines that call cublasLt (forward 58, backward
data 63, backward filter 62), asked with a handle on the GPU; WORKSPACE is that knob's value.
JUDGES: lines that begin as those do. A layer (sizes without the batch) that stands there is left out of the fit.

For each kind of product and each way its factors are transposed: formulas that explain most of the rows are
chosen, a random forest learns which of them holds where, and one decision tree is fitted to the rows and to what the
forest says of others like them (a forest is right more often than a tree, but too large to ship). Takes a few minutes. Needs numpy and scikit-learn.
"""
import sys

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

MULTIPROCESSORS = 132  # of the GPU that was measured
LIMITS = np.array([0, 4 << 20, 128 << 20])  # by the knob WORKSPACE
LEAVES, LEAST_ROWS = 600, 3  # of each tree
FOREST_TREES = 20
LIKE_THEM = 4  # rows made up for each measured one
FORMULAS, LEAST_SHARE = 40, 0.002  # of each tree, and of the rows that a formula adds
SAMPLE = 4000  # rows that choose a tree's formulas
TILES = [(64, 64), (128, 128), (128, 64), (64, 128), (128, 256), (256, 128)]
SPLIT_TILES = TILES + [(64, 256), (256, 64), (32, 128), (128, 32), (32, 32), (64, 32), (32, 64), (128, 192), (192, 128),
                       (96, 128), (128, 96), (16, 32), (32, 16)]
DEPTHS = (4, 16, 32, 48, 64, 96, 128, 192, 256, 320, 512, 640, 1280)
AUTO = 0  # steps of 32 where K is a multiple of it, else of 4
NO_CAP = 1 << 20
BLOCKS = (60, 66, 120, 128, 132, 240, 256, 264)  # as many as run at once, alone or in clusters


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


def row(word):
    m = matmul(word)
    # What is cuDNN's own: one float sum for each image and weight.
    own = 4 * m[0] * m[1] * m[3] if word[0] == "wgrad" and word[16] == "0" else 0
    return (*m, int(word[19]), int(word[17]) - own, own)


def read(plans, judges):
    left_out = {tuple(line.split()[3:16]) for line in open(judges)}
    words = (line.split() for line in open(plans))
    return np.array([row(word) for word in words if tuple(word[3:16]) not in left_out and word[19] != "0"], dtype=np.int64)


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
    yield "fixed 0", np.zeros(len(a), np.int64)
    yield "fixed 16", np.full(len(a), 16)
    yield "fixed 144", np.full(len(a), 144)
    if batched:
        return
    for rows, cols in TILES:
        yield f"counters {rows} {cols}", 4 * ceil(m, rows) * ceil(n, cols)
    for parts in (1, 2, 3, 4, 5, 7, 9, 13, 16, 19, 24, 27, 33, 36, 44, 66, 132, 264):
        yield f"parts {parts}", 4 * parts * m * n
    for parts in (8, 16, 128):
        yield f"vector {parts}", 4 * parts * m * n + 16
    half = a[0, 6] == 2
    for rows, cols in SPLIT_TILES:
        t = ceil(m, rows) * ceil(n, cols)
        choices = [(w, d, s, NO_CAP) for w in ((1, 2) if rows * cols > 4096 else (1, 2, 3, 4, 8)) for d in DEPTHS
                   for s in (AUTO, 1, 16, 32, 64)]
        choices += [(w, d, s, cap) for w in (1, 2, 4) for d in (4, 64) for s in (AUTO, 4, 8, 32) for cap in (16, 36, 66, 128)]
        if rows == cols == 64:
            choices += [(NO_CAP, 4, s, cap) for s in (AUTO, 4) for cap in (*range(2, 15), 16, 18, 20, 22, 24, 33, 36, 44, 66, 131, 132)]
        choices = [(*choice, 0) for choice in choices]
        if half:
            choices += [(w, 1280, 1, NO_CAP, less) for w in (1, 2) for less in (1, 2, 3)]
        for waves, depth, step, cap, less in choices:
            s = np.minimum(np.minimum(waves * MULTIPROCESSORS // t, k // depth), cap) - less
            if step != 1:
                steps = ceil(k, step if step != AUTO else np.where(k % 32 == 0, 32, 4))
                s = np.where(s < 2, 0, ceil(steps, ceil(steps, np.maximum(s, 1))))
            else:
                s = np.where(s < 2, 0, s)
            for size in (4, 2) if half else (4,):
                yield f"split {waves} {rows} {cols} {depth} {step} {cap} {less} {size} 1", s * m * n * size
                if half:
                    yield f"split {waves} {rows} {cols} {depth} {step} {cap} {less} {size} 32", s * ceil(m, 32) * 32 * n * size + 16 * (s > 0)
    for rows, cols in TILES + [(64, 256), (256, 64), (256, 256)]:
        t = ceil(m, rows) * ceil(n, cols)
        for u in BLOCKS:
            rest = t % u
            partial = {f"stream {u} {rows} {cols} {least}": np.minimum(u, t * (ceil(k, 32) // least)) for least in (8, 16, 32, 33, 40)}
            partial[f"whole {u} {rows} {cols}"] = np.where(t <= u, u // t * t, u)
            for most in (2, 3, 4, NO_CAP):
                partial[f"fill {u} {rows} {cols} {most}"] = np.minimum(u // np.maximum(rest, 1), most) * rest
            for times in (2, 3, 4):
                partial[f"times {u} {rows} {cols} {times}"] = times * rest
            for name, count in partial.items():
                yield name, count * rows * cols * 4 + np.where(count > 0, 272, 0)


def asked(value, limit):
    """What cuDNN asks for, in blocks of 512 bytes: multiples of 16, and 256 to align."""
    value = np.where(value > limit, 0, value)
    return np.where(value > 0, ceil(value, 16) * 16 + 256, 0)


def explained(a, batched, wanted=None):
    """Names of formulas, and for each whether it gives the rows' bytes: after rounding to 512, and exactly."""
    limit, own = LIMITS[a[:, 10]], a[:, 12]
    target = ceil(a[:, 11] + own, 512)
    names, table, equal = [], [], []
    for name, value in formulas(a, batched):
        if wanted is None or name in wanted:
            names.append(name)
            value = asked(value, limit)
            table.append(ceil(value + own, 512) == target)
            equal.append(value == a[:, 11])
    return names, np.stack(table), np.stack(equal)


def choose(a, batched):
    """Few formulas that explain most rows: each time the one that explains the most that is left, to the byte if it can."""
    a = a[np.random.RandomState(0).permutation(len(a))[:SAMPLE]]
    names, table, equal = explained(a, batched)
    left, used = np.ones(len(a), bool), []
    while len(used) < FORMULAS:
        counts = (table & left).sum(1)
        best = (counts + (equal & left).sum(1) / (1 + len(a))).argmax()
        if counts[best] < max(5, LEAST_SHARE * len(a)):
            break
        left &= ~table[best]
        used.append(names[best])
    return used


def like_them(a, random):
    """Rows with one of m, n, k and the batch taken from another row."""
    made = np.concatenate([a] * LIKE_THEM)
    others, column = a[random.randint(len(a), size=len(made))], random.randint(4, size=len(made))
    for i in range(4):
        made[column == i, i] = others[column == i, i]
    return made


def fit(a, batched):
    """Lines of the tree for rows of one kind, transposed alike."""
    used = choose(a, batched)
    names, table, _ = explained(a, batched, set(used))
    table = table[[names.index(name) for name in used]]
    known = table.any(0)
    a, label = a[known], table[:, known].argmax(0)
    keys, x = features(a)
    forest = RandomForestClassifier(FOREST_TREES, max_features=None, min_samples_leaf=2, random_state=0).fit(x, label)
    _, made = features(like_them(a, np.random.RandomState(0)))
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=LEAST_ROWS, random_state=0)
    tree.fit(np.concatenate([x, made]), np.concatenate([label, forest.predict(made)]))
    return lines(keys, used, tree)


def split(feature, threshold, below, above):
    return below if len(below) == 1 and below == above else [f"? {feature} {threshold:.8g}"] + below + above


def lines(keys, used, tree, node=0):
    t = tree.tree_
    if t.children_left[node] < 0:
        return ["= " + used[int(tree.classes_[t.value[node][0].argmax()])]]
    return split(keys[t.feature[node]], t.threshold[node], lines(keys, used, tree, t.children_left[node]),
                 lines(keys, used, tree, t.children_right[node]))


def main():
    rows = read(sys.argv[1], sys.argv[2])
    print(f"# memmodel matmul workspaces 2; compute capability 90; source: fitted to {len(rows)} plans of cuDNN 9.19 with cuBLAS 13.1, "
          "asked with a handle on an NVIDIA H200, driver 580.159")
    aligned = (rows[:, 7] % 16 == 0) & (rows[:, 8] % 16 == 0) & (rows[:, 9] % 16 == 0)
    for size in (4, 2):
        for tensor_maps in (1, 0):
            for batched in (0, 1):
                for knob in (1, 2):
                    some = rows[(rows[:, 6] == size) & (aligned == tensor_maps) & ((rows[:, 3] > 1) == batched) & (rows[:, 10] == knob)]
                    neither, second, first = (fit(some[(some[:, 4] == ta) & (some[:, 5] == tb)], batched)
                                              for ta, tb in ((0, 0), (0, 1), (1, 0)))
                    print(f"tree {size} {tensor_maps} {batched} {LIMITS[knob]}")
                    print("\n".join(split("ta", 0.5, split("tb", 0.5, neither, second), first)))


if __name__ == "__main__":
    main()
