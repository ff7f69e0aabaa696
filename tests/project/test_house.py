"""The house: where everything lives, what it is called, and that the map shows it."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Final

import pytest

from project.sourcekit import REPOSITORY, SOURCE, modules, nodes

MAP: Final = REPOSITORY / "docs" / "architecture.md"
GLOSSARY: Final = REPOSITORY / "docs" / "glossary.md"
LAYERS: Final = {"adapters", "contracts", "demo", "doors", "engine", "ports", "rules", "testing", "wiring"}
FILES: Final = {"skills", "templates"}
"""Folders of files that commands install or fill in."""
MOST: Final = 20
"""Modules that a folder may have."""
WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def packages() -> set[str]:
    """Every package with modules of its own, by its folder below the source."""
    own = {path.parent for path in modules().values() if path.name != "__init__.py"} - {SOURCE}
    return {str(folder.relative_to(SOURCE)) for folder in own}


def imported(name: str) -> Iterator[str]:
    """Our modules that a module imports anywhere: inside functions and for types, too."""
    for node in nodes(name):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{each.name}" for each in node.names]
            yield from (each if each in modules() else node.module for each in inside)


def classes() -> Iterator[tuple[str, str]]:
    for name in modules():
        for node in nodes(name):
            if isinstance(node, ast.ClassDef):
                yield node.name, name


def test_the_top_level_has_layers_and_nothing_else() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == LAYERS | FILES
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_no_folder_has_more_modules_than_one_can_look_through() -> None:
    sizes = Counter(path.parent for path in modules().values() if path.name != "__init__.py")
    tests = Counter(path.parent for path in (REPOSITORY / "tests").rglob("*.py") if path.name != "__init__.py")
    assert {str(each.relative_to(REPOSITORY)): size for each, size in (sizes + tests).items() if size > MOST} == {}


def test_no_module_imports_itself_by_a_detour() -> None:
    waiting = {name: {each for each in imported(name) if each in modules() and each != name} for name in modules()}
    while True:
        free = {name for name, needed in waiting.items() if not needed & waiting.keys()}
        if not free:
            break
        waiting = {name: needed for name, needed in waiting.items() if name not in free}
    assert sorted(waiting) == []


def test_no_class_name_is_used_twice() -> None:
    places = defaultdict(list)
    for name, module in classes():
        places[name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_test_module_has_the_name_of_another() -> None:
    """Python loads test modules by their names alone: of two with one name, only the first runs."""
    names = Counter(path.name for path in (REPOSITORY / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_package_is_on_the_map() -> None:
    lines = re.findall(r"^\| `([\w/]*\w)` \|", MAP.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(packages() - set(lines)) == []
    assert sorted(set(lines) - packages()) == [], "packages that are not there"
    assert [each for each, count in Counter(lines).items() if count > 1] == []


def test_every_module_that_the_map_names_is_there() -> None:
    gone, package = [], ""
    for line in MAP.read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| `([\w/]+)` \|", line)
        package = row[1] if row else ""
        for named in re.findall(r"`([\w/]+\.py)[:`]", line):
            beside = "/" not in named and not package and any(path.name == named for path in modules().values())
            if not beside and not (SOURCE / package / named).exists() and not (SOURCE / named).exists():
                gone.append(named)
    assert gone == []


def test_every_function_that_the_map_names_is_there() -> None:
    named = re.findall(r"`([\w/]+)\.py: (\w+)`", MAP.read_text(encoding="utf-8"))
    assert len(named) > 10
    gone = [f"{path}.py: {what}" for path, what in named if not hasattr(module_at(path), what)]
    assert gone == []


def test_every_module_and_function_that_a_page_names_is_there() -> None:
    """Dotted names such as `rules.proof.done.decide`, and paths such as `engine/core/slots.py`."""
    layers = "|".join(LAYERS)
    dotted = re.compile(rf"`(?:agenttalk\.)?((?:{layers})(?:\.\w+)+)(?:\([^`]*\))?`")
    written = re.compile(rf"`((?:{layers})/[\w/]+\.py|(?:tests|bench)/[\w/.]+)`")
    gone = []
    for page in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")]:
        text = page.read_text(encoding="utf-8")
        gone += [f"{page.name}: {name}" for name in dotted.findall(text) if name not in FILE_NAMES and not exists(name)]
        paths = written.findall(text)
        gone += [
            f"{page.name}: {path}" for path in paths if not ((SOURCE / path).exists() or (REPOSITORY / path).exists())
        ]
    assert gone == []


FILE_NAMES: Final = {"engine.lock", "engine.json", "engine.py"}


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or can be reached from one."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        if (module := f"agenttalk.{'.'.join(parts[:size])}") in modules():
            found: object = import_module(module)
            return all((found := getattr(found, part, None)) is not None for part in parts[size:])
    return False


def module_at(path: str) -> object:
    return import_module(f"agenttalk.{path.replace('/', '.')}")


def words(name: str) -> list[str]:
    return [each.lower() for each in WORD.findall(name)]


@cache
def vocabulary() -> frozenset[str]:
    """Words of the glossary: those that it explains, and those of everyday programming that it lists at its end."""
    text = GLOSSARY.read_text(encoding="utf-8")
    explained = " ".join(re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE))
    listed = text.partition("## Everyday words")[2]
    assert listed
    return frozenset(re.findall(r"[a-z]+", f"{explained} {listed}".lower()))


def is_known(word: str) -> bool:
    singular = {word, word.removesuffix("s"), word.removesuffix("es"), f"{word.removesuffix('ies')}y"}
    return not vocabulary().isdisjoint(singular)


def test_the_glossary_knows_the_words_of_packages_and_modules() -> None:
    names = {part for name in modules() for part in name.split(".") if not part.startswith("__")}
    assert sorted({word for name in names for word in words(name) if not is_known(word)}) == []


def test_the_glossary_knows_the_words_of_public_classes() -> None:
    public = {name for name, _ in classes() if not name.startswith("_")}
    assert sorted({word for name in public for word in words(name) if not is_known(word)}) == []


def test_every_module_that_stands_in_a_text_can_be_loaded() -> None:
    """Commands, programs that are started with `-m`, and names that are loaded late are named in texts."""
    quoted = re.compile(r"agenttalk(?:\.[a-z_]+)+(?::\w+)?")
    found = set()
    for name in modules():
        texts = (node.value for node in nodes(name) if isinstance(node, ast.Constant) and isinstance(node.value, str))
        found |= {text for text in texts if quoted.fullmatch(text) and text.split(".")[1] in LAYERS}
    assert len(found) > 50
    for text in sorted(found):
        module, _, attribute = text.partition(":")
        assert not attribute or hasattr(import_module(module), attribute), text
        assert import_module(module)


@pytest.mark.parametrize("package", ["agenttalk", "agenttalk.testing", "agenttalk.wiring"])
def test_every_name_that_is_loaded_at_its_first_use_is_there(package: str) -> None:
    lazy = import_module(package)
    assert [name for name in lazy.__all__ if not hasattr(lazy, name)] == []
