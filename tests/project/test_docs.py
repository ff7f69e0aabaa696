"""Runs every snippet of the documentation.

In a `console` block a line that begins with `$ ` is a command; what follows is its output (both
streams, in order). `...` on a line of its own stands for any lines, inside a line for any text. A
command that ends in `# exits N` must end with that code, others with 0. The blocks of one page run
one after the other in one folder that holds a copy of `examples/` and nothing else. `make` targets
are only looked up: CI runs them itself. The program is one that has been loaded before; as it is
installed it is run by the newcomer's walk, see `test_walk.py`.
A `python` block is executed; it checks itself with `assert`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import preloaded

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WALKED = REPOSITORY / "docs/tutorial/first-plan.md"
"""The page whose snippets `test_walk.py` runs."""
LINK_TO_HEADING = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
EXITS = re.compile(r"\s+# exits (\d+)$")


def snippets(page: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


RUN = [page for page in PAGES if page != WALKED and snippets(page)]
LENGTHY = {
    "README.zh-CN.md",
    "docs/examples/code-under-pass-rate.md",
    "docs/examples/consensus.md",
    "docs/examples/dag-review.md",
    "docs/examples/design-sent-back.md",
    "docs/examples/release.md",
    "docs/examples/requirements-sent-back.md",
    "docs/examples/tester-waits.md",
    "docs/examples/weekly-summary.md",
    "docs/howto/draft-a-plan.md",
    "docs/howto/have-it-proven.md",
    "docs/howto/keep-agents-in-bounds.md",
    "docs/howto/let-a-script-take-part.md",
    "docs/howto/make-a-command.md",
    "docs/howto/prove-others-work.md",
    "docs/howto/release.md",
    "docs/howto/send-mail.md",
    "docs/howto/send-work-back.md",
    "docs/howto/use-models.md",
    "docs/reference/command-line.md",
}
"""Pages that run whole plans, or very many commands, of which other tests show the same."""


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.rest if name_of(page) in LENGTHY else ()) for page in RUN],
    ids=name_of,
)
def test_snippets_of_the_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("shop", "__pycache__")
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples", ignore=ignored)
    try:
        _follow(page, tmp_path)
    finally:
        _end(tmp_path)


def _follow(page: Path, folder: Path) -> None:
    programs = [str(Path(preloaded.program()).parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    for language, text in snippets(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), {})
            continue
        for command, expected in commands_in(text):
            run_and_compare(command, expected, folder, programs)


def _end(folder: Path) -> None:
    """End what a page began in the background and did not end, because something went wrong before."""
    for file in folder.glob("*.pid"):
        with suppress(OSError, ValueError):
            number = int(file.read_text())
            if Path(f"/proc/{number}/cwd").samefile(
                folder
            ):  # else it is over, and the number belongs to another process
                os.kill(number, signal.SIGTERM)


def test_the_readme_has_snippets_that_are_run() -> None:
    kinds = {language for language, _ in snippets(REPOSITORY / "README.md")}
    assert kinds == {"console", "python"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    missing = [target for target in linked(page) if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_headings_find_them(page: Path) -> None:
    wanted = [(target or page.name, heading) for target, heading in LINK_TO_HEADING.findall(without_code(page))]
    pages = {target: page.parent / target for target, _ in wanted if target.endswith(".md")}
    found = {target: set(headings(path)) for target, path in pages.items()}
    assert [(target, heading) for target, heading in wanted if target in found and heading not in found[target]] == []


def headings(page: Path) -> list[str]:
    """The names by which the headings of a page are linked to."""
    titles = re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", title).lower()).replace(" ", "-") for title in titles]


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def linked(page: Path) -> list[str]:
    """What a page leads to."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r'(?:src|srcset|href)="([^"#]+)"', text)


def test_the_index_lists_every_page_and_decisions_have_an_own_one() -> None:
    docs = REPOSITORY / "docs"
    listed = [(docs / target).resolve() for target in linked(docs / "README.md") if target.endswith(".md")]
    pages = {page for page in PAGES if page.is_relative_to(docs)} - {docs / "README.md"}
    decisions = {page for page in pages if page.parent == docs / "adr"} - {docs / "adr/README.md"}
    assert set(listed) >= pages - decisions
    begun = listed.index(WALKED)  # the first lines lead a newcomer there, and the list begins with it
    assert sorted(listed[begun + 1 :]) == sorted(set(listed[begun + 1 :]))
    assert {(docs / "adr" / target).resolve() for target in linked(docs / "adr/README.md")} >= decisions


def test_both_readmes_lead_to_the_same_pages() -> None:
    english, chinese = REPOSITORY / "README.md", REPOSITORY / "README.zh-CN.md"
    assert {*linked(english), english.name} == {*linked(chinese), chinese.name}


def commands_in(block: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + line[2:], [])
        else:
            found[-1][1].append(line)
    return found


def run_and_compare(command: str, expected: list[str], folder: Path, programs: list[str]) -> None:
    words = shlex.split(command, comments=True)
    if words[0] in {"git", "cd"}:
        return
    if words[0] == "make":
        subprocess.run(["make", "--dry-run", *words[1:]], cwd=REPOSITORY, check=True, capture_output=True)
        return
    wanted = int(exits[1]) if (exits := EXITS.search(command)) else 0
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={"PATH": os.pathsep.join(programs), "HOME": str(folder), "COLUMNS": "200", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == wanted, f"$ {command}\nended with {done.returncode}:\n{done.stdout}"
    if expected:
        assert as_pattern(expected).fullmatch(done.stdout.rstrip() + "\n"), f"$ {command}\nprinted:\n{done.stdout}"


def as_pattern(expected: list[str]) -> re.Pattern[str]:
    lines = [
        "(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + "\n"
        for line in expected
    ]
    return re.compile("".join(lines))
