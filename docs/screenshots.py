"""Take the screenshots of the documents.

Run ``python docs/screenshots.py [--out FOLDER] [NAME ...]``.
Requires Chromium and its driver (``apt-get install chromium chromium-driver``), and the extra ``dev``.
"""

from __future__ import annotations

import argparse
import html
import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sparrow as sp

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

IMAGES = Path(__file__).resolve().parent / "images"

STYLE = """
body { margin: 0; background: #fff; color: #1b1f24; font: 13px/1.45 "DejaVu Sans", sans-serif; }
#page { display: inline-block; box-sizing: border-box; padding: 14px 18px; }
.code { background: #f5f6f7; border: 1px solid #e1e4e8; border-radius: 4px; margin: 8px 0; padding: 8px 10px;
        font: 13px/1.5 "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
.output { margin: 6px 0 12px 10px; }
table { border-collapse: collapse; font-size: 12px; }
td, th { padding: 2px 8px; }
.terminal { background: #14181d; }
.terminal #page { padding: 16px 20px; }
.terminal pre { color: #dde3ea; font: 14px/1.165 "DejaVu Sans Mono", monospace; margin: 0; }
"""


@contextmanager
def browser(width: int, height: int, dark: bool = False, scale: float = 1) -> Iterator[Chrome]:
    """Yield a headless Chromium whose page has that size in CSS pixels."""
    from selenium import webdriver

    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if None in found.values():
        sys.exit("screenshots require Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(found["chromium"])
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(switch)
    driver = webdriver.Chrome(options, webdriver.ChromeService(str(found["chromedriver"])))
    try:
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        yield driver
    finally:
        driver.quit()


def write(shot: bytes, path: Path) -> Path:
    """Write a screenshot to a file, in 256 colors."""
    from PIL import Image

    with Image.open(io.BytesIO(shot)) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


TERMINAL = (
    """sparrow sql "from 'web.sparrow' select dst, count(*) as links, max(src) as last
               group by dst order by links desc limit 5\"""",
    """sparrow sql "explain from 'web.sparrow' select count(*) where src < 100\"""",
)
"""Commands of the picture of a terminal."""


def shoot_html(body: str, path: Path, width: int, kind: str = "") -> Path:
    """Take the picture of a page given as HTML."""
    page = f'<style>{STYLE}</style><body class="{kind}"><div id="page" style="width:{width}px">{body}</div></body>'
    with tempfile.NamedTemporaryFile("w", suffix=".html") as file, browser(width, 900, scale=1.5) as driver:
        file.write(f'<!doctype html><meta charset="utf-8">{page}')
        file.flush()
        driver.get(f"file://{file.name}")
        return write(driver.find_element("id", "page").screenshot_as_png, path)


def shoot_cells(cells: Sequence[tuple[str, str]], path: Path, width: int = 860) -> Path:
    """Take the picture of cells of a notebook: pairs of code and HTML of the output."""
    parts = [f'<div class="code">{html.escape(code)}</div><div class="output">{shown}</div>' for code, shown in cells]
    return shoot_html("".join(parts), path, width)


def shoot_results(cells: Sequence[str], path: Path, width: int = 860) -> Path:
    """Run cells in one namespace, and take the picture of their last expressions."""
    names: dict[str, Any] = {"sp": sp}
    shown = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder), sp.config(progress=False):
        for code in cells:
            *statements, last = code.split("\n")
            exec("\n".join(statements), names)
            shown.append((code, eval(last, names)._repr_html_().replace(os.getcwd(), "/home/ann")))
        return shoot_cells(shown, path, width)


def tensor(path: Path) -> Path:
    """Take the picture of two tensors, one with labels."""
    small = (
        'stars = sp.from_coords([[0, 1, 1], [0, 1, 2]], [4.5, 3.0, 5.0], dims=("user", "film"),\n'
        '                       labels={"user": ["ann", "bob"], "film": ["Alien", "Brazil", "Casablanca"]})\n'
        "stars"
    )
    web = 'web = sp.ingest.edges(sp.datasets.path("cnr-2000"), "web.sparrow")\nweb'
    return shoot_results([small, web], path)


def vector(path: Path) -> Path:
    """Take the picture of a vector: the PageRank of a web graph."""
    code = 'web = sp.ingest.edges(sp.datasets.path("cnr-2000"), "web.sparrow")\nsp.graph.pagerank(web)'
    return shoot_results([code], path)


def plan(path: Path) -> Path:
    """Take the picture of an executed plan."""
    code = (
        'web = sp.ingest.edges(sp.datasets.path("cnr-2000"), "web.sparrow")\n'
        '(web[200_000:200_100] > 0).sum(axis="dst").explain(analyze=True)'
    )
    return shoot_results([code], path)


def model(path: Path) -> Path:
    """Take the picture of a fitted model."""
    code = (
        'census = sp.ingest.libsvm(sp.datasets.path("a9a"), "a9a.sparrow")\n'
        "sp.models.LogisticRegression(epochs=12, validation=0.1).fit(census)"
    )
    return shoot_results([code], path)


def progress(path: Path) -> Path:
    """Take the picture of a fit that runs and of one that is complete, in a notebook."""
    from jupyter_client.manager import start_new_kernel

    ingest = 'census = sp.ingest.libsvm(sp.datasets.path("a9a"), "a9a.sparrow")'
    fit = "sp.models.LogisticRegression(epochs=60, validation=0.1).fit(census);"
    states: list[str] = []

    def collect(message: Any) -> None:
        if message["msg_type"] in ("display_data", "update_display_data"):
            states.append(message["content"]["data"].get("text/html", ""))

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        manager, client = start_new_kernel()
        try:
            prepare = f"import sys\nsys.modules['ipywidgets'] = None\nimport sparrow as sp\n{ingest}"  # plain HTML
            client.execute_interactive(prepare, output_hook=lambda _: None)
            client.execute_interactive(fit, output_hook=collect)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    return shoot_cells([(fit, states[len(states) // 2]), (fit, states[-1])], path)


def terminal(path: Path) -> Path:
    """Take the picture of commands in a terminal of 88 columns."""
    from rich.console import Console
    from rich.text import Text

    shown = Text()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        sp.ingest.edges(sp.datasets.path("cnr-2000"), "web.sparrow")
        for command in TERMINAL:
            shown.append("$ ", "bold green").append(f"{command}\n").append(Text.from_ansi(run_in_terminal(command)))
            shown.append("\n")
    console = Console(record=True, width=88, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(shown, end="")
    return shoot_html(console.export_html(inline_styles=True, code_format="<pre>{code}</pre>"), path, 800, "terminal")


def run_in_terminal(command: str, columns: int = 88) -> str:
    """Return the output of a command on a terminal, with its escape sequences."""
    reading, writing = pty.openpty()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {**os.environ, "PATH": path, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "50"}
    process = subprocess.Popen(
        command, shell=True, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.DEVNULL, env=variables
    )
    os.close(writing)
    parts = []
    while True:
        try:
            part = os.read(reading, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(reading)
    if process.wait():
        raise RuntimeError(f"{command} exited with {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def explorer(path: Path) -> Path:
    """Take the picture of the explorer: the web graph cnr-2000, a query run."""
    from selenium.webdriver.support.ui import WebDriverWait

    ready = (
        "return document.documentElement.dataset.state === 'exact' && window.sparrow"
        " && document.documentElement.dataset.side === String(window.sparrow.number)"
        " && document.querySelectorAll('#result td').length > 0"
    )
    with tempfile.TemporaryDirectory() as folder, browser(1280, 1180) as driver:
        web = sp.datasets.load("cnr-2000", cache=folder)
        with sp.explore(web) as page:
            driver.get(page.url)
            WebDriverWait(driver, 60).until(lambda _: driver.execute_script("return window.sparrow?.picture?.exact"))
            driver.execute_script("document.getElementById('run').click()")
            WebDriverWait(driver, 60).until(lambda _: driver.execute_script(ready))
            return write(driver.get_screenshot_as_png(), path)


PICTURES: dict[str, Callable[[Path], Path]] = {
    "tensor": tensor,
    "vector": vector,
    "plan": plan,
    "model": model,
    "progress": progress,
    "explorer": explorer,
    "terminal": terminal,
}


def main() -> None:
    """Take the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description="Take the screenshots of the documents.")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    parser.add_argument("names", nargs="*", choices=[*PICTURES, []], help="pictures to take; all by default")
    arguments = parser.parse_args()
    for name in arguments.names or PICTURES:
        sys.stdout.write(f"{PICTURES[name](arguments.out / f'{name}.png')}\n")


if __name__ == "__main__":
    main()
