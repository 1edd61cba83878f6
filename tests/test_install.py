"""Commands of README, Install, how-to pages and recipes, in clean environments.

By default the environments share the packages that sparrow depends on with the tests, and nothing is fetched. Under
``--clean-install`` (``make install-check``) they share nothing, and run the commands of all pages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from sparrow.runtime.dependencies import OPTIONAL, missing_dependency
from tests.sessions import compare_output, parse_commands, read_blocks, share_compiled_kernels

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
PAGES = [
    str(page.relative_to(REPOSITORY))
    for page in (REPOSITORY / "README.md", DOCS / "training.md", DOCS / "tour.md", *sorted(DOCS.glob("howto/*.md")),
                 *sorted(DOCS.glob("recipes/*.md")))
    if any("$ " in block for block in read_blocks(page.read_text(), "console"))
]  # fmt: skip
WHEEL_PAGES = ("README.md", "docs/howto/shell.md")
SHARE = f"""PYTHONPATH={REPOSITORY} {sys.executable} -c '
from pathlib import Path
from tests.sessions import share_compiled_kernels
share_compiled_kernels(Path("{REPOSITORY}"), next(Path(".venv/lib").absolute().glob("python*/site-packages")))'
"""
IGNORED = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", ".numba*", "site", "dist", "demo", "results"
)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository without what tools have written into it."""
    folder = tmp_path_factory.mktemp("install") / "clone"
    shutil.copytree(REPOSITORY, folder, ignore=IGNORED)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> dict[str, str]:
    """Environment variables of a shell without this project's tools on its path."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
    system = [part for part in os.environ["PATH"].split(os.pathsep) if not (Path(part) / "sparrow").exists()]
    variables = {
        "PATH": os.pathsep.join([str(folder / "bin"), *system]),
        "HOME": str(folder),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_QUIET": "1",
        "TMPDIR": str(folder),
    }
    if pytestconfig.getoption("--clean-install"):
        passed = ("PIP_INDEX_URL", "PIP_CERT", "PIP_CONFIG_FILE", "HTTPS_PROXY", "HTTP_PROXY", "SSL_CERT_FILE")
        variables |= {name: os.environ[name] for name in passed if name in os.environ}
        return variables
    packages = folder / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.match(r"pip|setuptools|sparrow|_?_?editable|__pycache__", path.name) and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    # For options of the form --no-X, pip reads 0 as the option being given.
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_COMPILE": "0"}
    return variables | offline | {"PYTHONPATH": str(packages)}


def run_session(commands: list[tuple[str, str]], folder: Path, environment: dict[str, str]) -> None:
    """Run commands in one shell and compare their output with the output shown."""
    script = "\n".join(["set -eu", *(f"printf '\\036' | tee /dev/fd/2\n{typed}" for typed, _ in commands)])
    run = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    outputs, notes = (text.split("\036")[1:] for text in (run.stdout, run.stderr))
    assert run.returncode == 0, f"{commands[len(outputs) - 1][0]}\n{run.stdout}\n{run.stderr}"
    for (typed, expected), actual, told in zip(commands, outputs, notes, strict=True):
        if expected.strip():
            compare_output(actual, expected, typed, told if typed.startswith("sparrow ") else "")


@pytest.fixture(scope="module")
def wheel_environment(clone: Path, environment: dict[str, str]) -> dict[str, str]:
    """Environment variables of a shell that has sparrow from a wheel."""
    commands = [("python3 -m venv .wheel", ""), (". .wheel/bin/activate", ""), ("make dist VENV=.wheel", ""),
                ("pip install dist/*.whl", "")]  # fmt: skip
    if "PYTHONPATH" not in environment:  # models of scikit-learn are peers on these pages
        commands.append(('pip install "$(echo dist/*.whl)[hdf5,notebook,sklearn]"', ""))
    run_session(commands, clone, environment)
    if "PYTHONPATH" in environment:
        (packages,) = (clone / ".wheel" / "lib").glob("python*/site-packages")
        share_compiled_kernels(REPOSITORY, packages)
    return environment | {"PATH": f"{clone / '.wheel' / 'bin'}{os.pathsep}{environment['PATH']}"}


@pytest.mark.slow
def test_install_page(clone: Path, environment: dict[str, str]) -> None:
    commands = parse_commands(read_blocks((clone / "docs" / "install.md").read_text(), "console"))
    assert {typed.split()[0] for typed, _ in commands} >= {"python3", "pip", "make", "sparrow"}
    if "PYTHONPATH" in environment:
        commands = [(f"{SHARE if typed.startswith('sparrow demo') else ''}{typed}", out) for typed, out in commands]
    run_session(commands, clone, environment)


@pytest.mark.slow
def test_commands_of_pages(
    clone: Path, wheel_environment: dict[str, str], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """By default of two: ``test_pages`` runs those of all in the checkout."""
    for page in PAGES if pytestconfig.getoption("--clean-install") else WHEEL_PAGES:
        folder = tmp_path / page.replace("/", "-")
        folder.mkdir()
        for name in ("datasets", "ingest", "docs"):
            (folder / name).symlink_to(clone / name)
        shown = read_blocks((clone / page).read_text(), "console")
        commands = [(typed, output) for typed, output in parse_commands(shown) if not typed.startswith("make ")]
        run_session(commands, folder, wheel_environment)


def test_suggested_packages_are_extras(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = {re.split(r"[<>=\[ ]", text)[0] for name in project["optional-dependencies"]
              for text in project["optional-dependencies"][name]}  # fmt: skip
    assert {package.distribution for package in OPTIONAL.values()} <= extras
    assert str(missing_dependency("spy()", "matplotlib")) == "spy() requires Matplotlib: pip install matplotlib"


def test_no_text_installs_from_the_index(repository: Path) -> None:
    """The distribution is on no index, so ``pip install sparrow-tensor`` fails."""
    texts = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md"), *(repository / "sparrow").rglob("*.py"),
             *(repository / "bench").glob("*.py")]  # fmt: skip
    assert [path for path in texts if re.search(r"pip install (-\S+ )*['\"]?sparrow-tensor", path.read_text())] == []
