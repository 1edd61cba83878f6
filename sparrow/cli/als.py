"""Commands ``als`` and ``recommend``: factor a matrix, and serve the model."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparrow.cli.arguments import AsJson, StoredPath, finite, open_one, write_json
from sparrow.cli.tables import write_table

if TYPE_CHECKING:
    import pyarrow as pa

    from sparrow.models import ALS
    from sparrow.tensor import Tensor

__all__ = ["add_to"]

_FIGURES = ("recall@20", "recall@50", "ndcg@100")
_GRID = {"regularization": (0.05, 0.2, 1.0), "unobserved_weight": (1e-4, 1e-3, 1e-2)}


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(als)
    app.command()(recommend)


def als(
    path: StoredPath,
    factors: Annotated[int, typer.Option(min=1, help="Number of factors of a row or column.")] = 128,
    regularization: Annotated[
        str | None, typer.Option(metavar="X[,X...]", help="Weight of the factors' squares. [default: 0.2]")
    ] = None,
    unobserved_weight: Annotated[
        str | None, typer.Option(metavar="X[,X...]", help="Weight of cells without an entry. [default: 0.001]")
    ] = None,
    frequency_scaling: Annotated[
        float, typer.Option(min=0, max=1, callback=finite, help="Exponent of the regularization by entries of a row.")
    ] = 0.0,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over rows and columns.")] = 16,
    solver: Annotated[
        Literal["cg", "exact", "subspace"], typer.Option(help="Solver of the least-squares problems.")
    ] = "cg",
    dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], typer.Option(help="Storage type of the factors.")
    ] = "float32",
    seed: Annotated[int, typer.Option(min=0, help="Of the start and of the rows drawn.")] = 0,
    biases: Annotated[
        bool, typer.Option("--biases", help="Of ratings, with --unobserved-weight 0: a mean, and biases.")
    ] = False,
    min_links: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="Of a graph: nodes with K links to and from them only.")
    ] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Train on nine tenths of the rows, recommend to the others.")
    ] = False,
    search: Annotated[
        bool,
        typer.Option("--search", help="Try all pairs of the given weights on a further tenth; use the best."),
    ] = False,
    save: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Train on all rows and write the factors as Parquet.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Train on all rows and write the model, for recommend.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model at --out.")] = False,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Save each epoch here, and resume from it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Factor a matrix by alternating least squares, and evaluate the factors.

    --evaluate trains on nine tenths of the rows, holds out a quarter of the links of the others, recommends from the
    rest and writes Recall@20, Recall@50 and NDCG@100, beside those of recommending popular items. --search tries the
    weights 0.05,0.2,1 and 0.0001,0.001,0.01 where none are given. Without both it trains on all rows and writes the
    loss.

    \b
    Examples:
      sparrow als web.sparrow --min-links 10 --evaluate
      sparrow als web.sparrow --search --regularization 0.05,0.2,1 --evaluate
      sparrow als web.sparrow --factors 64 --save factors
      sparrow als ratings.sparrow --out films.sparrow
      sparrow recommend films.sparrow ada
    """
    import pyarrow as pa

    from sparrow.functions.labels import to_labelled_tensor
    from sparrow.models import ALS, evaluation
    from sparrow.models.parquet_files import check_absent
    from sparrow.plan import AxisLabels

    weights = {
        "regularization": _parse_numbers("--regularization", regularization),
        "unobserved_weight": _parse_numbers("--unobserved-weight", unobserved_weight),
    }
    is_kept = save is not None or out is not None
    if checkpoint is not None and search and not evaluate and not is_kept:
        raise typer.BadParameter("--checkpoint is for one fit and --search makes many: add --evaluate or --save")
    for name, values in weights.items():
        if len(values) > 1 and not search:
            raise typer.BadParameter(
                f"--{name.replace('_', '-')} has {len(values)} values: add --search, or pass one value"
            )
    if save is not None:
        check_absent(save, "choose another folder")
    if out is not None and not overwrite:
        check_absent(out, "choose another folder, or pass --overwrite")
    links, kept = open_one(path), None
    if min_links is not None:
        links, kept = evaluation.min_links(links, min_links)
        if out is not None and links.labels(0) is None:  # the model knows nodes by their numbers in the graph
            labels = AxisLabels.of(pa.array(kept))
            links = to_labelled_tensor(links.__sparrow_scan__(), {0: labels, 1: labels})
    default = ALS().get_params()
    settings: dict[str, Any] = {
        "factors": factors,
        "frequency_scaling": frequency_scaling,
        "epochs": epochs,
        "solver": solver,
        "dtype": dtype,
        "seed": seed,
        "biases": biases,
        **{name: values[0] if values else default[name] for name, values in weights.items()},
    }
    report: dict[str, Any] = {"path": path, "shape": list(links.shape), "nnz": links.nnz}
    if search:
        grid = {name: values or _GRID[name] for name, values in weights.items()}
        report["search"] = _search(links, settings, grid, seed, as_json)
        settings |= {name: report["search"][0][name] for name in grid}
    report["settings"] = settings
    if evaluate:
        report["evaluation"] = _evaluate(links, settings, seed, _checkpoint_path(checkpoint, "evaluation"), as_json)
    if is_kept or not (evaluate or search):
        model = _fit(links, settings, _checkpoint_path(checkpoint, "all"))
        report["loss"] = [float(loss) for loss in model.loss_]
        if not as_json:
            halves = zip(report["loss"][::2], report["loss"][1::2], strict=True)
            write_table([(k, *pair) for k, pair in enumerate(halves, 1)], ("epoch", "loss, rows", "loss, items"))
        if save is not None:
            rows, items = (kept if links.labels(axis) is None else links.labels(axis) for axis in (0, 1))
            model.save_factors(save, rows=rows, items=items)
            report["saved"] = save
            typer.echo(f"{save}: factors of {links.shape[0]:,} rows and {links.shape[1]:,} items", err=True)
        if out is not None:
            model.save(out, overwrite)
            report["model"] = out
            typer.echo(f"{out}: model of {links.shape[0]:,} rows and {links.shape[1]:,} items", err=True)
    if as_json:
        write_json(report)


def recommend(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder that als --out wrote.")],
    rows: Annotated[
        list[str] | None, typer.Argument(metavar="[ROW]...", help="Rows, by label if they have labels, else position.")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, metavar="K", help="Items for each row.")] = 10,
    similar: Annotated[bool, typer.Option("--similar", help="ROWs are items: write the most similar items.")] = False,
    positions: Annotated[
        bool, typer.Option("--positions", help="ROWs are positions, and so are the items, whatever the labels.")
    ] = False,
    include_rated: Annotated[
        bool, typer.Option("--include-rated", help="Recommend items too that the row has rated.")
    ] = False,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the items of all rows to a Parquet file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file at --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the best items of each row, or those most similar to items.

    \b
    Examples:
      sparrow recommend films.sparrow ada bob -k 5
      sparrow recommend films.sparrow --similar Alien
      sparrow recommend films.sparrow --out best.parquet
    """
    from sparrow.models import ALS, load

    found = load(model)
    if not isinstance(found, ALS):
        raise typer.BadParameter(f"{model} is a {type(found).__name__}: use sparrow predict {model} DATA")
    if out is not None:
        if rows or similar:
            raise typer.BadParameter("--out writes the recommendations of all rows: leave out the rows and --similar")
        labelled = not positions and (found.labels("row") is not None or found.labels("item") is not None)
        found.recommend_all(out, k, exclude=not include_rated, overwrite=overwrite, labels=labelled)
        if as_json:
            write_json({"model": model, "saved": out})
        return
    if not rows:
        raise typer.BadParameter("pass rows, or --out FILE for all rows")
    given = _parse_ids(rows, None if positions else found.labels("item" if similar else "row"), positions)
    if similar:
        ids, scores = found.similar(given, k, positions=positions)
    else:
        ids, scores = found.recommend(given, k, exclude=not include_rated, positions=positions)
    lines = [
        (row, rank, item, score)
        for row, items, values in zip(rows, ids.tolist(), scores.tolist(), strict=True)
        for rank, (item, score) in enumerate(zip(items, values, strict=True), 1)
        if score > -math.inf
    ]
    headers = ("item", "rank", "similar", "cosine") if similar else ("row", "rank", "item", "score")
    if as_json:
        write_json([dict(zip(headers, line, strict=True)) for line in lines])
    else:
        write_table([(row, rank, item, f"{score:.6g}") for row, rank, item, score in lines], headers)


def _parse_ids(words: list[str], labels: pa.Array | None, positions: bool = False) -> list[Any]:
    """Return rows or items as labels of their type, or positions without labels."""
    import pyarrow as pa

    try:
        if labels is None:
            return [int(word) for word in words]
        found: list[Any] = pa.array(words).cast(labels.type).to_pylist()
    except (ValueError, pa.ArrowException):
        expected = "positions, as they have no labels" if labels is None else f"labels of type {labels.type}"
        expected = "positions, by --positions" if positions else expected
        raise typer.BadParameter(f"rows and items must be {expected}, got {', '.join(map(repr, words))}") from None
    return found


def _parse_numbers(option: str, text: str | None) -> list[float]:
    """Return the comma-separated numbers of an option."""
    try:
        numbers = [] if text is None else [float(word) for word in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} must be a number or several separated by commas, got {text!r}") from None
    if not all(0 <= number < math.inf for number in numbers):
        raise typer.BadParameter(f"{option} must be finite and not negative, got {text!r}")
    return numbers


def _checkpoint_path(checkpoint: str | None, name: str) -> str | None:
    return None if checkpoint is None else os.path.join(checkpoint, name)


def _fit(links: Tensor, settings: dict[str, Any], checkpoint: str | None) -> ALS:
    from sparrow.models import ALS

    started = time.perf_counter()
    model = ALS(**settings, checkpoint=checkpoint).fit(links)
    epochs = "1 epoch" if settings["epochs"] == 1 else f"{settings['epochs']} epochs"
    typer.echo(f"{links.nnz:,} elements, {epochs}, {time.perf_counter() - started:.1f} s", err=True)
    return model


def _search(
    links: Tensor, settings: dict[str, Any], grid: dict[str, Any], seed: int, as_json: bool
) -> list[dict[str, Any]]:
    """Write the scores of all settings, best first, and return them."""
    from sparrow.models import ALS, evaluation

    found = evaluation.search(links, ALS(**settings), grid, seed=seed)
    if not as_json:
        write_table([[*(each[name] for name in grid), *_format_figures(each)] for each in found], (*grid, *_FIGURES))
    return found


def _evaluate(
    links: Tensor, settings: dict[str, Any], seed: int, checkpoint: str | None, as_json: bool
) -> dict[str, Any]:
    """Write the scores of the model and of the baseline, and return them."""
    from sparrow.models import evaluation

    parts = evaluation.split(links, seed)
    baseline = evaluation.evaluate(evaluation.Popularity().fit(parts.train), parts.test)
    model = evaluation.evaluate(_fit(parts.train, settings, checkpoint), parts.test, baseline=False)
    if not as_json:
        write_table(
            [("popularity", *_format_figures(baseline)), ("als", *_format_figures(model))], ("model", *_FIGURES)
        )
    typer.echo(f"{len(parts.test.rows):,} held-out rows{evaluation.beaten(model, baseline)}", err=True)
    return {"rows": len(parts.test.rows), "popularity": baseline, "als": model}


def _format_figures(figures: dict[str, float]) -> list[str]:
    return [f"{figures[name]:.4f}" for name in _FIGURES]
