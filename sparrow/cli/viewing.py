"""Command ``view``: explore a stored tensor in the browser."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from sparrow.cli.arguments import At, StoredPath

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(view)


def view(
    path: StoredPath,
    at: At = None,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Port; any free one by default.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Serve a page to this machine that shows a tensor or bundle; Ctrl-C ends it.

    The address contains a secret token. The page changes nothing and loads nothing from elsewhere.

    \b
    Examples:
      sparrow view web.sparrow
      sparrow view web.sparrow --at 3 --port 8000 --no-browser
    """
    from sparrow.cli.arguments import open_any
    from sparrow.explorer.session import Explorer

    with suppress(KeyboardInterrupt), Explorer(open_any(path, at), None, port, 0, in_frames=False) as explorer:
        typer.echo(explorer.url)
        typer.echo("Ctrl-C ends it.", err=True)
        if browser:
            import webbrowser

            webbrowser.open(explorer.launch_url())  # other users can read the command line of the browser
        explorer.wait()
