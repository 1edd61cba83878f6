"""``sparrow view``: a page that Ctrl-C ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
from tests.explorer.helpers import Client, make_sparse, save


@pytest.fixture
def web(tmp_path: Path) -> Path:
    stored = save(make_sparse((40, 30), 600), tmp_path / "web.sparrow")
    stored[0] = 0
    return tmp_path / "web.sparrow"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_page_is_served_until_it_is_interrupted(web: Path, number: int, ctrl_c: None) -> None:
    code = "from sparrow.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "view", str(web), "--no-browser", "--at", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as run:  # fmt: skip
        assert run.stdout is not None
        url = run.stdout.readline().strip()
        client = Client(url)
        (tensor,) = client.ask("meta")["tensors"]
        assert (tensor["name"], tensor["version"]) == ("web", 0)
        assert client.ask("bins", bins=[40, 30])["total"] == pytest.approx(sp.open(web, 0).nnz)
        _, _, headers = client.request("GET", client.path)
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        os.kill(run.pid, number)
        _, error = run.communicate(timeout=60)
        assert run.returncode == 0
        assert "Traceback" not in error


def test_browser_is_opened(web: Path, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\nkill -INT {os.getpid()}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run = cli("view", web)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.code == 0
    assert seen.read_text().startswith("http://127.0.0.1:")
    assert run.out.strip() not in seen.read_text()  # which other users of the machine may have seen


def test_wrong_arguments_are_reported(web: Path, cli: Callable[..., Any]) -> None:
    assert "no tensor" in cli("view", f"{web}x").err
    assert "65535" in cli("view", web, "--port", 70000).err
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        run = cli("view", web, "--port", other.getsockname()[1])
    assert run.code == 1
    assert "port must be free" in run.err
