"""The page in headless Chromium; skipped where no Chromium is installed."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

import sparrow as sp
from sparrow.explorer import Explorer
from sparrow.testing import tune
from tests.explorer.helpers import make_sparse, save

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or CHROMEDRIVER is None,
    reason="requires chromium and chromedriver: apt-get install chromium chromium-driver",
)

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


class Page:
    """A page of an explorer in the browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, width: int = 1280, height: int = 1000, dark: bool = False) -> None:
        """Open a page, and wait until its window is exact."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get("about:blank")
        self.driver.get(url)
        self.settle()

    def __getitem__(self, name: str) -> WebElement:
        return self.driver.find_element(By.ID, name)

    def js(self, script: str, *args: Any) -> Any:
        """Return the value of a script."""
        return self.driver.execute_script(f"return {script}", *args)

    def wait(self, script: str) -> None:
        """Wait until a condition in JavaScript holds."""
        WebDriverWait(self.driver, 60, 0.02).until(lambda _: self.js(script), script)

    def settle(self) -> None:
        """Wait until the picture is exact and everything beside it belongs to it."""
        self.wait(
            "document.documentElement.dataset.state === 'exact' && window.sparrow"
            " && document.documentElement.dataset.side === String(window.sparrow.number)"
        )

    @property
    def ranges(self) -> list[list[int]]:
        """The ranges of the axes in view."""
        found: list[list[int]] = self.js("window.sparrow.picture.window.ranges")
        return found

    def point(self, across: float, down: float) -> tuple[int, int]:
        """Return the offset of a point of the picture from the center of its canvas."""
        box = self.js(
            "(() => {const c = document.getElementById('picture').getBoundingClientRect();"
            "return [c.width, c.height]})()"
        )
        left, top, right, bottom = 80, 54, 54, 40
        x, y = left + across * (box[0] - left - right), top + down * (box[1] - top - bottom)
        return round(x - box[0] / 2), round(y - box[1] / 2)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag the mouse between two points of the picture."""
        (x0, y0), (x1, y1) = self.point(*start), self.point(*end)
        chain = (
            ActionChains(self.driver, duration=20).move_to_element_with_offset(self["picture"], x0, y0).click_and_hold()
        )
        chain.move_by_offset(x1 - x0, y1 - y0).release().perform()

    def colors(self) -> int:
        """Return the number of colors within the picture."""
        found: int = self.js(
            "new Set(new Uint32Array(document.getElementById('picture').getContext('2d')"
            ".getImageData(90, 70, 400, 300).data.buffer)).size"
        )
        return found


def read_log(driver: webdriver.Chrome) -> list[Any]:
    """Return the messages on the console since the last call."""
    found: list[Any] = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return found


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, webdriver.ChromeService(str(CHROMEDRIVER)))
    yield found
    found.quit()


@pytest.fixture
def page(driver: webdriver.Chrome) -> Iterator[Page]:
    """A page, checked for console messages in the end."""
    read_log(driver)
    yield Page(driver)
    assert read_log(driver) == []
    assert driver.execute_script("return window.hacked") is None
    driver.get("about:blank")


@pytest.fixture
def matrix(tmp_path: Path) -> sp.Tensor:
    return save(make_sparse((400, 300), 6000, dims=("src", "dst")), tmp_path / "web.sparrow")


@pytest.fixture
def stars(tmp_path: Path) -> sp.Tensor:
    films = [HOSTILE if k == 1 else f"film {k}" for k in range(30)]
    users = [f"user {k}" for k in range(40)]
    return save(make_sparse((40, 30), 500, dims=("user", HOSTILE)), tmp_path / "stars.sparrow", {0: users, 1: films})


def test_first_look(page: Page, matrix: sp.Tensor) -> None:
    with sp.explore(matrix) as explorer:
        page.open(explorer.url)
        assert page["title"].text == "matrix"
        assert page["status"].text == f"{matrix.nnz:,} elements, exact"
        assert page.ranges == [[0, 400], [0, 300]]
        assert page.colors() > 3
        assert "src" in page["degrees-note"].text
        assert "from 1 to 5" in page["values-note"].text
        assert "reads" in page["groups-note"].text
        assert page["code"].text == "matrix"
        assert f"{matrix.nnz:,} elements" in str(page["picture"].get_attribute("aria-label"))


def test_estimates_are_announced_and_refined(page: Page, matrix: sp.Tensor) -> None:
    with tune("explorer", first_chunks=2, refine_chunks=1), sp.explore(matrix) as explorer:
        page.driver.get(explorer.url)
        page.wait("document.documentElement.dataset.state === 'estimated'")
        text = page["status"].text
        page.settle()
        assert "estimated from" in text
        assert page["status"].text == f"{matrix.nnz:,} elements, exact"
        assert not page["progress"].is_displayed()


def test_box_back_and_reset(page: Page, matrix: sp.Tensor) -> None:
    with sp.explore(matrix) as explorer:
        page.open(explorer.url)
        page.drag((0.25, 0.5), (0.5, 0.75))
        page.wait("window.sparrow.picture.window.ranges[0][0] > 0")
        page.settle()
        (y0, y1), (x0, x1) = page.ranges
        assert (y0, y1) == pytest.approx((200, 300), abs=4)
        assert (x0, x1) == pytest.approx((75, 150), abs=3)
        dense = matrix.to_numpy()
        assert page["status"].text == f"{(dense[y0:y1, x0:x1] != 0).sum()} elements, exact"
        assert page["code"].text == f"matrix[{y0}:{y1}, {x0}:{x1}]"
        assert "skips" in page["groups-note"].text
        address = page.driver.current_url
        page.driver.refresh()
        page.settle()
        assert page.driver.current_url == address
        assert page.ranges == [[y0, y1], [x0, x1]]
        page["reset"].click()
        page.wait("window.sparrow.picture.window.ranges[0][0] === 0")
        page["back"].click()
        page.wait(f"window.sparrow.picture.window.ranges[0][0] === {y0}")
        page.settle()


def test_wheel_and_double_click_zoom_at_the_pointer(page: Page, matrix: sp.Tensor) -> None:
    with sp.explore(matrix) as explorer:
        page.open(explorer.url)
        x, y = page.point(0.25, 0.25)
        origin = ScrollOrigin.from_element(page["picture"], x, y)
        ActionChains(page.driver).scroll_from_origin(origin, 0, -300).perform()
        page.wait("window.sparrow.picture.window.ranges[0][1] < 400")
        page.settle()
        (y0, y1), (x0, x1) = page.ranges
        assert 0 < y0 < 100 < y1 < 400
        assert 0 < x0 < 75 < x1 < 300
        ActionChains(page.driver).move_to_element_with_offset(page["picture"], x, y).double_click().perform()
        page.wait(f"window.sparrow.picture.window.ranges[0][1] < {y1}")
        page.settle()
        before = page.ranges
        margin = ScrollOrigin.from_element(page["picture"], x, page.point(0, 0)[1] - 20)
        ActionChains(page.driver).scroll_from_origin(margin, 0, -300).perform()
        page.wait(f"window.sparrow.picture.window.ranges[1][0] > {before[1][0]}")
        page.settle()
        assert page.ranges[0] == before[0]  # over a margin only that axis


def test_keyboard(page: Page, matrix: sp.Tensor) -> None:
    with sp.explore(matrix) as explorer:
        page.open(explorer.url)
        picture = page["picture"]
        picture.send_keys("+")
        page.wait("window.sparrow.picture.window.ranges[0][0] === 100")
        page.settle()
        assert page.ranges == [[100, 300], [75, 225]]
        picture.send_keys(Keys.ARROW_DOWN)
        page.wait("window.sparrow.picture.window.ranges[0][0] === 140")
        picture.send_keys(Keys.ARROW_LEFT)
        page.wait("window.sparrow.picture.window.ranges[1][0] === 45")
        picture.send_keys("0")
        page.wait("window.sparrow.picture.window.ranges[0][1] === 400")
        page.settle()
        ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()
        page.js("document.body.focus(), document.activeElement.blur()")
        ActionChains(page.driver).send_keys("/").perform()
        assert page.driver.switch_to.active_element.get_attribute("id") == "search"


def test_panning_keeps_the_size(page: Page, matrix: sp.Tensor) -> None:
    with sp.explore(matrix) as explorer:
        page.open(explorer.url)
        page["zoom-in"].click()
        page.wait("window.sparrow.picture.window.ranges[0][0] === 100")
        ActionChains(page.driver).key_down(Keys.SHIFT).perform()
        page.drag((0.5, 0.5), (0.75, 0.25))
        ActionChains(page.driver).key_up(Keys.SHIFT).perform()
        page.wait("window.sparrow.picture.window.ranges[0][0] > 120")
        page.settle()
        (y0, y1), (x0, x1) = page.ranges
        assert (y1 - y0, x1 - x0) == (200, 150)
        assert x0 < 75


def test_hostile_labels_are_text(page: Page, stars: sp.Tensor) -> None:
    with sp.explore(stars) as explorer:
        page.open(explorer.url)
        assert HOSTILE in page["facts"].text
        page["search"].send_keys("script")
        page.wait("document.querySelectorAll('#found li[role=option]').length === 1")
        assert HOSTILE in page["found"].text
        page["search"].send_keys(Keys.ENTER)
        page.wait("window.sparrow.mark?.start === 1")
        page.settle()
        x, y = page.point(0.1, 0.01)
        ActionChains(page.driver).move_to_element_with_offset(page["picture"], x + 46, y).perform()
        page.wait("!document.getElementById('tip').hidden")
        assert "user 0" in page["tip"].text
        page["tab-elements"].click()
        page.wait("document.querySelectorAll('#elements td').length > 0")
        assert HOSTILE in page["elements"].text
        page["tab-plan"].click()
        page.wait("document.querySelectorAll('.node').length > 0")
        page["tab-versions"].click()
        page.wait("document.querySelectorAll('#versions button').length === 1")
        page["tab-sql"].click()
        page["run"].click()
        page.wait("document.querySelectorAll('#result td').length > 0")
        page["query"].clear()
        page["query"].send_keys(f'select "{HOSTILE}" from stars')
        page["run"].click()
        page.wait("document.querySelectorAll('#result th').length === 1")
        assert HOSTILE in page["result"].text
        assert page.js("document.scripts.length") == 1
        assert page.js("document.images.length") == 0


def test_labels_at_the_axes_and_values_in_cells(page: Page, stars: sp.Tensor) -> None:
    with sp.explore(stars) as explorer:
        page.open(explorer.url)
        page["search"].send_keys("user 17\n")
        page.wait("window.sparrow.mark && window.sparrow.picture.window.ranges[0][0] === 1")
        page.settle()
        assert page.ranges[0] == [1, 34]
        assert page.js("window.sparrow.picture.labels[0][16]") == "user 17"
        assert "value per cell" in page["legend-text"].text


def test_sql(page: Page, matrix: sp.Tensor) -> None:
    with sp.explore(matrix) as explorer:
        page.open(explorer.url)
        page["run"].click()
        page.wait("document.querySelectorAll('#result tbody tr').length === 10")
        assert page["sql-note"].text.startswith("10 rows")
        page["query"].clear()
        page["query"].send_keys("copy (select 1) to 'x.csv'", Keys.CONTROL, Keys.ENTER)
        page.wait("!document.getElementById('sql-error').hidden")
        assert "must be a query" in page["sql-error"].text
        page["query"].clear()
        page["query"].send_keys("select count(*) as n from matrix ")
        page["zoom-in"].click()
        page.wait("window.sparrow.picture.window.ranges[0][0] === 100")
        page["insert-window"].click()
        page["query"].send_keys(Keys.CONTROL, Keys.ENTER)
        page.wait("!document.getElementById('result').hidden")
        assert page["result"].text.split()[-1] == str((matrix.to_numpy()[100:300, 75:225] != 0).sum())
        page["query"].clear()
        page["query"].send_keys("select count(*) from range(1000000000000) a, range(1000000) b where a.range % 7 = 3")
        page["run"].click()
        page.wait("!document.getElementById('cancel').disabled")
        page["cancel"].click()
        page.wait("!document.getElementById('sql-error').hidden")
        assert page["sql-error"].text == "cancelled"


def test_versions_timeline(page: Page, matrix: sp.Tensor) -> None:
    before = matrix.nnz
    matrix[:200] = 0
    with sp.explore(matrix) as explorer:
        page.open(explorer.url)
        page["tab-versions"].click()
        page.wait("document.querySelectorAll('#versions button').length === 2")
        first, second = page["versions"].find_elements(By.TAG_NAME, "button")
        assert second.get_attribute("aria-pressed") == "true"
        first.click()
        page.wait("window.sparrow.about.version === 0")
        page.settle()
        assert page["status"].text == f"{before:,} elements, exact"
        assert "version 0" in page["facts"].text


def test_more_dimensions_and_vectors(page: Page) -> None:
    cube, wave = make_sparse((20, 30, 10), 2000), np.sin(np.arange(5000) / 200)
    with sp.explore(sp.Bundle({"cube": cube, "wave": wave}), name="both") as explorer:
        page.open(explorer.url)
        dense = cube.to_numpy() != 0
        assert page["status"].text == f"{dense.sum():,} elements, exact"
        page.driver.find_element(By.CSS_SELECTOR, "#others input[type=checkbox]").click()
        page.wait("window.sparrow.picture.window.fixed['1'] === 0")
        page.settle()
        assert page["status"].text == f"{dense[:, 0].sum()} elements, exact"
        box = page.driver.find_element(By.CSS_SELECTOR, "#others input[type=number]")
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys("7", Keys.TAB)
        page.wait("window.sparrow.picture.window.fixed['1'] === 7")
        page.settle()
        assert page["code"].text == "cube[:, 7]"
        Select(page["vertical"]).select_by_visible_text("d1")
        page.wait("window.sparrow.picture?.window.axes[0] === 1")
        page.settle()
        assert page.ranges == [[0, 30], [0, 10]]
        Select(page["measure"]).select_by_value("mean")
        page.wait("document.getElementById('legend-text').textContent.startsWith('mean value')")
        page.settle()
        Select(page["tensor"]).select_by_value("wave")
        page.wait("window.sparrow.about.name === 'wave' && window.sparrow.picture")
        page.settle()
        assert not page["degrees-card"].is_displayed()
        assert page.colors() > 1


ODD = {
    "empty": sp.zeros((0, 5)),
    "without elements": sp.zeros((7, 5)),
    "one cell": sp.ones((1, 1)),
    "one row": make_sparse((1, 5000), 400),
    "one column": make_sparse((5000, 1), 400),
    "huge": sp.from_coords([[0, 2**61, 2**62 - 1], [3, 2**40, 2**62 - 2]], [1, 2, 3], shape=(2**62, 2**62 - 1)),
    "NaN": sp.from_coords([[0, 1, 2], [0, 1, 2]], [np.nan, np.inf, -np.inf]),
    "negative": make_sparse((30, 30), 300) * -1.5,
    "signs": make_sparse((30, 30), 300) - 2.5,
    "complex": make_sparse((30, 30), 300) * (1 - 2j),
    "boolean": make_sparse((30, 30), 300) > 2,
    "unsigned": sp.asarray(np.array([[2**64 - 1, 0], [1, 2]], np.uint64)),
    "full": sp.ones((40, 60)),
    "vector without elements": sp.zeros((9,)),
    "huge vector": sp.from_coords([[5, 2**61]], [1.0, -2.0], shape=(2**62,)),
    "four": make_sparse((4, 5, 6, 7), 300),
}


@pytest.mark.parametrize("thing", ODD)
def test_odd_tensors(page: Page, thing: str) -> None:
    tensor = ODD[thing]
    with sp.explore(tensor, name=thing) as explorer:
        page.open(explorer.url)
        expected = f"{tensor.nnz:,} element{'s' * (tensor.nnz != 1)}, exact" if tensor.nnz else "no elements here"
        assert page["status"].text == expected
        for name in ("elements", "plan", "versions", "sql"):
            page[f"tab-{name}"].click()
        if tensor.ndim > 1:
            for measure in ("sum", "mean", "count"):
                Select(page["measure"]).select_by_value(measure)
                page.settle()
        page["zoom-in"].click()
        page.settle()
        page["picture"].send_keys("-0")
        page.settle()
        page["run"].click()
        page.wait("!document.getElementById('run').disabled")
        assert not page["sql-error"].is_displayed()
        assert not page["problem"].is_displayed()
        assert page["status"].text == expected


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 800, 1600])
def test_every_width_and_theme(page: Page, stars: sp.Tensor, width: int, dark: bool) -> None:
    with sp.explore(stars) as explorer:
        page.open(explorer.url, width, 900, dark)
        assert page.js("document.documentElement.scrollWidth <= innerWidth")
        background = page.js("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(","))) < 200) == dark
        for name in ("search", "picture", "reset", "theme", "query", "run", "tab-plan"):
            box = page.js("arguments[0].getBoundingClientRect().toJSON()", page[name])
            assert 0 <= box["left"] < box["right"] <= width
        page["theme"].click()
        page["theme"].click()
        assert page["theme"].get_attribute("aria-label") == "Theme: dark"
        page["theme"].click()


def test_every_control_has_a_name(page: Page, stars: sp.Tensor) -> None:
    with sp.explore(stars) as explorer:
        page.open(explorer.url)
        tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        wanted = {"button", "textbox", "searchbox", "combobox", "tab", "image", "checkbox", "slider", "spinbutton"}
        roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]]
        assert [role for role, name in roles if role in wanted and not name] == []
        assert {"button", "tab", "image"} <= {role for role, _ in roles}


class _Notebook(BaseHTTPRequestHandler):
    """A page of another origin with the HTML of a cell."""

    cell = ""

    def do_GET(self) -> None:
        body = f"<!doctype html><link rel=icon href=data:,><body>{self.cell}".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize("in_frames", [True, False])
def test_frame_of_a_notebook(driver: webdriver.Chrome, matrix: sp.Tensor, in_frames: bool) -> None:
    with (
        Explorer(matrix, "web", 0, 600, in_frames) as explorer,
        ThreadingHTTPServer(("127.0.0.1", 0), _Notebook) as notebook,
    ):
        _Notebook.cell = explorer._repr_html_()
        thread = threading.Thread(target=notebook.serve_forever, args=(0.05,))
        thread.start()
        driver.get(f"http://localhost:{notebook.server_address[1]}/")
        driver.switch_to.frame(driver.find_element(By.TAG_NAME, "iframe"))
        if in_frames:
            page = Page(driver)
            page.settle()
            assert page["title"].text == "web"
            assert read_log(driver) == []
        else:
            assert driver.find_elements(By.ID, "title") == []
            assert "frame-ancestors" in str(read_log(driver))
        driver.switch_to.default_content()
        driver.get("about:blank")
        notebook.shutdown()
        thread.join()


def test_the_end_of_the_server_is_reported(driver: webdriver.Chrome, matrix: sp.Tensor) -> None:
    page = Page(driver)
    with sp.explore(matrix) as explorer:
        page.open(explorer.url)
    page["zoom-in"].click()
    page.wait("!document.getElementById('problem').hidden")
    assert "has ended" in page["problem"].text
    read_log(driver)
    driver.get("about:blank")
