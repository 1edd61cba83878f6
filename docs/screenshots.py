"""Take the screenshots of the documents.

Run ``python docs/screenshots.py [NAME ...]``.
Requires Chromium and its driver (``apt-get install chromium chromium-driver``), and the extra ``dev``.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sparrow as sp

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

IMAGES = Path(__file__).resolve().parent / "images"


@contextmanager
def browser(width: int, height: int, dark: bool = False) -> Iterator[Chrome]:
    """Yield a headless Chromium whose page has that size in pixels."""
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
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        yield driver
    finally:
        driver.quit()


def write(driver: Chrome, name: str) -> Path:
    """Write what a browser shows to an image of the documents, in 256 colors."""
    from PIL import Image

    path = IMAGES / f"{name}.png"
    with Image.open(io.BytesIO(driver.get_screenshot_as_png())) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def explorer() -> Path:
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
            return write(driver, "explorer")


PICTURES: dict[str, Callable[[], Path]] = {"explorer": explorer}


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        sys.stdout.write(f"{PICTURES[name]()}\n")
