"""Commands ``train`` and ``predict``: models of stored rows."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparrow.cli.arguments import AsJson, finite, open_any, write_json
from sparrow.cli.tables import write_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparrow.models.estimator import Estimator

__all__ = ["add_to"]

_LINES_PER_WRITE = 1 << 16


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(train)
    app.command()(predict)


def train(
    model: Annotated[
        Literal["linear", "logistic", "fm"], typer.Argument(metavar="MODEL", help="linear, logistic or fm.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="A bundle with X and y, or a matrix with --labels.")],
    labels: Annotated[str | None, typer.Option(metavar="PATH", help="The labels, one for each row.")] = None,
    out: Annotated[str | None, typer.Option(metavar="FOLDER", help="Write the model here, as a bundle.")] = None,
    validate: Annotated[
        str | None, typer.Option(metavar="PATH|SHARE", help="A bundle to validate with, or a share to hold out.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N epochs that validate no better.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the rows.")] = 10,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows of an update.")] = 32,
    optimizer: Annotated[Literal["adagrad", "sgd", "adam", "ftrl"], typer.Option(help="The optimizer.")] = "adagrad",
    lr: Annotated[
        float | None, typer.Option(callback=finite, help="The learning rate. [default: the optimizer's]")
    ] = None,
    l1: Annotated[float, typer.Option(min=0, callback=finite, help="Draws weights to 0.")] = 0.0,
    l2: Annotated[float, typer.Option(min=0, callback=finite, help="Lets weights decay.")] = 0.0,
    loss: Annotated[
        Literal["squared", "logistic", "hinge"] | None,
        typer.Option(help="logistic or hinge of MODEL logistic, squared or logistic of fm."),
    ] = None,
    factors: Annotated[int, typer.Option(min=1, help="fm: number of factors of a feature.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of rows and of the start.")] = 0,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Save each epoch here, and resume from it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what stands at --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on stored rows; write the loss of each epoch and the scores.

    \b
    Examples:
      sparrow train logistic a9a.sparrow --epochs 5 \\
          --validate a9a.t.sparrow --out model.sparrow
      sparrow train linear prices.sparrow --optimizer sgd --lr 0.01 \\
          --validate 0.1 --patience 3
      sparrow train fm ratings.sparrow --factors 16 --checkpoint kept \\
          --out model.sparrow
    """
    from sparrow.models.parquet_files import check_absent

    if out is not None and not overwrite:
        check_absent(out, "choose another folder, or pass --overwrite")
    settings: dict[str, Any] = {
        "optimizer": optimizer, "lr": lr, "l1": l1, "l2": l2, "epochs": epochs, "batch_size": batch_size, "seed": seed,
        "patience": patience, "checkpoint": checkpoint, "validation": _parse_validation(validate),
    }  # fmt: skip
    made = _make_model(model, settings, loss, factors)
    X, y = _load_rows(data, labels)
    started = time.perf_counter()
    made.fit(X, y)
    took = time.perf_counter() - started
    passes = "1 epoch" if made.n_iter_ == 1 else f"{made.n_iter_} epochs"
    height, width = X.shape
    typer.echo(f"{height:,} rows, {width:,} columns, {passes}, {took:.1f} s", err=True)
    report: dict[str, Any] = {
        "model": model, "data": data, "shape": [height, width], "epochs": made.n_iter_, "updates": made.t_,
        "loss": made.loss_, "train": made.evaluate(X, y),
    }  # fmt: skip
    columns = {"loss": made.loss_}
    if validate is not None:
        report["validation_loss"] = columns["validation loss"] = made.validation_loss_
        report["validation"] = made.validation_scores_
    if out is not None:
        made.save(out, overwrite)
        report["saved"] = out
        typer.echo(f"{out}: model of {width:,} columns", err=True)
    if as_json:
        write_json(report)
        return
    write_table(
        [(k, *(f"{value:.6g}" for value in row)) for k, row in enumerate(zip(*columns.values(), strict=True), 1)],
        ("epoch", *columns),
    )
    print()
    figures = {name: report[name] for name in ("train", "validation") if name in report}
    write_table(
        [(name, *(f"{value:.4f}" for value in found.values())) for name, found in figures.items()],
        ("rows", *report["train"]),
    )


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a model.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="A matrix, or a bundle with X, and y to compare with.")],
    chances: Annotated[bool, typer.Option("--chances", help="Write class probabilities, not classes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the prediction of a model for each row, one per line.

    \b
    Examples:
      sparrow predict model.sparrow a9a.t.sparrow > classes.txt
      sparrow predict model.sparrow a9a.t.sparrow --chances
    """
    from sparrow.models import load
    from sparrow.tensor import Tensor

    found = load(model)
    if not hasattr(found, "score"):
        raise typer.BadParameter(f"{model} is a {type(found).__name__}: use sparrow recommend {model} ROW")
    given = open_any(data)
    X, y = (given, None) if isinstance(given, Tensor) else _load_rows(data, None, require_labels=False)
    if chances and not hasattr(found, "predict_proba"):
        raise typer.BadParameter(f"{model} has no class probabilities: it is {found!r}")
    predicted: NDArray[Any] = found.predict_proba(X) if chances else found.predict(X)
    figures = None if y is None else found.evaluate(X, y)
    if as_json:
        names = {"classes": found.classes_} if chances else {}
        write_json({"model": model, "data": data, **names, "predictions": predicted, "figures": figures})
        return
    for start in range(0, len(predicted), _LINES_PER_WRITE):
        block = predicted[start : start + _LINES_PER_WRITE].tolist()
        sys.stdout.write("".join(f"{_format(each)}\n" for each in block))
    if figures is not None:
        typer.echo(", ".join(f"{name} {value:.4f}" for name, value in figures.items()), err=True)


def _format(value: Any) -> str:
    return " ".join(f"{each:.6g}" for each in value) if isinstance(value, list) else f"{value}"


def _parse_validation(given: str | None) -> Any:
    """Return a share, or a path."""
    if given is None or os.path.exists(given):
        return given
    try:
        return float(given)
    except ValueError:
        raise typer.BadParameter(f"--validate must be a bundle or a share such as 0.1, got {given!r}") from None


def _make_model(name: str, settings: dict[str, Any], loss: str | None, factors: int) -> Estimator:
    from sparrow.models import FactorizationMachine, LinearRegression, LogisticRegression

    allowed = {"linear": ("squared",), "logistic": ("logistic", "hinge"), "fm": ("squared", "logistic")}[name]
    if loss is not None and loss not in allowed:
        raise typer.BadParameter(f"--loss of {name} must be {' or '.join(allowed)}, got {loss}")
    if name == "linear":
        return LinearRegression(**settings)
    if name == "logistic":
        return LogisticRegression(**settings, loss=loss or "logistic")  # type: ignore[arg-type]
    return FactorizationMachine(factors, loss or "squared", **settings)  # type: ignore[arg-type]


def _load_rows(data: str, labels: str | None, require_labels: bool = True) -> tuple[Any, Any]:
    """Return the matrix and the labels named by the arguments.

    Raises
    ------
    InvalidValueError
        If there is no matrix, or no labels where they are required.
    """
    from sparrow.errors import InvalidValueError
    from sparrow.tensor import Tensor

    found = open_any(data)
    if isinstance(found, Tensor):
        if labels is None and require_labels:
            raise InvalidValueError(f"{data} is a tensor without labels: pass --labels, or a bundle")
        return found, labels
    if "X" not in found:
        raise InvalidValueError(f"{data} must be a bundle with X, got one of {', '.join(found)}")
    if labels is None and "y" not in found and require_labels:
        raise InvalidValueError(f"{data} has no y: pass the labels with --labels")
    return found["X"], labels if labels is not None else found.get("y")
