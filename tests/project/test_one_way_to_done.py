"""A task becomes COMPLETED in one way: one function names the causes that lead there, and it asks the verdict."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import agenttalk
from agenttalk.rules.core.task_states import TRANSITIONS

SOURCE = Path(agenttalk.__file__).parent
CAUSES: set[str] = {cause for (_, cause), state in TRANSITIONS.items() if state == "COMPLETED"}
LEAVING = {"move_task", "_order_next_command"}
"""Functions that take the state which a task leaves, and the cause why."""


def find_values(tree: ast.Module, words: set[str]) -> Iterator[tuple[str, str, str]]:
    """Every place that makes one of the words a value: function, what it is handed to, and the word.

    Comparing with a word, looking one up, and naming it in a type or in a table's keys makes nothing.
    """
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for constant in ast.walk(tree):
        if not isinstance(constant, ast.Constant) or constant.value not in words:
            continue
        call, function = "", ""
        node: ast.AST = constant
        harmless = False
        while node in parents:
            above = parents[node]
            keys = above.keys if isinstance(above, ast.Dict) else []
            harmless |= isinstance(above, ast.Compare | ast.MatchValue | ast.Set) or node in keys
            harmless |= isinstance(above, ast.Subscript) and node is above.slice
            if isinstance(above, ast.Call) and not call:
                call = above.func.attr if isinstance(above.func, ast.Attribute) else ast.unparse(above.func)
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef) and not function:
                function = above.name
            node = above
        if not harmless:
            yield function, call, constant.value


def find_in_source(words: set[str]) -> set[tuple[str, str, str, str]]:
    texts = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    return {
        (name, *place)
        for name, text in texts.items()
        if any(word in text for word in words)
        for place in find_values(ast.parse(text), words)
    }


def test_one_function_names_the_causes_that_complete_a_task() -> None:
    assert {"FULFILLED", "ACCEPTED"} == CAUSES
    home = ("rules/proof/turn_outcome.py", "find_done_cause", "")
    assert find_in_source(CAUSES) == {(*home, cause) for cause in CAUSES}


def test_only_the_table_of_states_says_completed() -> None:
    found = {place for place in find_in_source({"COMPLETED"}) if place[2] not in LEAVING}
    assert found == {("rules/core/task_states.py", "", "", "COMPLETED")}


def test_no_statement_completes_a_task_by_itself() -> None:
    files = list((SOURCE / "adapters" / "store" / "sql").glob("*.sql"))
    written = [
        written
        for path in files
        for written in re.findall(
            r"\b(?:SET|VALUES)\b(?:(?!\bWHERE\b|-- name).)*", path.read_text(encoding="utf-8"), re.DOTALL
        )
    ]
    assert len(written) > 100
    assert [statement for statement in written if "'COMPLETED'" in statement] == []


def test_a_place_that_would_complete_a_task_is_found() -> None:
    planted = """
def finish(tx, state):
    if state == "COMPLETED" or state in {"COMPLETED"}:
        return
    tx.run("end", state="COMPLETED")
    tx.run("end", **{"state": "COMPLETED"})
    new = "COMPLETED"
    return {"done": "COMPLETED"}[state]
"""
    places = sorted(call for _, call, _ in find_values(ast.parse(planted), {"COMPLETED"}))
    assert places == ["", "", "run", "run"]
