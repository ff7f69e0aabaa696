"""What people read is plain English: these words are not in it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
BANNED: Final = re.compile(
    r"""\b(?:
      whoever | whomever | whichever | whatever | somebody | anybody | nobody | everybody  # name the subject
    | (?<!-)(?:he|him|his|she|her)  # a program is "it", a person is "they"
    | (?:is|are|was|were|be|been|being)\s(?:told(?!\sapart)|said)  # say which part reports it, and to which
    | (?<!there\s)(?:is|are|was|were)\s(?:no(?!\s(?:longer|more))|(?-i:none))  # "is not a root", "is not one"
    | looked\s(?:at|for) | says?\sof | who\s(?:waits|looks)  # checked, searched for, explains
    | it\scomes\sto | comes?\sof\sit | has\scome\sof  # the result
    | all\sthe\ssame | for\sever | (?:in|out)side\sof | one's
    | what\scame\sof | (?:has|have)\scome\sto\sa | is\sto\sbecome\sof | becomes?\sof  # the result, the outcome, the effect
    | (?<![-.=])mend(?:s(?!\sthe\scheckout)|ed(?!\swith))?(?![()\w])  # fix, repair
    | our\sown\scode\sfailed  # an unhandled error
    | begins?\sanew | send\sit\sanew | decides?\sanew | made\sanew | written\sanew  # again, or restarts
    | goes?\son\sby\sitself | not\sany\smore | does\snot\shold\sany  # continues, no longer
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
FOLDERS: Final = ("src/agenttalk", "docs", "bench", "contrib", "examples", "tests/project", ".github")
SUFFIXES: Final = {".css", ".html", ".js", ".md", ".py", ".sh", ".sql", ".toml", ".yaml", ".yml"}
BUDGETS: Final[dict[str, int]] = {}
"""How many are left in a folder. A number here only gets smaller; a folder that is not named has none."""
NO_VERB: Final = re.compile(
    r"""(?:
      What | Whatever | Who | Whom | Whose | Where | When | Why | How | Which | That | Those | These | This
    | It | Its | They | As | By | In | On | Of | From | With | For | If | Under | Behind | Beside | Before | After
    | The | A | An | All | Any | Both | Each | Every | Everything | Some | Something | None | Nothing | No | Not
    | One | Only | Other | Our | Us | We | Again | Here | And | Or | So | Then
    )""",
    re.VERBOSE,
)
"""Words with which the docstring of a function does not begin: it begins with the verb for what the function does."""
UNVERBED: Final[dict[str, int]] = {
    "doors/cli": 1,
}
"""How many functions of a folder begin otherwise. A number here only gets smaller; a folder that is not named has none."""


def read_prose(path: Path) -> str:
    """What a file says to people: the comments and strings of Python, the text of a template."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        text = re.sub(r"\{[{%#].*?[}%#]\}", " ", text, flags=re.DOTALL)
    if path.suffix == ".py":
        prose = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        text = "\n".join(token.string for token in tokens if token.type in prose)
    return " ".join(re.sub(r"^\s*(?:#|--|//|>)", "", text, flags=re.MULTILINE).split())


def read_pages() -> Iterator[tuple[str, str]]:
    """Every text that people read, with its name from the top of the repository."""
    folders = [REPOSITORY / name for name in FOLDERS]
    paths = [REPOSITORY / "Makefile", *REPOSITORY.glob("*.md"), *(path for top in folders for path in top.rglob("*"))]
    for path in paths:
        if path != Path(__file__) and (path.suffix in SUFFIXES or path.name == "Makefile"):
            yield str(path.relative_to(REPOSITORY)), read_prose(path)


def test_no_text_has_a_word_that_hides_its_subject() -> None:
    found = {name: words for name, text in read_pages() if (words := BANNED.findall(text))}
    counts = Counter({name: len(words) for name, words in found.items()})
    left = Counter(dict.fromkeys(BUDGETS, 0))
    for name, count in counts.items():
        left[next((folder for folder in BUDGETS if name.startswith(f"{folder}/")), name)] += count
    over = {folder for folder, count in left.items() if count > BUDGETS.get(folder, 0)}
    assert {name: words for name, words in found.items() if any(name.startswith(folder) for folder in over)} == {}


def test_the_words_are_found_across_lines_and_in_code_only_where_people_read(tmp_path: Path) -> None:
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("This is\nno root. There is no root, and it is no longer one.", encoding="utf-8")
    module.write_text('nobody = None is None  # the caller\n\ndef call():\n    """Is told."""\n', encoding="utf-8")
    assert [BANNED.findall(read_prose(path)) for path in (page, module)] == [["is no"], ["Is told"]]


def read_openings(text: str) -> Iterator[tuple[str, str]]:
    """Read the functions of a module whose docstring does not begin with a verb: the name, and the first word.

    `Whether` begins the docstring of a predicate. A property may say what it is, and `__init__` explains parameters.
    """
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name == "__init__":
            continue
        docstring = ast.get_docstring(node)
        decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
        if docstring is None or decorators & {"property", "cached_property"}:
            continue
        word = docstring.split()[0].strip(".,:;")
        returned = ast.unparse(node.returns) if node.returns else ""
        is_predicate = any(kind in returned for kind in ("bool", "Literal", "TypeGuard", "TypeIs"))
        if NO_VERB.fullmatch(word) or not word[0].isupper() or (word == "Whether" and not is_predicate):
            yield node.name, word


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    top = REPOSITORY / "src" / "agenttalk"
    openings = {path: list(read_openings(path.read_text(encoding="utf-8"))) for path in top.rglob("*.py")}
    modules: dict[str, list[str]] = {}
    for path, functions in openings.items():
        module = path.relative_to(top).as_posix()
        folder = next((folder for folder in UNVERBED if module.startswith(f"{folder}/")), module)
        modules.setdefault(folder, []).extend(f"{module}: {name}: {word}" for name, word in functions)
    over = [folder for folder, found in modules.items() if len(found) > UNVERBED.get(folder, 0)]
    assert {folder: modules[folder] for folder in over} == {}


def test_nouns_and_questions_are_no_verbs_and_properties_need_none() -> None:
    module = """
def find(): "The first."
def ask() -> str: "Whether it is so."
def is_so() -> bool: "Whether it is so."
def read(): "Read it."
@property
def name(self): "The name."
"""
    assert list(read_openings(module)) == [("find", "The"), ("ask", "Whether")]
