"""Loops over the links of graphs, node by node: what is under :mod:`sparrow.graph`.

Links come as lists: ``nodes`` (shape (m,), int32) with the links of ``nodes[k]`` at ``cols[starts[k]:stops[k]]`` (int32
nodes; ``starts`` and ``stops`` int64). A list is whole: all links of its node. What is kept for each node is an array
over all of them, which loops change in place, so they run on one thread; ``active`` says whose lists are still to be
looked at, and a loop that looks at a list takes its node out.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = [
    "both_ways", "colour", "count_triangles", "flatten", "gather", "h_index", "reach", "relax", "unite", "vote",
]  # fmt: skip

_MIXED, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
"""An odd number that spreads bits, and half of them."""


@njit(cache=True, nogil=True)
def relax(nodes, starts, stops, cols, weights, limit, distance, active):  # type: ignore[no-untyped-def]
    """Shorten the distances (float64) of nodes that lists lead to; ``weights`` of the links, or none for 1 each.

    Distances beyond ``limit`` are not taken.
    """
    weighted = len(weights) > 0
    for k in range(len(nodes)):
        active[nodes[k]] = False
        so_far = distance[nodes[k]]
        for at in range(starts[k], stops[k]):
            far = so_far + (weights[at] if weighted else 1.0)
            if far < distance[cols[at]] and far <= limit:
                distance[cols[at]] = far
                active[cols[at]] = True


@njit(cache=True, nogil=True)
def unite(nodes, starts, stops, cols, parent):  # type: ignore[no-untyped-def]
    """Join the sets of linked nodes: ``parent`` leads to the smallest node of a set, which leads to itself."""
    for k in range(len(nodes)):
        for at in range(starts[k], stops[k]):
            one, other = nodes[k], cols[at]
            while one != other:
                if one < other:
                    one, other = other, one
                # The larger one is moved on, and its path halved.
                above = parent[one]
                if above == one:
                    parent[one] = other
                    break
                parent[one] = parent[above]
                one = above


@njit(cache=True, nogil=True)
def flatten(parent):  # type: ignore[no-untyped-def]
    """Give the sets of :func:`unite` numbers in the order of their smallest nodes, in place; return how many."""
    count = 0
    for node in range(len(parent)):
        if parent[node] == node:
            parent[node] = count
            count += 1
        else:  # what leads on has been numbered
            parent[node] = parent[parent[node]]
    return count


@njit(cache=True, nogil=True)
def gather(nodes, starts, stops, cols, alive, part, leads, led, k, at, keys, filled):  # type: ignore[no-untyped-def]
    """Append links from a part to another, among nodes alive, to ``keys`` until that is full: 2^32 row + column.

    Returns the list and the link to go on with, and how many keys there are; ``leads`` and ``led`` mark the ends.
    """
    while k < len(nodes):
        if alive[nodes[k]]:
            row = part[nodes[k]]
            at = max(at, starts[k])
            while at < stops[k]:
                col = part[cols[at]]
                if col != row and alive[cols[at]]:
                    if filled == len(keys):
                        return k, at, filled
                    keys[filled] = (row << 32) | col
                    filled += 1
                    leads[row] = led[col] = True
                at += 1
        k, at = k + 1, 0
    return k, at, filled


@njit(cache=True, nogil=True)
def colour(nodes, starts, stops, cols, alive, colours, active):  # type: ignore[no-untyped-def]
    """Hand the larger colour of active nodes on along links among nodes alive, as far as these lists lead."""
    again = len(nodes) > 0
    while again:
        again = False
        for k in range(len(nodes)):
            node = nodes[k]
            if not active[node]:
                continue
            active[node] = False
            if not alive[node]:
                continue
            own = colours[node]
            for at in range(starts[k], stops[k]):
                other = cols[at]
                if alive[other] and colours[other] < own:
                    colours[other] = own
                    active[other] = True
                    again |= nodes[0] <= other <= node


@njit(cache=True, nogil=True)
def reach(nodes, starts, stops, cols, alive, colours, found, active):  # type: ignore[no-untyped-def]
    """Find what active nodes lead to among nodes alive of the same colour, as far as these lists lead."""
    again = len(nodes) > 0
    while again:
        again = False
        for k in range(len(nodes)):
            node = nodes[k]
            if not active[node]:
                continue
            active[node] = False
            own = colours[node]
            for at in range(starts[k], stops[k]):
                other = cols[at]
                if alive[other] and not found[other] and colours[other] == own:
                    found[other] = active[other] = True
                    again |= nodes[0] <= other <= node


@njit(cache=True, nogil=True)
def h_index(nodes, starts, stops, cols, core, active, tally):  # type: ignore[no-untyped-def]
    """Lower ``core`` to the largest h such that h linked nodes have at least h; ``tally`` is 0 and stays so."""
    for k in range(len(nodes)):
        node = nodes[k]
        active[node] = False
        most = core[node]
        for at in range(starts[k], stops[k]):
            tally[min(core[cols[at]], most)] += 1
        have, h = 0, most
        while h > 0:
            have += tally[h]
            if have >= h:
                break
            h -= 1
        tally[: most + 1] = 0
        if h < most:
            core[node] = h
            for at in range(starts[k], stops[k]):
                if core[cols[at]] > h:
                    active[cols[at]] = True


@njit(cache=True, nogil=True)
def vote(nodes, starts, stops, cols, labels, active, tally, seed):  # type: ignore[no-untyped-def]
    """Give each node the label that most linked ones have: its own of several, else one drawn; ``tally`` stays 0."""
    for k in range(len(nodes)):
        node = nodes[k]
        active[node] = False
        for at in range(starts[k], stops[k]):
            tally[labels[cols[at]]] += 1
        own = labels[node]
        best, votes, lot = own, tally[own], np.uint64(0)
        for at in range(starts[k], stops[k]):
            label = labels[cols[at]]
            if tally[label] < votes or label == own or (tally[label] == votes and best == own):
                continue
            drawn = (np.uint64(label) ^ np.uint64(seed)) * _MIXED + np.uint64(node)
            drawn = (drawn ^ (drawn >> _HALF)) * _MIXED
            if tally[label] > votes or drawn > lot:
                best, votes, lot = label, tally[label], drawn
        for at in range(starts[k], stops[k]):
            tally[labels[cols[at]]] = 0
        if best != own:
            labels[node] = best
            for at in range(starts[k], stops[k]):
                active[cols[at]] = True


@njit(cache=True, nogil=True)
def count_triangles(first, last, indptr, cols, counts):  # type: ignore[no-untyped-def]
    """Count the triangles of links that each lead from a node to a later one, at all three nodes.

    Parameters
    ----------
    first, last
        The nodes whose triangles are found: those in which they are the first.
    indptr, cols
        The links of all nodes, by rows.
    counts
        Shape (n,), int64: is added to.
    """
    marks = np.full(len(indptr) - 1, -1, np.int32)
    for one in range(first, last):
        for at in range(indptr[one], indptr[one + 1]):
            marks[cols[at]] = one
        for at in range(indptr[one], indptr[one + 1]):
            other = cols[at]
            for beyond in range(indptr[other], indptr[other + 1]):
                if marks[cols[beyond]] == one:
                    counts[one] += 1
                    counts[other] += 1
                    counts[cols[beyond]] += 1


@njit(cache=True, nogil=True)
def both_ways(indptr, cols, back, sources, pointers, out):  # type: ignore[no-untyped-def]
    """Merge the lists of links from each node with those to it, both ascending: repeats and the node itself go.

    Parameters
    ----------
    indptr, cols
        The links by the node that they lead from.
    back, sources
        The same by the node that they lead to.
    pointers, out
        Are written: where the list of each node begins, shape (n + 1,), and the lists.
    """
    kept = 0
    for node in range(len(indptr) - 1):
        pointers[node] = kept
        here, there = indptr[node], back[node]
        before = node
        while here < indptr[node + 1] or there < back[node + 1]:
            if there == back[node + 1] or (here < indptr[node + 1] and cols[here] <= sources[there]):
                found = cols[here]
                here += 1
            else:
                found = sources[there]
                there += 1
            if found != node and found != before:
                out[kept] = before = found
                kept += 1
    pointers[len(indptr) - 1] = kept
