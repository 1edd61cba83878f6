"""Generated pages of the site: reference, command line, notebooks, root."""

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
from notebook_outputs import Page, notebook_paths, render_notebook
from search_words import SYNONYMS

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
    "creation": "Creation",
    "generation": "Creation",
    "random": "Creation",
    "elementwise": "Elementwise functions",
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
    "sql": "SQL and explain",
    "tracing": "SQL and explain",
    "computing": "SQL and explain",
    "session": "SQL and explain",
    "batches": "Training",
    "export": "Creation",
    "ingest": "Creation",
}

# Sections of the page on Tensor: methods by name, the others by the class that defines them.
TENSOR_SECTIONS = {
    "Attributes": ["Base", "T", "density", "device", "mT", "nbytes", "nnz", "path", "stype", "version"],
    "Explore": [
        "describe",
        "explain",
        "hist",
        "spy",
        "head",
        "tail",
        "sample",
        "topk",
        "value_counts",
        "ExploreMethods",
    ],
    "Select and label": ["LabelMethods", "labels", "oindex", "vindex", "take"],
    "Reductions": ["Reductions"],
    "Elementwise": ["Operators"],
    "Shape": ["ArrayMethods", "reshape", "transpose"],
    "Products": ["LinearOperatorMethods"],
    "Compute and convert": ["ComputeMethods", "ExportMethods", "asformat", "refill", "to_device"],
    "Append and edit": ["WriteMethods"],
    "Save, versions and optimise": ["StorageMethods"],
}

# Sections of the page on the command line.
COMMAND_SECTIONS = {
    "Load": ["demo", "ingest", "datasets", "export"],
    "Explore": ["info", "show", "view", "sql", "shell", "explain", "files", "history"],
    "Compute": ["multiply", "graph", "pagerank"],
    "Models": ["als", "recommend", "train", "predict"],
    "Append": ["append", "resize", "restore"],
    "Optimise": ["orders", "compact", "verify", "vacuum"],
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
        elif name == "Tensor":
            pages["reference/tensor.md"] = "sp.Tensor", tensor_page()
        elif name == "Bundle":
            pages["reference/bundle.md"] = "sp.Bundle", "# sp.Bundle\n\n::: sparrow.Bundle\n"
        elif (getattr(thing, "__module__", None) or "").startswith("sparrow."):
            subjects[SUBJECTS[thing.__module__.rpartition(".")[2]]].append(name)
    for title, names in sorted(subjects.items()):
        path = f"reference/{title.lower().replace(' ', '-')}.md"
        pages[path] = title, "\n\n".join([f"# {title}", *(f"::: sparrow.{name}" for name in names)])
    return pages


def tensor_page() -> str:
    """Return the page on Tensor, its members in sections."""
    titles = {name: title for title, names in TENSOR_SECTIONS.items() for name in names}
    members: dict[str, list[str]] = {title: [] for title in (*TENSOR_SECTIONS, "More")}
    for name in sorted(name for name in dir(sp.Tensor) if not name.startswith("_")):
        owner = next(base.__name__ for base in sp.Tensor.__mro__ if name in vars(base))
        members[titles.get(name, titles.get(owner, "More"))].append(name)
    parts = [
        "# sp.Tensor",
        "::: sparrow.Tensor\n    options: {members: false, show_root_heading: false, inherited_members: false}",
    ]
    for title, names in members.items():
        blocks = [f"::: sparrow.Tensor.{name}\n    options: {{heading_level: 3}}" for name in names]
        parts += [f"## {title}", *blocks] if blocks else []
    return "\n\n".join(parts)


def _is_documented(module: types.ModuleType, name: str) -> bool:
    return bool(getattr(getattr(module, name), "__doc__", None)) and callable(getattr(module, name))


def command_line() -> str:
    """Return the help of every command, in sections."""
    program = typer.main.get_command(sparrow.cli.app.program())
    context = typer.Context(program, info_name="sparrow", terminal_width=100)
    parts = ["# Command line", _help(program, context)]

    def write_help(command: Any, context: Any) -> None:
        parts.append(f"### {context.command_path}\n\n{_help(command, context)}")
        for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
            inner = command.get_command(context, name)
            write_help(inner, typer.Context(inner, info_name=name, parent=context))

    names = program.list_commands(context)
    titled = {name for section in COMMAND_SECTIONS.values() for name in section}
    sections = {**COMMAND_SECTIONS, "More": [name for name in names if name not in titled]}
    for title, section in sections.items():
        if any(name in names for name in section):
            parts.append(f"## {title}")
        for name in section:
            if name in names:
                command = program.get_command(context, name)
                write_help(command, typer.Context(command, info_name=name, parent=context))
    return "\n\n".join(parts)


def _help(command: Any, context: Any) -> str:
    return f"```text\n{command.get_help(context)}\n```"


def decisions() -> dict[str, str]:
    """Return the titles of the decisions by page."""
    found = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    return {f"decisions/{path.name}": path.read_text().partition("\n")[0].lstrip("# ") for path in found}


def notebooks() -> dict[str, Page]:
    """Return the notebooks with their outputs, by page."""
    return {f"notebooks/{path.stem}.md": render_notebook(path) for path in notebook_paths()}


REFERENCE, NOTEBOOKS = reference(), notebooks()


def on_config(config: Any) -> Any:
    """Fill the menus whose pages are not named in mkdocs.yml."""
    listed = [{title: page} for page, (title, _) in sorted(REFERENCE.items(), key=lambda item: item[1][0])]
    menus = {
        "Notebooks": [{title: page} for page, (title, *_) in NOTEBOOKS.items()],
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
    for page, (_, text) in REFERENCE.items():
        files.append(File.generated(config, page, content=text))
    for page, notebook in NOTEBOOKS.items():
        files.append(File.generated(config, page, content=notebook.markdown))
        for name, picture in notebook.images.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    files.append(File.generated(config, "reference/cli.md", content=command_line()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point links to repository files at their pages; unlink those without one."""
    here = page.file.src_uri
    page.meta["tags"] = SYNONYMS.get(here, [])
    source = {site: given for given, site in ROOT_PAGES.items()}.get(here, f"docs/{here}")

    def lead(found: re.Match[str]) -> str:
        mark, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (ROOT / wanted).exists():
            return found[0]  # the strict build reports it
        if posixpath.dirname(wanted) == "docs/notebooks":
            wanted = wanted.removesuffix(".py") + ".md"
        site = ROOT_PAGES.get(wanted, wanted.removeprefix("docs/") if wanted.startswith("docs/") else None)
        if site is None or files.get_file_from_path(site) is None:
            return text
        return f"{mark}[{text}]({os.path.relpath(site, posixpath.dirname(here) or '.')}{anchor})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)", lead, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Turn the roles of docstrings into links, and fill in the outputs of notebooks."""
    notebook = NOTEBOOKS.get(page.file.src_uri)

    def link(found: re.Match[str]) -> str:
        name = found[1].lstrip("~")
        whole = name if name.startswith("sparrow") else f"sparrow.Tensor.{name}"
        shown = re.sub(r"^sparrow\.", "sp.", name)
        return f'<autoref optional identifier="{whole}"><code>{shown}</code></autoref>'

    if notebook is not None:
        html = re.sub(r'<div data-output="(\d+)"></div>', lambda found: notebook.outputs[int(found[1])], html)
    return re.sub(r":(?:func|class|meth|mod|attr|data|exc):<code>([\w.~]+)</code>", link, html)
