"""Check names and prose: docstring openings, line lengths, banned identifiers and phrases.

``python .ci/lint_language.py [PATH ...]`` prints findings as ``path:line: message``; exit status 1 if any.
The rules are those of CONTRIBUTING.md, "Style"; ruff checks the rest (imperative mood, missing docstrings).
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ("sparrow", "tests", "bench", "docs", "ingest", ".ci", "conftest.py")
FIRST_LINE_MAX, MARKDOWN_LINE_MAX = 79, 120

OPENINGS = re.compile(r"(What|How|Where|Which|Of|Whose|Who|Whatever|That|Those|Said|Told)\b")
"""Words that no docstring begins with."""

IDENTIFIERS = frozenset({
    "aside", "begun", "dealt", "deepest", "few", "gone", "handing", "held", "joining", "kept", "laid_out", "likeness",
    "made", "manner", "meant", "put_aside", "said", "set_aside", "shown", "spares", "stretch", "stretches", "suffices",
    "taken", "telling", "told", "whole_of", "whose", "declines", "begin_of", "each", "most", "whole",
})  # fmt: skip
"""Names of no function, class or module: bare participles and words of a private dialect."""

PARTICIPLE = re.compile(r"[a-z]+ed")
NOT_PARTICIPLES = frozenset({"embed", "explained", "feed", "hashed", "need", "searchsorted", "seed", "shed", "speed"})
"""Functions are verbs: one word that ends in "ed" is none, but for these."""

PHRASES = {
    r"\bput aside\b": "spill",
    r"\bset aside\b": "hold out, or reserve",
    r"\b(is|are|was|were|be|been) told\b": "report, print, log",
    r"\bhand(s|ed|ing)? over\b": "fall back, return, pass",
    r"\bstands? in for\b": "replace",
    r"\bis said\b|\bare said\b|\bwas said\b": "document, report",
    r"\b(is|are) none of\b": "is not a",
    r"\btakes? no part\b": "is ignored",
    r"\bnobody\b|\bsomebody\b": "name who does it",
    r"\bwithout a word\b": "silently",
    r"\bis had\b|\bare had\b|\bhave it had\b": "is computed, is available",
    r"\bcomes? out of it\b": "results",
    r"\bon the way\b": "meanwhile",
    r"\bentries that are there\b": "stored elements",
    r"\bgiven back\b": "released",
    r"\bso many\b": "n",
    r"\bdealt (out|with)\b": "distributed, handled",
    r"\bmade of nothing\b": "created",
    r"\bparted\b": "partitioned, split",
    r"\btells? (from|apart)\b": "distinguish",
}
"""Phrases that comments, docstrings, messages and documents avoid, with what to write."""

_PHRASES = {re.compile(pattern, re.IGNORECASE): better for pattern, better in PHRASES.items()}


def main(paths: list[str]) -> int:
    """Print the findings in files below ``paths``, by default the whole project; return the exit status."""
    found = 0
    for path in _files(paths):
        check = _check_markdown if path.suffix == ".md" else _check_python
        for line, message in sorted(set(check(path))):
            print(f"{path.relative_to(ROOT)}:{line}: {message}")
            found += 1
    if found:
        print(f"{found} findings")
    return min(found, 1)


def _files(paths: list[str]) -> Iterator[Path]:
    roots = [Path(path).resolve() for path in paths] or [
        *(ROOT / name for name in PYTHON), ROOT / "datasets", *sorted(ROOT.glob("*.md")),
    ]  # fmt: skip
    for root in roots:
        if root.is_file():
            yield root
        else:
            yield from sorted(p for p in root.rglob("*") if p.suffix in {".py", ".md"} and "__pycache__" not in p.parts)


def _check_markdown(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if len(line) > MARKDOWN_LINE_MAX:
            yield number, f"line has {len(line)} characters, expected at most {MARKDOWN_LINE_MAX}"
        yield from _check_phrases(number, line)


def _check_phrases(number: int, text: str) -> Iterator[tuple[int, str]]:
    for pattern, better in _PHRASES.items():
        for match in pattern.finditer(text):
            at = number + text.count("\n", 0, match.start())
            yield at, f'"{match.group()}": write {better!r} or the like'


def _check_python(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text(encoding="utf-8")
    is_test = path.is_relative_to(ROOT / "tests")
    if path == Path(__file__).resolve():
        return
    tree = ast.parse(source)
    stem = path.stem.lstrip("_")
    if stem in IDENTIFIERS:
        yield 1, f"module name {stem!r} is not a noun of the field"
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _check_docstring(node)
            yield from _check_attribute_docstrings(node.body)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name.strip("_")
            is_protocol = node.name == f"__{name}__"
            is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
            is_function = not (isinstance(node, ast.ClassDef) or is_property or is_protocol)
            is_participle = is_function and PARTICIPLE.fullmatch(name) and name not in NOT_PARTICIPLES
            if name.lower() in IDENTIFIERS or is_participle:
                yield (
                    node.lineno,
                    f"name {node.name!r} is a bare participle or dialect: functions are verbs, classes nouns",
                )
            if is_test and len(name) > 60:
                yield node.lineno, f"test name has {len(name)} characters, expected at most 60"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from _check_phrases(node.lineno, node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _check_phrases(token.start[0], token.string)


def _check_docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[int, str]]:
    text = ast.get_docstring(node)
    if not text:
        return
    line = node.body[0].lineno
    first = text.partition("\n")[0]
    if len(first) > FIRST_LINE_MAX:
        yield line, f"first line of the docstring has {len(first)} characters, expected at most {FIRST_LINE_MAX}"
    opening = OPENINGS.match(first)
    if opening:
        yield line, f'docstring opens with "{opening.group()}"'
    if re.match(r"Return (what|how|where|which) ", first):
        yield line, 'docstring opens with "Return what/how/where/which": name the thing that is returned'


def _check_attribute_docstrings(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Check the strings that document assignments."""
    for assignment, document in itertools.pairwise(body):
        match document:
            case ast.Expr(value=ast.Constant(value=str(text))) if isinstance(assignment, ast.Assign | ast.AnnAssign):
                opening = OPENINGS.match(text)
                if opening:
                    yield document.lineno, f'docstring of an attribute opens with "{opening.group()}"'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
