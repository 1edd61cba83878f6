"""Costs at internet scale: the model and simulation of ``docs/scale.md``.

``python bench/scale.py measure 1 3 10`` measures R-MAT graphs of these million links in two processes of this machine
and adds them to ``bench/data/scale.json``; ``fit`` fits the model to what is there; ``gather`` counts the rows that
blocks need; ``project`` computes the tables for large graphs; ``simulate`` runs rounds with skew, slow machines and
failures. All but ``measure`` print Markdown.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import DATA, fresh

import sparrow as sp
import sparrow.testing

MEASURED = DATA / "scale.json"
LEVELS = {1: 16, 3: 17, 4: 18, 10: 18, 30: 19, 100: 20}
"""Logarithm of the nodes, by million links."""
FACTORS = 128
ROW_BYTES = 4 * FACTORS
PAGE_BYTES = 4096

Array = np.ndarray[Any, Any]


# -- measurements --------------------------------------------------------------------------------------


def measure(millions: int) -> dict[str, float]:
    """Return CPU seconds and bytes of a graph, spread over two processes."""
    from cluster import measure_call
    from generate import links as rmat

    solvers = ("cg", "exact") if millions < 100 else ("cg",)
    graph = rmat(LEVELS[millions], millions * 1_000_000)
    n, count = graph.shape[0], graph.nnz
    found: dict[str, float] = {"millions": millions, "links": count, "nodes": n}
    found["bits"] = 8 * sum(file.bytes for file in graph.files()) / count
    scratch = fresh(DATA / "scale-scratch")
    scratch.mkdir()
    with sp.config(engine="processes", cluster=2, threads=2, progress=False, scratch=scratch):
        for solver in ("cg", "exact"):  # starts processes and compiles
            sp.models.ALS(factors=FACTORS, solver=solver, epochs=1).fit(rmat(LEVELS[1], 1_000_000))
        for solver in solvers:
            model = sp.models.ALS(factors=FACTORS, solver=solver, epochs=1)
            _, took = measure_call(lambda model=model: model.fit(graph))
            found |= {f"als_{solver}": took.cpu, f"tasks_{solver}": took.tasks}
        found |= measure_products(graph)
    with sp.config(engine="stream", threads=2, progress=False):
        for solver in solvers:
            model = sp.models.ALS(factors=FACTORS, solver=solver, epochs=1)
            _, took = measure_call(lambda model=model: model.fit(graph))
            found[f"local_{solver}"] = took.cpu
    fresh(scratch)
    return found


def measure_products(graph: sp.Tensor) -> dict[str, float]:
    """Return CPU seconds of a product in tasks, and of writing the rows."""
    from cluster import measure_call

    x, operator = np.random.default_rng(0).random(graph.shape[0]), sp.linalg.aslinearoperator(graph.T)
    with sparrow.testing.tune("cluster", local_product_elements=0, min_product_elements=1_000_000):
        _, first = measure_call(lambda: [operator.matvec(x) for _ in range(5)])
        _, took = measure_call(lambda: [operator.matvec(x) for _ in range(10)])
    return {"rows": first.cpu - took.cpu / 2, "product": took.cpu / 10, "product_tasks": took.tasks / 10}


def _read() -> dict[str, dict[str, float]]:
    return json.loads(MEASURED.read_text()) if MEASURED.exists() else {}


# -- model ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a link and of a row."""

    link: float
    row: float
    errors: tuple[float, ...]
    """Relative errors of the measured graphs."""

    def __call__(self, links: float, rows: float) -> float:
        return self.link * links + self.row * rows


def fit(points: list[dict[str, float]], name: str, passes: int) -> Cost:
    """Fit a cost by relative least squares with positive terms.

    Parameters
    ----------
    passes
        Passes over all links and all rows.
    """
    counts = passes * np.array([[each["links"], each["nodes"]] for each in points])
    seconds = np.array([each[name] for each in points])
    relative = counts / seconds[:, None]
    found = np.linalg.lstsq(relative, np.ones(len(points)))[0]
    if found.min() < 0:  # one term explains all
        kept = int(found.argmax())
        found[:] = 0
        found[kept] = relative[:, kept].sum() / (relative[:, kept] ** 2).sum()
    errors = relative @ found - 1
    return Cost(*found.tolist(), tuple(errors.tolist()))


def select(points: list[dict[str, float]], name: str) -> list[dict[str, float]]:
    """Return the graphs with a measured cost; products of small ones have no tasks."""
    return [each for each in points if name in each and (name != "product" or each["product_tasks"])]


COSTS = {
    "ALS, cg, tasks": ("als_cg", 2), "ALS, exact, tasks": ("als_exact", 2), "ALS, cg, one process": ("local_cg", 2),
    "ALS, exact, one process": ("local_exact", 2), "product, tasks": ("product", 1),
}  # fmt: skip
"""Name in the measurements, and the passes over links and rows of an epoch or a round."""


def print_fit() -> None:
    """Print the fitted costs, with errors of them and of a fit to small graphs."""
    points = sorted(_read().values(), key=lambda each: each["links"])
    sizes = ", ".join(f"{each['links'] / 1e6:.1f} M" for each in points)
    print(f"Links: {sizes}\n")
    print("| Cost | ns a link | ns a row | Errors, by size | Largest graph, predicted from those up to 10 M |")
    print("|---|--:|--:|---|--:|")
    for title, (name, passes) in COSTS.items():
        own = select(points, name)
        cost, small = fit(own, name, passes), [each for each in own if each["millions"] <= 10]
        last, guess = own[-1], fit(small, name, passes)
        error = guess(passes * last["links"], passes * last["nodes"]) / last[name] - 1
        errors = ", ".join(f"{100 * each:+.0f} %" for each in cost.errors)
        print(f"| {title} | {1e9 * cost.link:.0f} | {1e9 * cost.row:.0f} | {errors} | {100 * error:+.0f} % |")
    print("\n| Links | Nodes | Bits a link and order |\n|--:|--:|--:|")
    for each in points:
        print(f"| {each['links'] / 1e6:.1f} M | {each['nodes'] / 1e6:.2f} M | {each['bits']:.1f} |")


# -- rows that blocks need -----------------------------------------------------------------------------


def count_gathered(indptr: Array, indices: Array, blocks: int, rows_per_page: int) -> tuple[float, float]:
    """Return the rows, and rows of whole pages, a link that blocks need."""
    bounds = np.searchsorted(indptr, np.linspace(0, indptr[-1], blocks + 1))
    rows = pages = 0
    for start, stop in itertools.pairwise(bounds.tolist()):
        columns = np.unique(indices[indptr[start] : indptr[stop]])
        rows += len(columns)
        pages += len(np.unique(columns // rows_per_page)) * rows_per_page
    return rows / indptr[-1], pages / indptr[-1]


def print_gathered() -> None:
    """Print the rows a link that blocks need, of a crawl and of ids at random."""
    from generate import links as rmat

    web = sp.datasets.load("cnr-2000")
    graphs = {"cnr-2000 by source": web, "cnr-2000 by target": web.T, "R-MAT, ids at random": rmat(18, 4_000_000)}
    parts = (4, 16, 64, 256, 1024)
    print("| Rows a link | " + " | ".join(f"{count} blocks" for count in parts) + " |")
    print("|---|" + "--:|" * len(parts))
    for name, graph in graphs.items():
        csr = graph.to_scipy("csr")
        found = [count_gathered(csr.indptr, csr.indices, count, PAGE_BYTES // ROW_BYTES) for count in parts]
        print(f"| {name} | " + " | ".join(f"{rows:.3f}" for rows, _ in found) + " |")
        print(f"| {name}, whole pages | " + " | ".join(f"{pages:.3f}" for _, pages in found) + " |")


# -- projection ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graph:
    """A large graph."""

    name: str
    nodes: float
    links: float


GRAPHS = (Graph("WebGraph-sparse", 365.4e6, 29.9e9), Graph("crawl of 100 G links", 2.8e9, 100e9))
"""The second has the links a node of WDC 2012 (3.56 G pages, 128.7 G links)."""
BITS = {"ids follow URLs": 4.6, "ids at random": 27.0}
"""Bits a link and order: of cnr-2000, and of R-MAT graphs."""
GATHERED = {
    "ids follow URLs": {16: 0.137, 64: 0.219, 256: 0.383}, "ids at random": {16: 0.935, 64: 2.43, 256: 4.52}
}  # fmt: skip
"""Rows of whole pages a link that each machine needs, by :func:`print_gathered`, means of both half steps."""


@dataclass(frozen=True)
class Machines:
    """A cluster."""

    count: int
    cores: int
    gbit: float

    @property
    def name(self) -> str:
        return f"{self.count} x {self.cores}, {self.gbit:g} Gbit/s"

    def transfer(self, nbytes: float) -> float:
        """Return the seconds in which each machine reads these bytes."""
        return 8 * nbytes / (1e9 * self.gbit)


CLUSTERS = (Machines(16, 16, 10), Machines(64, 4, 10), Machines(64, 4, 25), Machines(256, 4, 25))


def half_step_bytes(graph: Graph, machines: int, ids: str, itemsize: int = 4) -> float:
    """Return the bytes that each machine reads and writes in a half step.

    Links once; the rows that its share of the links needs, at most the whole table; its share of the fixed table read
    and written for the rotation, and of the other one written.
    """
    row = itemsize * FACTORS
    links = BITS[ids] / 8 * graph.links / machines
    return links + gathered_bytes(graph, machines, ids, itemsize) + 3 * graph.nodes * row / machines


def gathered_bytes(graph: Graph, machines: int, ids: str, itemsize: int = 4) -> float:
    """Return the bytes of rows that each machine reads for its links."""
    return min(GATHERED[ids][machines] * graph.links / machines, graph.nodes) * itemsize * FACTORS


def print_projection() -> None:
    """Print bytes, CPU seconds and network seconds of large graphs."""
    points = list(_read().values())
    names = (COSTS[title] for title in ("ALS, cg, tasks", "ALS, exact, tasks", "product, tasks"))
    cost, exact, product = (fit(select(points, name), name, passes) for name, passes in names)
    print("| | " + " | ".join(graph.name for graph in GRAPHS) + " |\n|---|" + "--:|" * len(GRAPHS))
    lines: list[tuple[str, Any]] = [
        ("nodes", lambda g: f"{g.nodes / 1e6:,.0f} M"),
        ("links", lambda g: f"{g.links / 1e9:.1f} G"),
        *((f"an order on disk, {ids}", lambda g, b=bits: _size(b / 8 * g.links)) for ids, bits in BITS.items()),
        ("a table, d = 128, float32", lambda g: _size(ROW_BYTES * g.nodes)),
        ("a table, bfloat16", lambda g: _size(ROW_BYTES * g.nodes / 2)),
        ("ranks, float64", lambda g: _size(8 * g.nodes)),
        *((f"rows gathered in a half step, 64 machines, {ids}",
           lambda g, i=ids: _size(64 * gathered_bytes(g, 64, i))) for ids in BITS),
        ("CPU of an ALS epoch, cg", lambda g: f"{cost(2 * g.links, 2 * g.nodes) / 3600:.1f} core hours"),
        ("CPU of an ALS epoch, exact", lambda g: f"{exact(2 * g.links, 2 * g.nodes) / 3600:.1f} core hours"),
        ("CPU of a PageRank round", lambda g: f"{product(g.links, g.nodes) / 60:.1f} core minutes"),
        ("rows of links in CSR files, for PageRank", lambda g: _size(_row_file_bytes(g))),
        ("memory of an ALS task, 4,096 tasks of 4 GB", lambda g: _size(_task_bytes(g, 4096))),
    ]  # fmt: skip
    for name, text in lines:
        print(f"| {name} | " + " | ".join(text(graph) for graph in GRAPHS) + " |")
    print("\n| Seconds: CPU, network | " + " | ".join(each.name for each in CLUSTERS) + " |")
    print("|---|" + "--:|" * len(CLUSTERS))
    for graph in GRAPHS:
        for ids in BITS:
            for itemsize, dtype in ((4, "float32"), (2, "bfloat16")):
                cells = []
                for each in CLUSTERS:
                    cpu = cost(2 * graph.links, 2 * graph.nodes) / (each.count * each.cores)
                    net = each.transfer(2 * half_step_bytes(graph, each.count, ids, itemsize))
                    cells.append(f"{cpu:.0f}, {net:.0f}")
                print(f"| ALS epoch, {graph.name}, {ids}, {dtype} | " + " | ".join(cells) + " |")
        cells = []
        for each in CLUSTERS:
            cpu = product(graph.links, graph.nodes) / (each.count * each.cores)
            net = each.transfer(_row_file_bytes(graph) / each.count + 8 * graph.nodes * (1 + 1 / each.count))
            cells.append(f"{cpu:.1f}, {net:.1f}")
        print(f"| PageRank round, {graph.name} | " + " | ".join(cells) + " |")


def _row_file_bytes(graph: Graph) -> float:
    """Return the bytes of rows in CSR without values."""
    return 4 * graph.links + 8 * graph.nodes


def _task_bytes(graph: Graph, tasks: int, limit: float = 4e9) -> float:
    """Return the bytes of links, new rows, and gathered rows of a half step's task.

    Rows are gathered for batches, in at most an eighth of the limit.
    """
    links = graph.links / tasks
    return links * (4 + 8 + 8) + graph.nodes / tasks * ROW_BYTES + limit / 8


def _size(nbytes: float) -> str:
    power = int(np.log10(nbytes) // 3)
    return f"{nbytes / 1000**power:.3g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


# -- simulation ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """A round of tasks on machines, in units of its ideal time: work over slots."""

    machines: int = 64
    slots: int = 4
    noise: float = 0.1
    """Standard deviation of the logarithm of a task's time."""
    overhead: float = 0.0
    """Added to each task."""
    hub: float = 0.0
    """Share of all work that is one task more, in the middle of the others."""
    slow: int = 0
    """Machines of a quarter of the speed."""
    failures: int = 0
    """Machines that die at random times; their running tasks run again elsewhere."""
    speculates: bool = False
    """True if free slots run copies of tasks that still run, as with ``spark.speculation``."""

    def run(self, tasks: int, rng: np.random.Generator) -> float:
        """Return the time of the round."""
        total = self.machines * self.slots
        queue = (rng.lognormal(-(self.noise**2) / 2, self.noise, tasks) * (1 - self.hub) * total / tasks).tolist()
        if self.hub:
            queue.insert(tasks // 2, self.hub * total)
        dies = dict(zip(rng.permutation(self.machines)[: self.failures], rng.random(self.failures), strict=True))
        free = [(0.0, slot) for slot in range(total)]
        waiting: list[int] = []
        ends: list[tuple[float, float]] = []
        while free:
            now, slot = heapq.heappop(free)
            machine = slot // self.slots
            speed, death = 0.25 if machine < self.slow else 1.0, dies.get(machine, np.inf)
            if now >= death:
                continue
            if queue:
                amount = queue.pop()
                done = now + amount / speed + self.overhead
                if done > death:  # what ran there is lost, and slots that had nothing to do look again
                    queue.append(amount)
                    while waiting:
                        heapq.heappush(free, (death, waiting.pop()))
                else:
                    ends.append((done, amount))
                    heapq.heappush(free, (done, slot))
                continue
            last = max(range(len(ends)), key=lambda each: ends[each][0]) if self.speculates else 0
            done, amount = ends[last]
            copied = now + amount / speed + self.overhead
            if self.speculates and copied < done:
                ends[last] = copied, amount
                heapq.heappush(free, (copied, slot))
            else:
                waiting.append(slot)
        return max(done for done, _ in ends)


ROUNDS = {
    "even tasks": Round(),
    "even tasks, 0.08 s more each (Spark) of a round of 45 s": Round(overhead=0.08 / 45),
    "a row of 0.3 % of the links, in one task": Round(hub=0.0033),
    "2 of 64 machines at a quarter of the speed": Round(slow=2),
    "the same, tasks copied": Round(slow=2, speculates=True),
    "one of 64 machines dies": Round(failures=1),
    "one dies, 2 are slow, tasks copied": Round(failures=1, slow=2, speculates=True),
}
PER_SLOT = {1: 31, 4: 15, 16: 5, 64: 3}
"""Runs, of which the median is taken, by tasks per slot."""


def simulate() -> dict[str, list[float]]:
    """Return the median time of rounds over the ideal, by tasks per slot."""
    out = {}
    for name, each in ROUNDS.items():
        rng = np.random.default_rng(0)
        out[name] = [
            statistics.median(each.run(count * each.machines * each.slots, rng) for _ in range(repeats))
            for count, repeats in PER_SLOT.items()
        ]
    return out


def simulation_table() -> str:
    """Return the simulated rounds as Markdown."""
    head = "| Time of a round over the ideal | " + " | ".join(f"{count} a slot" for count in PER_SLOT) + " |"
    rows = [f"| {name} | " + " | ".join(f"{each:.2f}" for each in found) + " |" for name, found in simulate().items()]
    return "\n".join([head, "|---|" + "--:|" * len(PER_SLOT), *rows])


def print_simulation() -> None:
    """Print the simulated rounds."""
    print(simulation_table())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "fit", "gather", "project", "simulate"])
    parser.add_argument("millions", nargs="*", type=int, metavar="MILLIONS", help=f"of {', '.join(map(str, LEVELS))}")
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    if options.what == "measure":
        for millions in options.millions:
            found = measure(millions)
            MEASURED.write_text(json.dumps(_read() | {str(millions): found}, indent=1))
            print(found, flush=True)
    else:
        {"fit": print_fit, "gather": print_gathered, "project": print_projection, "simulate": print_simulation}[
            options.what
        ]()


if __name__ == "__main__":
    main()
