"""Text that no reader takes: other formats of graphs, markup, error pages."""

from __future__ import annotations

import json
import re

from sparrow.errors import IngestError
from sparrow.io.base.suggestion import TypedSource

__all__ = ["NTRIPLES", "reject_answer", "reject_foreign"]

NTRIPLES = "sed 's/ *\\.$//; s/ /\\t/; s/ /\\t/'"
"""Filter that turns N-Triples into triples."""

_KINDS: tuple[tuple[str, str, str, str | None], ...] = (
    (
        "a DIMACS graph",
        r"(c\b.*\n)*p\s+(sp|edge|col|max|min)\s+\d+\s+\d+$",
        "sed -n 's/^[ae] //p'",
        "edges",
    ),
    (
        "a Pajek graph",
        r"\*(vertices|network)\b",
        "convert it with networkx.write_edgelist(networkx.read_pajek(...))",
        None,
    ),
    (
        "DOT",
        r"(strict\s+)?(di)?graph\b[^\[\n]*\{",
        "convert it with networkx.write_edgelist(networkx.nx_pydot.read_dot(...))",
        None,
    ),
    (
        "GML",
        r"(graph\s*\[|creator\s+\")",
        "convert it with networkx.write_edgelist(networkx.read_gml(...))",
        None,
    ),
    (
        "a Rutherford-Boeing matrix",
        r".*\n[\d ]+\n[rcipq][suhzr][ae]\s+\d+\s+\d+\s+\d+",
        "scipy.io.hb_read(...) reads it: sp.asarray(...).save(DST)",
        None,
    ),
    ("GDF", r"nodedef>", "sed -E '1,/^edgedef>/d; s/^([^,]*,[^,]*).*/\\1/'", "edges"),
    ("UCINET's DL", r"dl\s+n\s*=", "convert it with igraph.Graph.Read_DL(...).write_edgelist(...)", None),
    (
        "an adjacency list of networkx",
        r"#.*\n#\s*GMT .*\n#",
        "convert it with networkx.write_edgelist(networkx.read_adjlist(...)) or read_multiline_adjlist",
        None,
    ),
    ("N-Triples", r"(<[^>\s]+>|_:\S+)\s+<[^>\s]+>\s+.*\.$", NTRIPLES, "triples"),
)
"""Graph formats: name, pattern of the first lines, the way to read them, and the format that this gives."""

_ERROR_PAGE = re.compile(
    r"(?i)(error[ :]*)?(40[0-9]|429|50[0-4])\b|access denied|forbidden|(file |page )?not found|bad request|"
    r"too many requests|rate limit|service unavailable|internal server error|unauthorized|invalid username"
)
"""Begin of an answer of a server in place of a file."""
_ANSWER_KEYS = frozenset({
    "error", "errors", "message", "detail", "details", "status", "code", "error_description", "documentation_url",
    "title", "type", "reason", "timestamp", "path", "request_id", "requestId",
})  # fmt: skip
"""Members of an answer in JSON that a server gives in place of a file."""
_MAX_PAGE_LINES = 3
_YAML = re.compile(r"---(\s|$)|\s*(- )?[A-Za-z_][\w .-]*:(\s|$)|\s*- |\s*#|\s*$")


def reject_foreign(text: str, typed: TypedSource, name: str) -> None:
    """Raise ``IngestError`` for text that no reader takes, with a way to read it.

    Parameters
    ----------
    text
        First lines, whole.
    typed
        The source as it was typed, for commands.
    name
        Name of the file.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return
    token = lines[0][:80]
    for kind, pattern, way, read_as in _KINDS:
        if re.match(pattern, "\n".join(lines), re.IGNORECASE | re.MULTILINE):
            problem = f"this is {kind}, not an edge list"
            if read_as is None:
                raise IngestError(f"{problem}: {way}", name, token=token)
            raise IngestError(problem, name, token=token, commands=[typed.pipe(way, read_as)])
    if lines[0][0] == "<":
        markup = "HTML, perhaps a page in place of the file" if "html" in text[:1000].lower() else "XML"
        way = "look at it in a browser, and fetch the file itself" if markup[0] == "H" else "extract lines from it"
        raise IngestError(f"this is HTML or XML, not an edge list: it is {markup}; {way}", name, token=token)
    if re.fullmatch(r"\[+[A-Za-z_][^\[\]{}\",]*\]+", lines[0]):
        raise IngestError("this is a file of settings (INI or TOML), not data in lines", name, token=token)
    if len(lines) <= _MAX_PAGE_LINES and _ERROR_PAGE.match(lines[0]) and re.search("[A-Za-z]{3}", lines[0]):
        raise IngestError("this is an answer of a server, not the file: fetch it again", name, token=token)
    if _is_yaml(text):
        raise IngestError("this is YAML, not data in lines: read it with Python's yaml.safe_load", name, token=token)


def reject_answer(text: str, name: str) -> None:
    """Raise ``IngestError`` for JSON that a server answers in place of a file."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(found, dict) and {*found} <= _ANSWER_KEYS and {"error", "errors", "message", "detail"} & {*found}:
        problem = "this is an answer of a server, not the file: fetch it again"
        raise IngestError(problem, name, token=" ".join(text.split())[:80])


def _is_yaml(text: str) -> bool:
    """Return whether most lines are keys and values, the first one too."""
    lines = [line for line in text.split("\n") if line.strip()]
    keys = [_YAML.match(line) is not None for line in lines]
    named = sum(re.match(r"\s*(- )?[A-Za-z_][\w .-]*:(\s|$)", line) is not None for line in lines)
    return keys[0] and 10 * sum(keys) >= 9 * len(keys) and (2 * named >= len(lines) or lines[0].startswith("---"))
