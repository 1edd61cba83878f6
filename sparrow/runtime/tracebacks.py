"""Tracebacks of IPython without internal frames.

Where IPython runs, an error that sparrow raises on purpose is shown with the lines of the user and its message; what
lies below a call of sparrow is hidden. ``%xmode --show`` shows all frames, as does plain Python. Other errors, which
may be bugs, are shown in full.
"""

from __future__ import annotations

import inspect
import opcode
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

__all__ = ["hide_internal_frames"]

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_LIBRARIES = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_RAISE = opcode.opmap["RAISE_VARARGS"]


def hide_internal_frames() -> None:
    """Hide internal frames in the tracebacks of IPython, if it is running."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    renderer: Any = getattr(shell, "InteractiveTB", None)
    if renderer is not None and not hasattr(renderer.structured_traceback, "hides_sparrow"):
        renderer.structured_traceback = _hide_in(renderer, renderer.structured_traceback)


def _hide_in(renderer: Any, render: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return a function that renders tracebacks without internal frames."""

    def structured_traceback(etype: Any = None, evalue: Any = None, etb: Any = None, *args: Any, **options: Any) -> Any:
        if not isinstance(evalue, BaseException) or not getattr(renderer, "skip_hidden", True):
            return render(etype, evalue, etb, *args, **options)
        is_report = isinstance(etb, TracebackType) and _is_report(evalue, etb)
        with _trimmed_causes(evalue, is_report):
            return render(etype, evalue, _trim(etb) if is_report else etb, *args, **options)

    structured_traceback.hides_sparrow = True  # type: ignore[attr-defined]
    return structured_traceback


def _is_report(error: BaseException, traceback: TracebackType) -> bool:
    """Return whether an error says what is wrong with a call, or ends it."""
    from sparrow.errors import SparrowError

    if isinstance(error, SparrowError | KeyboardInterrupt):
        return True
    if isinstance(error, AttributeError) and _module_of(error.obj).partition(".")[0] == "sparrow":
        return True
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    if not _is_internal(code) or isinstance(error, AssertionError | NotImplementedError):
        return False
    # A raise statement is meant for the caller; an error of another operation may be a bug. Queries are the caller's.
    return code.co_code[traceback.tb_lasti] == _RAISE or type(error).__module__ in ("duckdb", "_duckdb")


def _module_of(found: Any) -> str:
    """Return the name of a module, or of the module of a class or object."""
    if inspect.ismodule(found):
        return found.__name__
    return str((found if isinstance(found, type) else type(found)).__module__)


def _is_internal(code: CodeType) -> bool:
    return code.co_filename.startswith(_PACKAGE)


def _is_user(code: CodeType) -> bool:
    """Return whether code is neither sparrow's nor another library's."""
    return not (_is_internal(code) or code.co_filename.startswith((*_LIBRARIES, "<frozen ")))


def _trim(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without frames below a call of sparrow, except the user's.

    Hidden frames are marked for the debugger.
    """
    entries: list[TracebackType] = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    codes = [entry.tb_frame.f_code for entry in entries]
    last_user = max((at for at, code in enumerate(codes) if _is_user(code)), default=-1)
    first = next((at for at, code in enumerate(codes) if _is_internal(code)), last_user + 1)
    shown: TracebackType | None = None
    for at, entry in reversed(list(enumerate(entries))):
        frame = entry.tb_frame
        if at < first or _is_user(codes[at]):
            shown = TracebackType(shown, frame, entry.tb_lasti, entry.tb_lineno)
        elif codes[at].co_flags & inspect.CO_OPTIMIZED:
            frame.f_locals["__tracebackhide__"] = True
    return shown


@contextmanager
def _trimmed_causes(error: BaseException, is_report: bool) -> Iterator[None]:
    """Hide internal frames of the causes of an error, and causes without others."""
    with ExitStack() as stack:
        seen = {id(error)}
        while True:
            cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
            if cause is None or id(cause) in seen:
                break
            seen.add(id(cause))
            before = cause.__traceback__
            if before is not None and (is_report or _is_report(cause, before)):
                shown = _trim(before)
                if shown is None:
                    stack.callback(_set_cause, error, error.__cause__, error.__suppress_context__)
                    _set_cause(error, None, True)
                    break
                stack.callback(setattr, cause, "__traceback__", before)
                cause.__traceback__ = shown
            error = cause
        yield


def _set_cause(error: BaseException, cause: BaseException | None, suppress: bool) -> None:
    error.__cause__ = cause
    error.__suppress_context__ = suppress
