"""The verb ``als``: matrix factorisation of a stored tensor, evaluated or saved."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparrow.cli.arguments import AsJson, StoredPath, finite, open_one, write_json, write_table

if TYPE_CHECKING:
    from sparrow.models import ALS
    from sparrow.tensor import Tensor

__all__ = ["add_to"]

_FIGURES = ("recall@20", "recall@50", "ndcg@100")
_GRID = {"regularization": (0.05, 0.2, 1.0), "unobserved_weight": (1e-4, 1e-3, 1e-2)}


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(short_help="Factors of a matrix by alternating least squares.")(als)


def als(
    path: StoredPath,
    factors: Annotated[int, typer.Option(min=1, help="Numbers that stand for a row or a column.")] = 128,
    regularization: Annotated[
        str | None, typer.Option(metavar="X[,X...]", help="Weight of the factors' squares. [default: 0.2]")
    ] = None,
    unobserved_weight: Annotated[
        str | None, typer.Option(metavar="X[,X...]", help="Weight of cells without an entry. [default: 0.001]")
    ] = None,
    frequency_scaling: Annotated[
        float, typer.Option(min=0, max=1, callback=finite, help="How regularization grows with the entries of a row.")
    ] = 0.0,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over rows and columns.")] = 16,
    solver: Annotated[Literal["cg", "exact", "subspace"], typer.Option(help="How a half step is solved.")] = "cg",
    dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], typer.Option(help="What the factors are kept in.")
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
        typer.Option("--search", help="Try all pairs of the weights given on a further tenth; go on with the best."),
    ] = False,
    save: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Train on all rows and write the factors as Parquet.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Keep what is done here, and go on from it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Factor a matrix (rows, items) by alternating least squares; say how well the factors recommend.

    --evaluate leaves a tenth of the rows out of training, holds a quarter of their links out, recommends from the
    others and writes Recall@20, Recall@50 and NDCG@100, beside those of recommending what is popular. --search tries
    the weights 0.05,0.2,1 and 0.0001,0.001,0.01 where none are given. Without both it trains on all rows and writes
    the loss.

    \b
    Examples:
      sparrow als web.sparrow --min-links 10 --evaluate
      sparrow als web.sparrow --search --regularization 0.05,0.2,1 --evaluate
      sparrow als web.sparrow --factors 64 --save factors
    """
    from sparrow.kernels.jit import warmup
    from sparrow.models import ALS, evaluation
    from sparrow.models.files import check_absent

    warmup.warn_compiling()
    weights = {
        "regularization": _numbers("--regularization", regularization),
        "unobserved_weight": _numbers("--unobserved-weight", unobserved_weight),
    }
    if checkpoint is not None and search and not evaluate and save is None:
        raise typer.BadParameter("--checkpoint is for one fit and --search makes many: say --evaluate or --save too")
    for name, values in weights.items():
        if len(values) > 1 and not search:
            raise typer.BadParameter(f"--{name.replace('_', '-')} has {len(values)} values: say --search, or give one")
    if save is not None:
        check_absent(save, "choose another folder")
    links, kept = open_one(path), None
    if min_links is not None:
        links, kept = evaluation.min_links(links, min_links)
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
        report["search"] = _searched(links, settings, grid, seed, as_json)
        settings |= {name: report["search"][0][name] for name in grid}
    report["settings"] = settings
    if evaluate:
        report["evaluation"] = _evaluated(links, settings, seed, _part(checkpoint, "evaluation"), as_json)
    if save is not None or not (evaluate or search):
        model = _fitted(links, settings, _part(checkpoint, "all"))
        report["loss"] = [float(loss) for loss in model.loss_]
        if not as_json:
            halves = zip(report["loss"][::2], report["loss"][1::2], strict=True)
            write_table([(k, *pair) for k, pair in enumerate(halves, 1)], ("epoch", "loss, rows", "loss, items"))
        if save is not None:
            model.save_factors(save, rows=kept, items=kept)
            report["saved"] = save
            typer.echo(f"{save}: factors of {links.shape[0]:,} rows and {links.shape[1]:,} items", err=True)
    if as_json:
        write_json(report)


def _numbers(option: str, text: str | None) -> list[float]:
    """Return the numbers of an option, separated by commas."""
    try:
        numbers = [] if text is None else [float(word) for word in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} {text!r}: give a number, or several with commas between them") from None
    if not all(0 <= number < math.inf for number in numbers):
        raise typer.BadParameter(f"{option} {text!r}: give finite numbers of at least 0")
    return numbers


def _part(checkpoint: str | None, name: str) -> str | None:
    return None if checkpoint is None else os.path.join(checkpoint, name)


def _fitted(links: Tensor, settings: dict[str, Any], checkpoint: str | None) -> ALS:
    from sparrow.models import ALS

    started = time.perf_counter()
    model = ALS(**settings, checkpoint=checkpoint).fit(links)
    epochs = "1 epoch" if settings["epochs"] == 1 else f"{settings['epochs']} epochs"
    typer.echo(f"{links.nnz:,} entries, {epochs}, {time.perf_counter() - started:.1f} s", err=True)
    return model


def _searched(
    links: Tensor, settings: dict[str, Any], grid: dict[str, Any], seed: int, as_json: bool
) -> list[dict[str, Any]]:
    """Write how well the settings do, the best first, and return it."""
    from sparrow.models import ALS, evaluation

    found = evaluation.search(links, ALS(**settings), grid, seed=seed)
    if not as_json:
        write_table([[*(each[name] for name in grid), *_rounded(each)] for each in found], (*grid, *_FIGURES))
    return found


def _evaluated(
    links: Tensor, settings: dict[str, Any], seed: int, checkpoint: str | None, as_json: bool
) -> dict[str, Any]:
    """Write how well the model and the baseline do, and return it."""
    from sparrow.models import evaluation

    parts = evaluation.split(links, seed)
    baseline = evaluation.evaluate(evaluation.Popularity().fit(parts.train), parts.test)
    model = evaluation.evaluate(_fitted(parts.train, settings, checkpoint), parts.test, baseline=False)
    if not as_json:
        write_table([("popularity", *_rounded(baseline)), ("als", *_rounded(model))], ("model", *_FIGURES))
    typer.echo(f"{len(parts.test.rows):,} rows that training never saw{evaluation.beaten(model, baseline)}", err=True)
    return {"rows": len(parts.test.rows), "popularity": baseline, "als": model}


def _rounded(figures: dict[str, float]) -> list[str]:
    return [f"{figures[name]:.4f}" for name in _FIGURES]
