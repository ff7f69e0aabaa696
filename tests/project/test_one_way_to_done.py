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


def find_setters(column: str) -> set[str]:
    """The constants of statements that set a column of a task to a value."""
    sql = "\n".join(path.read_text(encoding="utf-8") for path in (SOURCE / "adapters" / "store" / "sql").glob("*.sql"))
    found = set()
    for part in sql.split("-- name: ")[1:]:
        name, _, text = part.partition("\n")
        written = re.search(r"UPDATE tasks\s+SET\b(.*?)\bWHERE\b", text, re.DOTALL)
        if written and re.search(rf"(?<!\w){column} = :", written[1]):
            found.add(name.partition("@")[0].strip().upper())
    return found


def find_uses(names: set[str]) -> set[tuple[str, str, str]]:
    """Where statements are named, except for imports: module, the function that gets it, the statement."""
    uses = set()
    for path in (SOURCE / "engine").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in names):
            continue
        tree = ast.parse(text)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in names:
                above = parents[node]
                while not isinstance(above, ast.Call | ast.stmt):
                    above = parents[above]
                call = ast.unparse(above.func) if isinstance(above, ast.Call) else ""
                uses.add((str(path.relative_to(SOURCE)), call, node.id))
    return uses


def test_one_function_leases_tasks_of_plans_and_of_inboxes() -> None:
    leases = find_setters("token")
    assert leases == {"LEASE_TASK", "START_TASK", "START_FIRST", "LEASE_COMMAND", "RENEW_LEASE"}
    assert find_uses(leases) == {
        ("engine/runs/leases.py", "write_lease", "LEASE_TASK"),
        ("engine/runs/leases.py", "", "START_FIRST"),  # one of these two, for `write_lease`
        ("engine/runs/leases.py", "", "START_TASK"),
        ("engine/runs/command_leases.py", "write_lease", "LEASE_COMMAND"),
        ("engine/runs/resume.py", "tx.run", "RENEW_LEASE"),  # the same attempt goes on, under a new epoch
    }


def test_one_module_ends_turns_of_plans_and_of_inboxes() -> None:
    assert {(module, name) for module, _, name in find_uses({"END_TURN", "END_BY_HAND"})} == {
        ("engine/runs/conclusion.py", "END_TURN"),
        ("engine/runs/folder_agents.py", "END_BY_HAND"),  # agents that work in folders have no lease
    }
