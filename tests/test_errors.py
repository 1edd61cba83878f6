"""Errors: base classes, messages and pickling."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from sparrow import errors

BUILTINS = {
    "IngestError": ValueError,
    "IndexingError": IndexError,
    "LabelError": KeyError,
    "ShapeError": ValueError,
    "AxisError": np.exceptions.AxisError,
    "DuplicateError": ValueError,
    "InvalidValueError": ValueError,
    "NumberRangeError": OverflowError,
    "SharingError": BufferError,
    "SingularError": RuntimeError,
    "UnsupportedError": TypeError,
    "ReadOnlyError": ValueError,
    "TooLargeError": MemoryError,
    "ConvergenceError": ArithmeticError,
    "MissingDependencyError": ImportError,
    "WorkerError": ChildProcessError,
    "StorageError": OSError,
    "NotFoundError": FileNotFoundError,
    "ExistsError": FileExistsError,
    "CorruptionError": OSError,
    "ConflictError": RuntimeError,
}


def test_all_lists_every_error() -> None:
    warned = {"LazyUpdateWarning", "PerformanceWarning", "StorageFallbackWarning"}
    assert {*BUILTINS, "SparrowError", *warned} == set(errors.__all__)
    assert issubclass(errors.PerformanceWarning, UserWarning)


@pytest.mark.parametrize("name", BUILTINS)
def test_errors_derive_from_builtins(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, errors.SparrowError)
    assert issubclass(kind, BUILTINS[name])
    assert name in (errors.__doc__ or "")


@pytest.mark.parametrize("name", [*BUILTINS, "SparrowError"])
def test_message_survives_pickle_and_copy(name: str) -> None:
    error = getattr(errors, name)("a.txt: no such thing")
    assert str(error) == "a.txt: no such thing"
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)


@pytest.mark.parametrize("name", [*BUILTINS, "SparrowError"])
def test_message_survives_tblib(name: str) -> None:
    tblib = pytest.importorskip("tblib.pickling_support", reason="tblib comes with Dask")
    error = getattr(errors, name)("a.txt: no such thing")
    rebuild, args, *_ = tblib.pickle_exception(error)
    twin = rebuild(*args)
    assert type(twin) is type(error)
    assert str(twin) == str(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.IngestError("no value", "a.txt", 3, "1:x"), "a.txt, line 3: no value (at '1:x')"),
        (errors.IngestError("no value", "a.txt"), "a.txt: no value"),
        (errors.IngestError("no value", line=3), "line 3: no value"),
    ],
)
def test_ingest_error_location(error: errors.IngestError, text: str) -> None:
    assert str(error) == text
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == text
    assert (twin.file, twin.line, twin.token) == (error.file, error.line, error.token)


def test_storage_error_subclasses() -> None:
    for name in ("NotFoundError", "ExistsError", "CorruptionError", "ConflictError"):
        assert issubclass(getattr(errors, name), errors.StorageError)
