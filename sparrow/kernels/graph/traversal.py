"""Graph traversal kernels for :mod:`sparrow.graph`.

Streaming kernels receive adjacency lists: ``nodes`` (shape (m,), int32), with the neighbors of ``nodes[k]`` at
``cols[starts[k]:stops[k]]`` (int32; ``starts`` and ``stops`` int64). Lists are complete. Per-node state is updated in
place, so these kernels run on one thread; ``active`` marks nodes whose lists are pending, and processing a list clears
its mark.

Random-access kernels receive all edges in memory, those of node k at ``cols[indptr[k]:indptr[k + 1]]``. They return
after about ``max_edges`` edges and resume from the numbers in ``state``.
"""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit

__all__ = [
    "bfs_levels",
    "bucket_by_degree",
    "count_triangles",
    "gather_edges",
    "h_index",
    "has_negative_cycle",
    "near_far_paths",
    "number_components",
    "orient_by_rank",
    "peel_cores",
    "propagate_colors",
    "propagate_labels",
    "reach",
    "relax",
    "strong_components",
    "symmetrize",
    "transpose_edges",
    "union_neighbors",
]  # fmt: skip

_FIBONACCI, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
"""Multiplier of Fibonacci hashing, and half the word length."""


@njit(cache=True, nogil=True)
def relax(nodes, starts, stops, cols, weights, limit, distance, predecessor, active):  # type: ignore[no-untyped-def]
    """Relax edges: shorten the distances (float64) of neighbors.

    ``weights`` may be empty for unit weights. Distances beyond ``limit`` are ignored. ``predecessor`` receives the
    predecessor of each node, unless it is empty.
    """
    weighted, stores_predecessors = len(weights) > 0, len(predecessor) > 0
    for k in range(len(nodes)):
        active[nodes[k]] = False
        so_far = distance[nodes[k]]
        for at in range(starts[k], stops[k]):
            far = so_far + (weights[at] if weighted else 1.0)
            if far < distance[cols[at]] and far <= limit:
                distance[cols[at]] = far
                active[cols[at]] = True
                if stores_predecessors:
                    predecessor[cols[at]] = nodes[k]


@njit(cache=True, nogil=True)
def has_negative_cycle(predecessor, distance, previous, marks):  # type: ignore[no-untyped-def]
    """Return whether predecessors form a cycle, which then has negative length.

    Parameters
    ----------
    predecessor
        Predecessor of each node, int32; -1 if there is none.
    distance, previous
        Distances, float64, after and before the last round; a cycle contains a node whose distance fell.
    marks
        Scratch array, int32, one element per node.
    """
    marks[:] = 0
    for node in range(len(predecessor)):
        at = node
        while at >= 0 and marks[at] == 0:
            marks[at] = node + 1
            at = predecessor[at]
        if at < 0 or marks[at] != node + 1:
            continue
        met, shorter = at, False
        while distance[at] > -np.inf:
            shorter |= distance[at] < previous[at]
            at = predecessor[at]
            if at == met:
                if shorter:
                    return True
                break
    return False


@njit(cache=True, nogil=True)
def union_neighbors(nodes, starts, stops, cols, parent):  # type: ignore[no-untyped-def]
    """Union-find with path halving; the root of a set is its smallest node."""
    for k in range(len(nodes)):
        for at in range(starts[k], stops[k]):
            one, other = nodes[k], cols[at]
            while one != other:
                if one < other:
                    one, other = other, one
                # The larger root advances and halves its path.
                above = parent[one]
                if above == one:
                    parent[one] = other
                    break
                parent[one] = parent[above]
                one = above


@njit(cache=True, nogil=True)
def number_components(parent):  # type: ignore[no-untyped-def]
    """Replace parents by component numbers in place; return the component count."""
    count = 0
    for node in range(len(parent)):
        if parent[node] == node:
            parent[node] = count
            count += 1
        else:  # the parent is smaller, so it has a number already
            parent[node] = parent[parent[node]]
    return count


@njit(cache=True, nogil=True)
def gather_edges(nodes, starts, stops, cols, alive, part, is_source, is_target, k, at, keys, filled):  # type: ignore[no-untyped-def]
    """Append edges between alive nodes of two parts to ``keys`` until it is full.

    A key is ``2^32 * row + column``; ``is_source`` and ``is_target`` mark the endpoints. Returns the list and edge to
    resume at, and the number of keys.
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
                    is_source[row] = is_target[col] = True
                at += 1
        k, at = k + 1, 0
    return k, at, filled


@njit(cache=True, nogil=True)
def propagate_colors(nodes, starts, stops, cols, alive, colors, active):  # type: ignore[no-untyped-def]
    """Propagate the larger color of active nodes along edges between alive nodes."""
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
            own = colors[node]
            for at in range(starts[k], stops[k]):
                other = cols[at]
                if alive[other] and colors[other] < own:
                    colors[other] = own
                    active[other] = True
                    again |= nodes[0] <= other <= node


@njit(cache=True, nogil=True)
def reach(nodes, starts, stops, cols, alive, colors, found, active):  # type: ignore[no-untyped-def]
    """Mark alive nodes of the same color that active nodes reach in these lists."""
    again = len(nodes) > 0
    while again:
        again = False
        for k in range(len(nodes)):
            node = nodes[k]
            if not active[node]:
                continue
            active[node] = False
            own = colors[node]
            for at in range(starts[k], stops[k]):
                other = cols[at]
                if alive[other] and not found[other] and colors[other] == own:
                    found[other] = active[other] = True
                    again |= nodes[0] <= other <= node


@njit(cache=True, nogil=True)
def h_index(nodes, starts, stops, cols, core, active, tally):  # type: ignore[no-untyped-def]
    """Lower ``core`` to the h-index of the cores of neighbors (Lü et al. 2016).

    ``tally`` is zero before and after.
    """
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
def propagate_labels(nodes, starts, stops, cols, labels, active, tally, seed):  # type: ignore[no-untyped-def]
    """Assign each node the most frequent label of its neighbors.

    Label propagation of Raghavan et al. 2007. Ties keep the label of the node if it is among them; otherwise one is
    drawn at random.
    """
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
            drawn = (np.uint64(label) ^ np.uint64(seed)) * _FIBONACCI + np.uint64(node)
            drawn = (drawn ^ (drawn >> _HALF)) * _FIBONACCI
            if tally[label] > votes or drawn > lot:
                best, votes, lot = label, tally[label], drawn
        for at in range(starts[k], stops[k]):
            tally[labels[cols[at]]] = 0
        if best != own:
            labels[node] = best
            for at in range(starts[k], stops[k]):
                active[cols[at]] = True


@njit(cache=True, nogil=True)
def orient_by_rank(nodes, starts, stops, cols, rank, low, lengths, up, filled):  # type: ignore[no-untyped-def]
    """Append the ranks of higher-ranked neighbors to ``up`` while whole lists fit.

    Returns the list to resume at, and the number of edges; ``lengths[node - low + 1]`` receives the number per node.
    """
    for k in range(len(nodes)):
        before, own = filled, rank[nodes[k]]
        for at in range(starts[k], stops[k]):
            if rank[cols[at]] > own:
                if filled == len(up):
                    return k, before
                up[filled] = rank[cols[at]]
                filled += 1
        lengths[nodes[k] - low + 1] = filled - before
    return len(nodes), filled


@njit(cache=True, nogil=True)
def count_triangles(nodes, starts, stops, cols, rank, low, indptr, up, marks, counts):  # type: ignore[no-untyped-def]
    """Count triangles at all three nodes, where the middle node is in memory.

    Parameters
    ----------
    rank
        Order of all nodes by degree, so that frequent nodes are adjacent in arrays by rank.
    low, indptr, up
        First node in memory, and the higher-ranked neighbors of nodes from there, by rank.
    marks
        By rank, shape (n,), int32: -1 initially, and kept between calls for one ``rank``.
    counts
        By rank, shape (n,), int64: incremented.
    """
    high = low + len(indptr) - 1
    for k in range(len(nodes)):
        own = rank[nodes[k]]
        for at in range(starts[k], stops[k]):
            if rank[cols[at]] > own:
                marks[rank[cols[at]]] = own
        closed = 0
        for at in range(starts[k], stops[k]):
            other = cols[at]
            if rank[other] > own and low <= other < high:
                here = 0
                for beyond in range(indptr[other - low], indptr[other - low + 1]):
                    if marks[up[beyond]] == own:
                        here += 1
                        counts[up[beyond]] += 1
                counts[rank[other]] += here
                closed += here
        counts[own] += closed


@njit(cache=True, nogil=True)
def symmetrize(indptr, cols, back, sources, pointers, out):  # type: ignore[no-untyped-def]
    """Merge sorted out- and in-neighbors of nodes; drop duplicates and self-loops.

    Parameters
    ----------
    indptr, cols
        Out-neighbors in CSR.
    back, sources
        In-neighbors in CSR.
    pointers, out
        Receive the merged lists in CSR; ``pointers`` has shape (n + 1,).
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


@njit(cache=True, nogil=True)
def transpose_edges(indptr, cols, back, sources):  # type: ignore[no-untyped-def]
    """Transpose edges by counting sort.

    ``back``, shape (n + 2,), zero initially, receives the row pointers; ``sources`` receives the source nodes.
    """
    n = len(indptr) - 1
    for k in range(len(cols)):
        back[cols[k] + 2] += 1
    for node in range(2, n + 2):
        back[node] += back[node - 1]
    for node in range(n):  # advances each start to the start of the next row
        for k in range(indptr[node], indptr[node + 1]):
            at = back[cols[k] + 1]
            back[cols[k] + 1] = at + 1
            sources[at] = node


@njit(cache=True, nogil=True)
def bfs_levels(indptr, cols, queue, limit, distance, state, max_edges):  # type: ignore[no-untyped-def]
    """Breadth-first search from the nodes in a queue.

    Parameters
    ----------
    queue
        Visited nodes in order of distance, shape (n,), int32.
    limit
        Maximal distance.
    distance
        Distances, shape (n,), int64; -1 for unvisited nodes.
    state
        Position in the queue, and its end.
    """
    first, last = state[0], state[1]
    n_visited = 0
    while first < last and n_visited < max_edges:
        node = queue[first]
        first += 1
        if distance[node] >= limit:
            first = last
            break
        for k in range(indptr[node], indptr[node + 1]):
            other = cols[k]
            if distance[other] < 0:
                distance[other] = distance[node] + 1
                queue[last] = other
                last += 1
        n_visited += indptr[node + 1] - indptr[node]
    state[0], state[1] = first, last
    return n_visited


@njit(cache=True, nogil=True)
def near_far_paths(  # type: ignore[no-untyped-def]
    indptr, cols, weights, width, distance, predecessor, near, later, waits, bound, state, max_edges
):  # fmt: skip
    """Find shortest paths by the near-far method (Davidson et al. 2014).

    Parameters
    ----------
    width
        Width of the near bucket; infinity if weights may be negative.
    distance
        Distances, shape (n,), float64.
    predecessor
        Receives predecessors, shape (n,), int32, unless it is empty.
    near, later
        Buckets of nodes, shape (n,), int32; the former is a ring buffer.
    waits
        Shape (n,), uint8: 1 for nodes in the near bucket, 2 for nodes in the far one.
    bound
        Largest distance of the near bucket, shape (1,).
    state
        Start of the near bucket, and the sizes of both.
    """
    n, stores_predecessors = len(distance), len(predecessor) > 0
    head, filled, kept = state[0], state[1], state[2]
    limit = bound[0]
    n_visited = 0
    while n_visited < max_edges:
        while filled > 0 and n_visited < max_edges:
            node = near[head]
            head = head + 1 if head + 1 < n else 0
            filled -= 1
            waits[node] = 0
            so_far = distance[node]
            for k in range(indptr[node], indptr[node + 1]):
                other = cols[k]
                away = so_far + weights[k]
                if away < distance[other]:
                    distance[other] = away
                    if stores_predecessors:
                        predecessor[other] = node
                    if away <= limit:
                        if waits[other] != 1:
                            waits[other] = 1
                            at = head + filled
                            near[at if at < n else at - n] = other
                            filled += 1
                    elif waits[other] == 0:
                        waits[other] = 2
                        later[kept] = other
                        kept += 1
            n_visited += 1 + indptr[node + 1] - indptr[node]
        if filled > 0:
            break
        least = np.inf
        count = 0
        for k in range(kept):  # skips nodes that moved to the near bucket
            node = later[k]
            if waits[node] == 2:
                later[count] = node
                count += 1
                least = min(least, distance[node])
        n_visited += kept
        kept = 0
        if count == 0:
            break
        limit = least + width
        for k in range(count):
            node = later[k]
            if distance[node] <= limit:
                waits[node] = 1
                near[(head + filled) % n] = node
                filled += 1
            else:
                later[kept] = node
                kept += 1
    state[0], state[1], state[2] = head, filled, kept
    bound[0] = limit
    return n_visited


@njit(cache=True, nogil=True)
def strong_components(indptr, cols, rank, path, at, first, waiting, state, max_edges):  # type: ignore[no-untyped-def]
    """Find strongly connected components (Pearce 2016).

    Parameters
    ----------
    rank
        Receives the component of each node, shape (n,), int32; 0 initially.
    path, at, first
        Shape (n,), int32, int64 and bool: nodes on the depth-first path, their next edge, and whether they are roots.
    waiting
        Stack of nodes whose component is incomplete, shape (n,), int32.
    state
        Start node, sizes of path and stack, next index within a component, next component number: 0, 0, 0, 1, n
        initially.
    """
    begun, depth, held, number, part = state[0], state[1], state[2], state[3], state[4]
    n_visited = 0
    while n_visited < max_edges:
        if depth == 0:
            while begun < len(rank) and rank[begun] != 0:
                begun += 1
            if begun == len(rank):
                break
            path[0], at[0], first[0], rank[begun] = begun, indptr[begun], True, number
            depth, number = 1, number + 1
        top = depth - 1
        node = path[top]
        own, k, end = rank[node], at[top], indptr[node + 1]
        n_visited -= k - 1
        other = node
        while k < end:
            other = cols[k]
            found = rank[other]
            if found == 0:
                break
            if found < own:
                own = found
                first[top] = False
            k += 1
        n_visited += k
        rank[node] = own
        if k < end:
            at[top] = k
            path[depth], at[depth], first[depth], rank[other] = other, indptr[other], True, number
            depth, number = depth + 1, number + 1
        elif first[top]:
            number -= 1
            while held > 0 and own <= rank[waiting[held - 1]]:
                held -= 1
                number -= 1
                rank[waiting[held]] = part
            rank[node] = part
            part -= 1
            depth = top
        else:
            waiting[held] = node
            held += 1
            depth = top
    state[0], state[1], state[2], state[3], state[4] = begun, depth, held, number, part
    return n_visited


@njit(cache=True, nogil=True)
def bucket_by_degree(degree, begin, order, place):  # type: ignore[no-untyped-def]
    """Sort nodes by degree with a counting sort.

    Parameters
    ----------
    degree
        Degree of each node, shape (n,).
    begin
        Receives the start of each degree in ``order``, shape (largest degree + 2,); 0 initially.
    order, place
        Receive the sorted nodes and the inverse permutation, shape (n,).
    """
    for node in range(len(degree)):
        begin[degree[node] + 1] += 1
    for k in range(1, len(begin)):
        begin[k] += begin[k - 1]
    for node in range(len(degree)):
        at = begin[degree[node]]
        begin[degree[node]] = at + 1
        order[at], place[node] = node, at
    for k in range(len(begin) - 1, 0, -1):
        begin[k] = begin[k - 1]
    begin[0] = 0


@njit(cache=True, nogil=True)
def peel_cores(indptr, cols, core, begin, order, place, state, max_edges):  # type: ignore[no-untyped-def]
    """Compute core numbers by peeling (Batagelj and Zaversnik 2003).

    Parameters
    ----------
    core, begin, order, place
        Degrees, replaced by core numbers, and the output of :func:`bucket_by_degree`.
    state
        Number of removed nodes, shape (1,).
    """
    n_visited = 0
    while state[0] < len(order) and n_visited < max_edges:
        node = order[state[0]]
        state[0] += 1
        own = core[node]
        for k in range(indptr[node], indptr[node + 1]):
            other = cols[k]
            degree = core[other]
            if degree > own:  # swap with the first node of this degree, then advance its start
                at, here = begin[degree], place[other]
                moved = order[at]
                order[at], order[here] = other, moved
                place[other], place[moved] = at, here
                begin[degree] = at + 1
                core[other] = degree - 1
        n_visited += 1 + indptr[node + 1] - indptr[node]
    return n_visited
