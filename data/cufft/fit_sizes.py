#!/usr/bin/env python3
"""Reads off measured cuFFT plans which sizes one kernel transforms, and judges the rule of the work area (docs/stand_ins.md).

usage: fit_sizes.py PLANS... > h200.sizes
       fit_sizes.py --judge PLANS...          # sizes from every second plan, the rule judged on the others
       fit_sizes.py --judge-on NEW PLANS...   # sizes from PLANS, the rule judged on those of NEW that are not in PLANS

PLANS: lines `rank n0 n1 n2 type element batch layout bytes status`, as measure_plans.py writes them. The rule is that of
src/vgpu/cufft_work_area.cc, written a second time.
"""
import ast
import collections
import math
import sys

ONE, MORE, OTHER = 0, 1, 2  # kernels of a size: one; several, through a buffer of the signal; Bluestein's algorithm in memory
Plan = collections.namedtuple("Plan", "sizes kind element batch layout bytes")


def largest_prime(n):
    prime, p = 1, 2
    while p * p <= n:
        while n % p == 0:
            n, prime = n // p, p
        p += 1
    return max(n, prime)


def layout_of(kind, sizes, batch, layout):
    """The suffix that src/vgpu/cufft.cc would give; None: no use."""
    if layout is None:
        return ""
    (embed, stride, distance), (out_embed, out_stride, out_distance) = layout
    if out_stride != 1:  # both sides strided: no program asks for it, but complex signals lie as in an outer dimension
        return "-strided" if kind == "c2c" and len(sizes) == 1 else None
    *outer, last = sizes
    ins, outs = (*outer, last // 2 + 1 if kind == "c2r" else last), (*outer, last // 2 + 1 if kind == "r2c" else last)
    if tuple(embed[1:len(sizes)]) != ins[1:]:
        return None
    if batch == 1 or distance == math.prod(ins) * stride:
        name = "" if stride == 1 else "-strided"
    elif distance == 1 and stride == batch:
        name = "-columns"
    elif stride == 1 and len(sizes) == 1 and distance == max(1, sizes[0] // 4):
        name = "-frames"
    else:
        return None
    for shape, suffix in ((outs, ""), (sizes, "-padded")):
        if tuple(out_embed[1:len(sizes)]) == shape[1:] and (batch == 1 or out_distance == math.prod(shape)):
            return name + suffix
    return None


def read(paths):
    """Every plan once: random ones repeat."""
    plans = {}
    for path in paths:
        for line in open(path, encoding="utf-8"):
            words = line.split()
            sizes, kind, element, batch = tuple(map(int, words[1:1 + int(words[0])])), words[4], int(words[5]), int(words[6])
            layout = layout_of(kind, sizes, batch, None if words[7] == "simple" else ast.literal_eval(words[7]))
            if words[9] == "0" and layout is not None:
                plan = Plan(sizes, kind, element, batch, layout, int(words[8]))
                if plans.setdefault(plan[:-1], plan) != plan:
                    sys.exit(f"{plan} is also measured as {plans[plan[:-1]].bytes}")
    return list(plans.values())


def by_batch(plan):
    """Sizes that become one kernel's at some batch above 64."""
    return plan.element == 4 and plan.batch > 64 and plan.sizes in ([(32768,)] if plan.kind == "c2c" else [(32768,), (65536,)])


def places(plan):
    """The table and the size of each dimension."""
    *outer, inner = plan.sizes
    layout = "" if outer and plan.kind == "c2c" else plan.layout  # as if an outer one, that came first, had packed them
    return [("c2c-strided", n) for n in outer] + [(plan.kind + layout, inner)]


def measured(plan):
    """Whether plans of several dimensions in that layout were."""
    dimensions = len(plan.sizes)
    if dimensions == 1:
        return True
    return 1 not in plan.sizes and (plan.layout == "" or (plan.element == 4 and (
        plan.layout == "-padded" or (plan.layout == "-columns" and dimensions == 2))))


def fit(plans):
    table = collections.defaultdict(dict)

    def put(place, element, n, kernels):
        if table[place, element].setdefault(n, kernels) != kernels:
            sys.exit(f"{place} of {element} bytes: {n} is measured as {table[place, element][n]} and as {kernels}")

    for plan in plans:
        if by_batch(plan):
            continue
        if plan.bytes == 0:
            for place, n in places(plan):
                put(place, plan.element, n, ONE)
        elif len(plan.sizes) == 1:
            buffer = plan.batch * plan.sizes[0] * 2 * plan.element
            put(*places(plan)[0][:1], plan.element, plan.sizes[0], MORE if plan.kind != "c2c" or plan.bytes == buffer else OTHER)
    for plan in plans:  # where one dimension alone can be what needs the work area
        if plan.bytes and len(plan.sizes) > 1:
            suspects = {(place, n) for place, n in places(plan) if table[place, plan.element].get(n) != ONE}
            if len(suspects) == 1:
                place, n = suspects.pop()
                put(place, plan.element, n, MORE)
    return table


def known(table, place, element, n):
    kernels = table[place, element].get(n)
    if kernels is None and n <= {4: 4096, 8: 2048}.get(element, 0):
        prime = largest_prime(n)
        if place == "c2c" and (prime > 127 or (element == 4 and prime <= 7)):
            return ONE
        if place in ("r2c", "c2r") and n > 128 and prime > 31:
            return MORE
    return None if kernels == OTHER else kernels


def round_up(count):
    return -(-count // 1024) * 1024


def work_area(table, plan):
    """Bytes, or None."""
    *outer, inner = plan.sizes
    element, number = plan.element, 2 * plan.element
    kernels = [known(table, place, element, n) for place, n in places(plan)]
    if by_batch(plan) or None in kernels or not measured(plan):
        return None
    rows = math.prod(outer)
    spectrum = plan.batch * rows * (inner if plan.kind == "c2c" else inner // 2 + 1) * number
    if plan.kind == "c2c" or kernels[-1] == ONE:
        return spectrum if MORE in kernels else 0
    if inner % 2 == 0:
        if largest_prime(inner) > 127 and inner > 16384 // element:
            return None
        half = known(table, "c2c", element, inner // 2)
        if half is None:
            return None
        return spectrum if half == MORE or MORE in kernels[:-1] else plan.batch * rows * inner // 2 * number
    whole = known(table, "c2c", element, inner)
    if whole is None:
        return None
    pairs = (plan.batch + 1) // 2 * rows * number
    second = pairs * (inner + whole)
    if plan.kind == "c2r" and MORE in kernels[:-1]:
        second = max(second, spectrum)
    return pairs * inner + round_up(second)


def judge(table, plans):
    counts = collections.defaultdict(collections.Counter)
    for plan in plans:
        answer = work_area(table, plan)
        verdict = "not known" if answer is None else "equal" if answer == plan.bytes else "DIFFERENT"
        unseen = any(n not in table[place, plan.element] for place, n in places(plan))
        for key in (f"{len(plan.sizes)}-D {plan.kind} {plan.element}{plan.layout}", "all") + (("by rule alone",) if unseen else ()):
            counts[key][verdict] += 1
    for key in sorted(counts):
        print(f"{key:24}", ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts[key].items())))


def ranges(numbers):
    """2-5 7 9-11"""
    words = []
    for n in sorted(numbers):
        if words and words[-1][1] == n - 1:
            words[-1][1] = n
        else:
            words.append([n, n])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in words)


def write(plans):
    table = fit(plans)
    print("# memmodel cuFFT sizes 1; compute capability 90; source: "
          f"{len(plans)} plans of cuFFT 12.0, made on an NVIDIA H200")
    for (place, element), sizes in sorted(table.items()):
        for word, kernels in (("one", ONE), ("more", MORE)):
            if numbers := [n for n, k in sizes.items() if k == kernels]:
                print(place, element, word, ranges(numbers))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--judge"]:
        measured_plans = read(sys.argv[2:])
        judge(fit(measured_plans[::2]), measured_plans[1::2])
    elif sys.argv[1:2] == ["--judge-on"]:
        known_plans = read(sys.argv[3:])
        judge(fit(known_plans), sorted(set(read(sys.argv[2:3])) - set(known_plans)))
    else:
        write(read(sys.argv[1:]))
