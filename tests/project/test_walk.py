"""The newcomer's walk: what the first tutorial says is typed line by line into one shell, and the page is opened.

The program is the one that is installed. The steps are read from the page, so text and test cannot drift apart. Here
the repository is only said to be set up; `make test-walk` clones it into an empty folder and has `make` set it up.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from kits.shellkit import Shell, shell
from project.test_docs import EXITS, REPOSITORY, WALKED, as_pattern, commands_in, snippets

FROM_NOTHING = bool(os.environ.get("AGENTTALK_WALK_FROM_NOTHING"))
LINK = re.compile(r"^http://\S+/login\?key=\S+$", re.MULTILINE)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """Where sockets lie: their names must be short."""
    folder = Path(tempfile.mkdtemp(prefix="at-"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.rest
def test_a_newcomer_gets_from_the_repository_to_the_page(tmp_path: Path, runtime: Path) -> None:
    repository = tmp_path / "agenttalk"
    if FROM_NOTHING:
        subprocess.run(["git", "clone", "-q", str(REPOSITORY), str(repository)], check=True)
    else:
        repository.mkdir()
        (repository / ".venv").symlink_to(sys.prefix)
    home = tmp_path / "home"
    home.mkdir()
    variables = {
        "PATH": os.pathsep.join(
            each for each in os.environ["PATH"].split(os.pathsep) if not each.startswith(sys.prefix)
        ),
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_RUNTIME_DIR": str(runtime),
        "COLUMNS": "200",
        "LC_ALL": "C.UTF-8",
    }
    with shell(repository, variables, seconds=1800 if FROM_NOTHING else 600) as typing:
        visits = sum(followed(typing, command, expected) for command, expected in steps())
    assert visits == 1


def steps() -> list[tuple[str, list[str]]]:
    blocks = [text for language, text in snippets(WALKED) if language == "console"]
    return [step for block in blocks for step in commands_in(block)]


def followed(typing: Shell, command: str, expected: list[str]) -> bool:
    """Type a command and hold what it prints against the page; whether there was a link, which is then opened."""
    if command.startswith("make "):
        if not FROM_NOTHING:
            return False
        command = f"HOME={os.environ['HOME']} TMPDIR= {command} < /dev/null"  # pip is to find what is its own
    code, printed = typing.type(command)
    assert code == (int(exits[1]) if (exits := EXITS.search(command)) else 0), f"$ {command}\n{printed}"
    if expected:
        assert as_pattern(expected).fullmatch(printed.rstrip() + "\n"), f"$ {command}\nprinted:\n{printed}"
    if link := LINK.search(printed):
        look(link[0])
        look_with_a_browser(typing)
    return link is not None


def look(link: str) -> None:
    """Open the pages as a browser does that keeps its cookies."""
    visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with visitor.open(link, timeout=60) as answer:
        assert "AgentTalk" in answer.read().decode()
    with visitor.open(link.partition("/login")[0] + "/plans/bakery/tasks/taste", timeout=60) as answer:
        seen = answer.read().decode()
    assert "verdict.md" in seen
    assert "Say how it tastes." in seen


def look_with_a_browser(typing: Shell) -> None:
    """Checks the page in a browser, if there is one, by what it shows."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return
    if chromium is None:
        return
    _, link = typing.type("agenttalk login")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(locale="en").new_page()
        page.goto(link.strip())
        page.get_by_role("link", name="Plans", exact=True).first.click()
        page.get_by_role("link", name="bakery").first.click()
        page.get_by_role("heading", name="bakery").first.wait_for()
        browser.close()
