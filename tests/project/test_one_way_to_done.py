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


def find_set_columns(sql: str) -> Iterator[tuple[str, str, str]]:
    """Every column of a task that a statement writes: statement, column, and what it is set to."""
    for part in sql.split("-- name: ")[1:]:
        name, _, text = part.partition("\n")
        for insert in re.finditer(r"\bINTO tasks\s*(?:AS \w+\s*)?\(([^)]*)\)", text):
            yield from ((name, column.strip(), "inserted") for column in insert[1].split(","))
        if not re.search(r"\b(UPDATE|INTO) tasks\b", text):
            continue
        for written in re.finditer(r"\bSET\b", text):
            for assignment in split_commas(text[written.end() :]):
                column, _, value = assignment.partition("=")
                for one in column.strip("() \n").split(","):
                    yield name, one.strip(), " ".join(value.split())


def split_commas(text: str) -> list[str]:
    """Split what follows SET at its commas, as far as its WHERE. What stands in brackets stays together."""
    depth, parts = 0, [""]
    for token in re.findall(r"[(),]|\bWHERE\b|\bFROM\b|\bRETURNING\b|\w+|[^\w(),]", text):
        depth += (token == "(") - (token == ")")
        if depth <= 0 and token in {"WHERE", "FROM", "RETURNING"}:
            break
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def read_statements() -> str:
    files = (SOURCE / "adapters" / "store" / "sql").glob("*.sql")
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_statements_set_the_state_of_a_task_to_one_that_is_not_completed_or_to_what_they_are_given() -> None:
    written = {(name, value) for name, column, value in find_set_columns(read_statements()) if column == "state"}
    assert {value for _, value in written} == {":state", "'RUNNING'", "'READY'", "'FAILED'"}
    assert {name.upper() for name, value in written if value == ":state"} == set(GIVEN)


def test_statements_that_would_complete_a_task_are_found() -> None:
    planted = """
-- name: by_itself
UPDATE tasks SET cause = (SELECT x FROM y WHERE z), state = 'COMPLETED' WHERE task_id = :task_id

-- name: by_another
UPDATE tasks SET (cause, state) = (SELECT 'FULFILLED', outcome FROM turns WHERE id = :id)

-- name: from_the_start
INSERT INTO tasks (board, task_id, state) SELECT :board, :task_id, 'COMPLETED'

-- name: in_its_place
INSERT INTO tasks (board, task_id) VALUES (:board, :task_id) ON CONFLICT DO UPDATE SET state = excluded.state
"""
    assert {name for name, column, _ in find_set_columns(planted) if column == "state"} == {
        "by_itself", "by_another", "from_the_start", "in_its_place",
    }  # fmt: skip


def test_tasks_are_written_by_named_statements_alone() -> None:
    """No trigger and no SQL in Python could change a task behind the statements."""
    schema = "\n".join(path.read_text(encoding="utf-8") for path in (SOURCE / "adapters").rglob("migrations/*/*.sql"))
    assert "CREATE TABLE tasks" in schema
    assert re.findall(r"(?i)\btrigger\b|\brule\b|\bupdate tasks\b|\binto tasks\b", schema) == []
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert [
        path
        for path, text in texts.items()
        if re.search(r"(?i)update\s+tasks\s+(as \w+\s+)?set\b|into\s+tasks\s*\(", text)
    ] == []


GIVEN = {
    "SET_ENGINE_TASK": {
        ("engine/plans/transaction.py", "move_task", "new"),  # by the table, for a cause
        ("engine/plans/board_run.py", "_end", "ended"),  # by the table, for the cause of a verdict
    },
    "END_TURN": {
        ("engine/runs/conclusion.py", "end_turn", "outcome.state"),  # by the table, for the cause of an outcome
        ("engine/runs/conclusion.py", "write_orphan_end", "task_states.move('RUNNING', cause)"),
    },
    "END_BY_HAND": {("engine/runs/folder_agents.py", "_end", "task_states.move('RUNNING', cause)")},
    "WAIT_FOR_INPUTS": {("engine/inbox/ready_commands.py", "_block", "state")},
    "SET_TASK_STATE": {  # tasks of foreign plans
        ("engine/messages/control_files.py", "acknowledge", "state"),  # by the rule for foreign turns
        ("engine/messages/control_files.py", "_believe", "state"),  # by the same rule
        ("engine/messages/control_files.py", "_report", "report.state"),  # never an end
        ("engine/messages/recall.py", "withdraw_outdated", "'PENDING'"),
        ("engine/people/questions.py", "_give_up", "'FAILED'"),
    },
}
"""The statements that set a task to a state that they are given: who gives which."""


def find_given_states(tree: ast.Module, statements: set[str]) -> Iterator[tuple[str, str, str]]:
    """Every use of a statement but its import: statement, function, and the state that it is given."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name not in statements:
            continue
        call = parents[node]
        function: ast.AST = call
        while function in parents and not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            function = parents[function]
        given = [part.value for part in getattr(call, "keywords", ()) if part.arg == "state"]
        for part in getattr(call, "args", ()):
            if isinstance(part, ast.Dict):
                given += [value for key, value in zip(part.keys, part.values, strict=True)
                          if isinstance(key, ast.Constant) and key.value == "state"]  # fmt: skip
        function_name = function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        yield name, function_name, ast.unparse(given[0]) if given else "?"


def test_each_state_that_a_task_is_set_to_is_decided_where_it_should_be() -> None:
    found: dict[str, set[tuple[str, str, str]]] = {name: set() for name in GIVEN}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "/ports/statements/" not in str(path) and any(name in text for name in GIVEN):
            for name, function, state in find_given_states(ast.parse(text), set(GIVEN)):
                found[name].add((str(path.relative_to(SOURCE)), function, state))
    assert found == GIVEN


def test_another_use_of_such_a_statement_is_found() -> None:
    planted = """
def finish(tx, report):
    tx.run(SET_TASK_STATE, state=report.state)
    tx.run_later(statements.END_TURN, {"state": wire.read(report)["state"]})
    later = partial(tx.run, SET_TASK_STATE, **report)
    name = SET_TASK_STATE
"""
    assert sorted(find_given_states(ast.parse(planted), set(GIVEN))) == [
        ("END_TURN", "finish", "wire.read(report)['state']"),
        ("SET_TASK_STATE", "finish", "?"),
        ("SET_TASK_STATE", "finish", "?"),
        ("SET_TASK_STATE", "finish", "report.state"),
    ]


def test_nobody_reads_the_causes_out_of_the_table() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert {name for name, text in texts.items() if re.search(r"\b(TRANSITIONS|_TABLE)\b", text)
            and "task_states" in text + name} == {"task_states.py"}  # fmt: skip


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
