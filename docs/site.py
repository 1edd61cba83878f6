"""Generated pages of the site: reference, command line, files of the root."""

from __future__ import annotations

import os
import posixpath
import re
import types
from collections import defaultdict
from pathlib import Path
from typing import Any

import typer
import typer.main
from mkdocs.structure.files import File

import sparrow as sp
import sparrow.cli.app

ROOT = Path(__file__).resolve().parent.parent

# Files of the repository that are pages, by path on the site.
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "bench/RESULTS.md": "results.md",
    "datasets/README.md": "datasets.md",
}

# Titles of the reference pages, by the module that defines a function.
SUBJECTS = {
    "creation": "Creating tensors",
    "generation": "Creating tensors",
    "random": "Creating tensors",
    "elementwise": "Element-wise functions",
    "statistics": "Reductions",
    "reductions": "Reductions",
    "searching": "Searching and sorting",
    "sorting": "Searching and sorting",
    "sets": "Searching and sorting",
    "indexing": "Indexing and shapes",
    "views": "Indexing and shapes",
    "manipulation": "Indexing and shapes",
    "labels": "Indexing and shapes",
    "contraction": "Products",
    "products": "Products",
    "sddmm": "Products",
    "neighbors": "Products",
    "einsum_sql": "Products",
    "semirings": "Products",
    "dtypes": "Types and settings",
    "inspection": "Types and settings",
    "settings": "Types and settings",
    "versions": "Types and settings",
    "sql": "SQL and plans",
    "tracing": "SQL and plans",
    "computing": "SQL and plans",
    "batches": "Training",
    "export": "Creating tensors",
    "ingest": "Creating tensors",
}


def reference() -> dict[str, tuple[str, str]]:
    """Return for each page of the reference its title and text."""
    subjects: dict[str, list[str]] = defaultdict(list)
    pages: dict[str, tuple[str, str]] = {}
    for name in (name for name in sp.__all__ if not name.startswith("_")):
        thing = getattr(sp, name)
        if isinstance(thing, types.ModuleType):
            members = [f"::: sparrow.{name}.{member}" for member in thing.__all__ if _is_documented(thing, member)]
            about = (thing.__doc__ or "").strip()
            pages[f"reference/{name}.md"] = f"sp.{name}", "\n\n".join([f"# sp.{name}", about, *members])
        elif name in {"Tensor", "Bundle"}:
            pages[f"reference/{name.lower()}.md"] = f"sp.{name}", f"# sp.{name}\n\n::: sparrow.{name}\n"
        elif (getattr(thing, "__module__", None) or "").startswith("sparrow."):
            subjects[SUBJECTS[thing.__module__.rpartition(".")[2]]].append(name)
    for title, names in sorted(subjects.items()):
        path = f"reference/{title.lower().replace(' ', '-')}.md"
        pages[path] = title, "\n\n".join([f"# {title}", *(f"::: sparrow.{name}" for name in names)])
    return pages


def _is_documented(module: types.ModuleType, name: str) -> bool:
    return bool(getattr(getattr(module, name), "__doc__", None)) and callable(getattr(module, name))


def command_line() -> str:
    """Return the help of every command."""
    parts = ["# Command line"]

    def write_help(command: Any, context: Any) -> None:
        parts.append(f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```")
        for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
            inner = command.get_command(context, name)
            write_help(inner, typer.Context(inner, info_name=name, parent=context))

    program = typer.main.get_command(sparrow.cli.app.program())
    write_help(program, typer.Context(program, info_name="sparrow", terminal_width=100))
    return "\n\n".join(parts)


def decisions() -> dict[str, str]:
    """Return the titles of the decisions by page."""
    found = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    return {f"decisions/{path.name}": path.read_text().partition("\n")[0].lstrip("# ") for path in found}


def notebooks() -> dict[str, tuple[str, str]]:
    """Return for each notebook its title and text, made of its cells."""
    pages = {}
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.py")):
        parts = []
        for cell in re.split(r"^# %%", path.read_text(), flags=re.MULTILINE)[1:]:
            kind, _, lines = cell.partition("\n")
            text = lines.strip("\n")
            prose = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
            parts.append(prose if "[markdown]" in kind else f"```python\n{text}\n```")
        title = next(part for part in parts if part.startswith("# ")).partition("\n")[0].lstrip("# ")
        pages[f"notebooks/{path.stem}.md"] = title, "\n\n".join(parts)
    return pages


REFERENCE, NOTEBOOKS = reference(), notebooks()


def on_config(config: Any) -> Any:
    """Fill the menus whose pages are not named in mkdocs.yml."""
    listed = [{title: page} for page, (title, _) in sorted(REFERENCE.items(), key=lambda item: item[1][0])]
    menus = {
        "Notebooks": [{title: page} for page, (title, _) in NOTEBOOKS.items()],
        "Reference": [*listed, {"Command line": "reference/cli.md"}],
        "Explanations": [
            {"The way of a query": "architecture.md"},
            *({title: page} for page, title in decisions().items()),
        ],
    }
    for entry in config["nav"]:
        for title, pages in entry.items():
            if title in menus:
                entry[title] = [*menus[title], *pages]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add pages from outside the folder and generated ones."""
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for page, (_, text) in {**REFERENCE, **NOTEBOOKS}.items():
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference/cli.md", content=command_line()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point links to repository files at their pages; unlink those without one."""
    here = page.file.src_uri
    source = {site: given for given, site in ROOT_PAGES.items()}.get(here, f"docs/{here}")

    def lead(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (ROOT / wanted).exists():
            return found[0]  # the strict build reports it
        if posixpath.dirname(wanted) == "docs/notebooks":
            wanted = wanted.removesuffix(".py") + ".md"
        site = ROOT_PAGES.get(wanted, wanted.removeprefix("docs/") if wanted.startswith("docs/") else None)
        if site is None or files.get_file_from_path(site) is None:
            return text
        return f"[{text}]({os.path.relpath(site, posixpath.dirname(here) or '.')}{anchor})"

    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)", lead, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Turn the roles of docstrings into links."""

    def link(found: re.Match[str]) -> str:
        name = found[1].lstrip("~")
        whole = name if name.startswith("sparrow") else f"sparrow.Tensor.{name}"
        shown = re.sub(r"^sparrow\.", "sp.", name)
        return f'<autoref optional identifier="{whole}"><code>{shown}</code></autoref>'

    return re.sub(r":(?:func|class|meth|mod|attr|data|exc):<code>([\w.~]+)</code>", link, html)
