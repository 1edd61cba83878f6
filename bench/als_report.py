"""Write ``docs/als.md``: the questions of the ALX paper on data at hand.

The template is ``als_report.md`` beside this file; measured numbers and the conclusions from them are filled in here.
``python bench/als_report.py`` takes about half an hour on two cores. ``--only solvers,growth`` measures these parts and
takes the others from the last run, ``--only ""`` takes all from it. ``--quick`` takes two minutes, on sizes too small
to judge by, and prints.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from als_protocol import REGULARIZATION, UNOBSERVED_WEIGHT
from als_solvers import PRECISIONS
from als_studies import STUDIES
from harness import FOLDER, machine

Found = dict[str, Any]
RESULTS = FOLDER / "results"
DOCS = FOLDER.parent / "docs"
PLAIN = ("LU", "QR", "Cholesky", "CG")
OURS = ("sparrow exact", "sparrow cg", "sparrow subspace")
METRICS = ("recall@20", "recall@50", "ndcg@100")


def grid(head: list[str], lines: list[list[str]]) -> str:
    """Return a Markdown table: the first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])


def recall(found: Found) -> Found:
    models = {each["model"]: each for each in found["models"]}
    lines = [[name, *(f"{each[metric]:.3f}" for metric in METRICS)] for name, each in models.items()]
    full = models["cg, float32"]["recall@20"]
    runs = [name for name in models if name.startswith("cg, float32")]

    def best(metric: str) -> str:
        name = max(runs, key=lambda name: models[name][metric])
        epochs = "" if name == "cg, float32" else name.removeprefix("cg, float32, ")
        return f"{models[name][metric]:.3f} after {epochs or str(found['epochs']) + ' epochs'}"

    return {
        "table": grid(["model", "Recall@20", "Recall@50", "NDCG@100"], lines),
        "bfloat16": f"{full - models['cg, bfloat16']['recall@20']:+.4f}",
        "float16": f"{full - models['cg, float16']['recall@20']:+.4f}",
        "best": " and ".join(
            f"{name} {best(metric)}" for name, metric in [("Recall@20", "recall@20"), ("NDCG@100", "ndcg@100")]
        ),
        "regularization": REGULARIZATION,
        "unobserved_weight": UNOBSERVED_WEIGHT,
    }


def solvers(found: Found) -> Found:
    names = [*PLAIN, *OURS]
    rows = [(row["d"], row["seconds"], row["steps"]) for row in found["rows"]]
    times = [[str(d), f"{took['none']:.2f}", *(f"{took[name]:.2f}" for name in names)] for d, took, _ in rows]
    ratios = [[str(d), *(f"{took[name] / took['Cholesky']:.2f}" for name in names)] for d, took, _ in rows]
    alone = [
        [str(d), *(f"{took[name] - took['none']:.2f}" for name in PLAIN), f"{steps:.1f}"] for d, took, steps in rows
    ]
    d, took, _ = rows[-1]
    first = [str(size) for size, each, _ in rows if min(PLAIN, key=each.__getitem__) == "CG"]
    verdict = (
        f"CG is the fastest of the four at d = {', '.join(first) or 'none of these'}. At d = {d} it takes "
        f"{took['CG'] / took['LU']:.2f} of LU's time, {took['CG'] / took['QR']:.2f} of QR's and "
        f"{took['CG'] / took['Cholesky']:.2f} of Cholesky's. Of CG's time {took['none'] / took['CG']:.0%} is the "
        f"forming, which no choice among the four saves. sparrow's `exact` takes "
        f"{took['sparrow exact'] / took['CG']:.2f} of CG's time and `cg` {took['sparrow cg'] / took['CG']:.2f}."
    )
    return {
        "table": grid(["d", "formed", *names], times),
        "ratios": grid(["d", *names], ratios),
        "alone": grid(["d", *PLAIN, "CG steps"], alone),
        "verdict": verdict,
    }


def _collapse(curve: list[float], reference: list[float]) -> int:
    """Return the epoch from which recall stays below half of the reference's, or 0."""
    low = np.asarray(curve) < 0.5 * np.asarray(reference)
    fine = np.flatnonzero(~low)
    return 0 if not low[-1] else int(fine[-1]) + 2 if len(fine) else 1


def precision(found: Found) -> Found:
    curves = {(each["start"], each["regularization"], each["precision"]): each["recall@20"] for each in found["curves"]}
    strengths = sorted({strength for _, strength, _ in curves}, reverse=True)
    fates = {
        (start, strength, level): _collapse(curve, curves[start, strength, "float32"])
        for (start, strength, level), curve in curves.items()
    }

    def fate(*key: Any) -> str:
        return f"**epoch {fates[key]}**" if fates[key] else f"{curves[key][-1]:.3f}"

    normal = [[f"{strength:g}", *(fate("normal", strength, level) for level in PRECISIONS)] for strength in strengths]
    some = (PRECISIONS[0], PRECISIONS[-1])
    uniform = [[f"{strength:g}", *(fate("uniform", strength, level) for level in some)] for strength in strengths]
    gaps = [
        np.abs(np.subtract(curve, curves[start, strength, "float32"])).max()
        for (start, strength, level), curve in curves.items()
        if level == "bfloat16 tables"
    ]
    broken = [strength for strength in strengths if fates["normal", strength, PRECISIONS[-1]]]
    culprits = {next(level for level in PRECISIONS if fates["normal", strength, level]) for strength in broken}
    if broken:
        verdict = (
            f"The collapse appears, for lambda = {', '.join(f'{strength:g}' for strength in broken)}, and the first "
            f"column to have it is {' or '.join(repr(level) for level in PRECISIONS if level in culprits)}."
        )
    else:
        verdict = "The collapse does not appear at these settings."
    reason = ""
    if first := found["indefinite"]:
        reason = (
            f"At lambda = {first['regularization']:g}, all in bfloat16, the matrices of the {first['longest']:,} "
            f"longest rows and columns stay positive definite until epoch {first['epoch']}. In that one the matrices "
            f"of {first['count']} {first['side']} do not: their least eigenvalue is {first['least']:.2f} lambda, where "
            f"exact arithmetic has at least 1. The largest factor then is {first['largest']:.4g}, that of the other "
            f"table was {first['before']:.4g}, and through the Gramian it reaches all rows."
        )
    return {
        "table": grid(["lambda", *PRECISIONS], normal),
        "uniform": grid(["lambda", *some], uniform),
        "verdict": verdict,
        "gap": f"{max(gaps):.3f}",
        "reason": reason,
    }


def density(found: Found) -> Found:
    head = [
        "min. links", "nodes", "links", "mean", "test rows", "lambda", "alpha", "popular",
        "Recall@20", "@50", "NDCG@100", "search",
    ]  # fmt: skip
    graphs = found["graphs"]
    lines = [
        [
            str(each["least"]), f"{each['nodes']:,}", f"{each['links']:,}", f"{each['links'] / each['nodes']:.1f}",
            f"{each['tested']:,}", f"{each['regularization']:g}", f"{each['unobserved_weight']:g}",
            f"{each['popularity']:.3f}", *(f"{each[metric]:.3f}" for metric in METRICS),
            f"{each['worst']:.3f} - {each['best']:.3f}",
        ]
        for each in graphs
    ]  # fmt: skip
    ends = graphs[-1], max(graphs, key=lambda each: each["recall@20"])
    rise = " to ".join(f"{each['recall@20']:.3f} ({each['least']} links at least)" for each in ends)
    spread = max(each["best"] - each["worst"] for each in graphs)
    return {"table": grid(head, lines), "rise": rise, "spread": f"{spread:.3f}"}


def growth(found: Found) -> Found:
    head = ["graphs", "nodes", "links", "cg, s", "exact, s", "cg, us a link", "exact, us a link"]
    graphs = found["graphs"]
    lines = [
        [each["family"], f"{each['nodes']:,}", f"{each['links']:,}", f"{each['cg']:.3f}", f"{each['exact']:.3f}",
         f"{each['cg'] / each['links'] * 1e6:.2f}", f"{each['exact'] / each['links'] * 1e6:.2f}"]
        for each in graphs
    ]  # fmt: skip
    powers = []
    for family in dict.fromkeys(each["family"] for each in graphs):
        some = [each for each in graphs if each["family"] == family]
        size = np.log([each["links"] for each in some])
        cg, exact = (np.polyfit(size, np.log([each[name] for each in some]), 1)[0] for name in ("cg", "exact"))
        powers.append(f"{family}, links^{cg:.2f} (cg) and links^{exact:.2f} (exact)")
    return {"table": grid(head, lines), "powers": "; ".join(powers)}


def padding(found: Found) -> Found:
    ways = [name for name in found["graphs"][0] if name not in ("graph", "side", "mean", "longest")]
    lines = [
        [f"{each['graph']}, {each['side']}", f"{each['mean']:.1f}", f"{each['longest']:,}",
         *(f"{each[way]:.1%}" for way in ways)]
        for each in found["graphs"]
    ]  # fmt: skip
    return {"table": grid(["links of", "mean", "longest", *ways], lines)}


def windows(found: Found) -> Found:
    lines = [[each["search"], *(f"{each[metric]:.3f}" for metric in METRICS[:2])] for each in found["searches"]]
    hits = {each["search"]: each["recall@20"] for each in found["searches"]}
    exact = hits["exact, float32"]
    name = "best of 5K windows, ids"
    return {
        "table": grid(["search", "Recall@20", "Recall@50"], lines),
        "lost": f"{exact - hits[f'{name} in the order of the addresses']:.3f}",
        "shuffled": f"{exact - hits[f'{name} shuffled']:.3f}",
    }


SECTIONS: dict[str, Callable[[Found], Found]] = {
    "recall": recall,
    "solvers": solvers,
    "precision": precision,
    "density": density,
    "growth": growth,
    "padding": padding,
    "windows": windows,
}


def figures(found: dict[str, Found], folder: Path) -> None:
    """Draw the two figures as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "als", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    rows = found["solvers"]["rows"]
    sizes = [row["d"] for row in rows]
    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    for name in (*PLAIN, *OURS):
        style = "-o" if name in OURS else "--o"
        axes.loglog(sizes, [row["seconds"][name] for row in rows], style, ms=3, label=name)
    axes.set(xlabel="d", ylabel="CPU seconds of an epoch")
    axes.set_xticks(sizes, [str(d) for d in sizes], minor=False)
    axes.set_xticks([], minor=True)
    axes.legend(frameon=False)
    figure.savefig(folder / "solvers.svg", metadata={"Date": None})
    plt.close(figure)

    curves = [curve for curve in found["precision"]["curves"] if curve["start"] == "normal"]
    shown = sorted({curve["regularization"] for curve in curves}, reverse=True)
    figure, grid_of = plt.subplots(
        1, len(shown), figsize=(2.1 * len(shown), 2.8), sharey=True, layout="constrained", squeeze=False
    )
    for panel, strength in zip(grid_of[0], shown, strict=True):
        for curve in curves:
            if curve["regularization"] == strength:
                recalls = curve["recall@20"]
                style = ":" if curve["precision"] == "float32" else "-"
                panel.plot(range(1, len(recalls) + 1), recalls, style, lw=1.2, label=curve["precision"])
        panel.set(title=f"lambda = {strength:g}", xlabel="epoch")
    grid_of[0][0].set_ylabel("Recall@20")
    figure.legend(*grid_of[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(folder / "precision.svg", metadata={"Date": None})
    plt.close(figure)


def wrap(text: str) -> str:
    """Wrap the paragraphs of a Markdown text at 120 characters."""
    paragraphs = [
        block if block.startswith(("|", "-", "#", "!")) else textwrap.fill(block, 120, break_on_hyphens=False)
        for block in text.split("\n\n")
    ]
    return "\n\n".join(paragraphs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes too small to judge by; prints, writes no document")
    parser.add_argument("--only", default=",".join(STUDIES), help=f"comma-separated parts: {', '.join(STUDIES)}")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / ("als-quick.json" if options.quick else "als.json")
    found: dict[str, Found] = json.loads(kept.read_text()) if kept.exists() else {}
    for name in filter(None, options.only.split(",")):
        print(f"measuring {name}", file=sys.stderr, flush=True)
        found[name] = {**STUDIES[name](options.quick), "machine": machine()}
        kept.write_text(json.dumps(found, indent=1))
    if missing := [name for name in STUDIES if name not in found]:
        sys.exit(f"not measured yet: {', '.join(missing)}")
    machines = "; ".join(dict.fromkeys(each["machine"] for each in found.values()))
    values = {name: {**found[name], **write(found[name])} for name, write in SECTIONS.items()}
    text = (FOLDER / "als_report.md").read_text().format(machine=machines, **values)
    folder = RESULTS if options.quick else DOCS
    figures(found, folder / "als")
    if options.quick:
        print(text)
    else:
        (folder / "als.md").write_text(wrap(text))


if __name__ == "__main__":
    main()
