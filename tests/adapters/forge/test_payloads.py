"""Every recorded delivery comes to exactly what its manifest says. Skipped where the recordings are not there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adapters.forge.world import SOURCE, World, event, payload_folder, pull, registry, user
from agenttalk.adapters.forge import webhooks
from agenttalk.adapters.forge.webhooks import IgnoredDelivery
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.errors import Code
from agenttalk.contracts.forge import ForgeEvent

FOLDER = payload_folder()
DEFAULT, OPS, AUTHOR = "the-default-reviewer", "the-ops", "the-author-of-the-head"


class Row(NamedTuple):
    kind: ForgeKind
    file: str
    event: str
    type: str
    scenario: str
    expected: str


def rows() -> list[Row]:
    if FOLDER is None:
        return []
    found, kind = [], ""
    for line in (FOLDER / "MANIFEST.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            kind = line[3:].strip()
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if kind in {"gitea", "forgejo", "github"} and len(cells) >= 4 and cells[0].endswith(".json"):
            extra = [cells[1]] if kind == "github" else []
            found.append(Row(kind, *[*cells[:2], *extra, *cells[2:]]))  # type: ignore[arg-type]
    return found


ROWS = rows()


def headers(row: Row) -> list[tuple[str, str]]:
    """As the forge sends them: all three pretend to be GitHub."""
    coarse = [("X-GitHub-Event", row.event), ("X-GitHub-Delivery", "d-1"), ("Content-Type", "application/json")]
    if row.kind == "github":
        return coarse
    names = ["Gitea", "Forgejo"] if row.kind == "forgejo" else ["Gitea"]
    own = [(f"X-{name}-Event", row.event) for name in names] + [(f"X-{name}-Event-Type", row.type) for name in names]
    return [*own, *((f"X-{name}-Delivery", "d-1") for name in names), *coarse]


def logins(data: Any) -> set[str]:
    """Every account that a payload names anywhere: all of them are agents, so that nothing is ignored by chance."""
    if isinstance(data, dict):
        own = {data["login"]} if isinstance(data.get("login"), str) and data["login"] else set()
        return own.union(*map(logins, data.values())) if data else own
    if isinstance(data, list):
        return set().union(*map(logins, data)) if data else set()
    return set()


def expectation(row: Row, data: dict[str, Any]) -> list[tuple[str, str]]:
    """(action type, recipient), as the words of the manifest say."""
    text, scenario = row.expected, row.scenario.partition(" ")[0]
    drop = "→ drop" in text or "self-assign" in text or "self-request" in text
    if scenario in {"-", "(none)", "(draft)"} or drop or text.startswith("ignored"):
        return []
    sender = (data.get("sender") or {}).get("login")
    if text.startswith("default reviewer"):
        return [(scenario, DEFAULT)]
    if text.startswith(("default / earlier", "team ")):  # a team is not told; who was asked by name is
        asked = data["pull_request"].get("requested_reviewers") or []
        return sorted((scenario, each["login"]) for each in asked) or [(scenario, DEFAULT)]
    if scenario == "ci_failure":
        author = "agent-dev" if "agent-dev" in text else AUTHOR
        return [(scenario, author)]
    if scenario == "deploy_failure":
        return [(scenario, OPS)]
    if named := re.match(r"mention for \[(.*)\]|\[(.*)\] gets", text):
        return [(scenario, name) for name in re.findall(r"'([^']+)'", named[1] or named[2])]
    recipient = text.split()[0]
    return [] if recipient == sender else [(scenario, recipient)]


def read(row: Row) -> tuple[dict[str, Any], ForgeEvent | IgnoredDelivery]:
    assert FOLDER is not None
    body = (FOLDER / row.kind / row.file).read_bytes()
    return json.loads(body), webhooks.read_delivery(SOURCE, row.kind, headers(row), body)


def world_of(data: dict[str, Any]) -> World:
    names = sorted({*logins(data), DEFAULT, OPS, AUTHOR, "agent-dev"})
    return World(registry(*names, default_reviewer=DEFAULT, ops=OPS))


def pull_of_the_head(world: World, found: ForgeEvent) -> None:
    """Before a failure of a commit is told, its pull request was seen."""
    ran = found.status or found.run
    if ran is None or found.pull_request is not None:
        return
    author = "agent-dev" if found.sender and found.sender.login in {"agent-dev", "gitea-actions"} else AUTHOR
    number = found.run.pulls[0] if found.run and found.run.pulls else 5
    seen = pull(number, author=user(author), head_sha=ran.sha, requested_reviewers=(user("somebody"),), draft=True)
    world.see(event("pull_request_opened", pull_request=seen).model_copy(update={"repository": found.repository}))


@pytest.mark.skipif(not ROWS, reason="no recorded payloads: set AGENTTALK_PAYLOADS to their folder")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}-{row.file}")
@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.rest), 3])
def test_a_recorded_delivery_comes_to_what_its_manifest_says(row: Row, times: int) -> None:
    data, found = read(row)
    expected = expectation(row, data)
    if isinstance(found, IgnoredDelivery):
        assert (found.code, expected) == (None, []), found
        return
    world = world_of(data)
    pull_of_the_head(world, found)
    for _ in range(times):
        world.see(found)
    assert world.outcome() == expected, world.last
    for task in world.proposed.values():
        assert task.key.startswith(f"{SOURCE}:")


@pytest.mark.skipif(not ROWS, reason="no recorded payloads: set AGENTTALK_PAYLOADS to their folder")
def test_every_recording_is_in_the_manifest_and_most_kinds_of_work_occur() -> None:
    assert FOLDER is not None
    kinds = ("gitea", "forgejo", "github")  # others are bodies without an expectation
    files = {(kind, file.name) for kind in kinds for file in (Path(FOLDER) / kind).glob("*.json")}
    assert files == {(row.kind, row.file) for row in ROWS}
    seen = {action for row in ROWS for action, _ in expectation(row, read(row)[0])}
    assert seen >= {
        "review_request", "review_result", "review_comment", "review_updated", "ci_failure", "issue_assigned",
        "deploy_failure", "mention", "review_merged",
    }  # fmt: skip


@pytest.mark.skipif(not ROWS, reason="no recorded payloads: set AGENTTALK_PAYLOADS to their folder")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}-{row.file}")
def test_where_nobody_is_an_agent_there_is_no_task(row: Row) -> None:
    data, found = read(row)
    if isinstance(found, IgnoredDelivery):
        return
    world = World(registry("nobody", default_reviewer=None, ops=None))
    world.see(found)
    assert world.outcome() == []
    if expectation(row, data) and not world.last.held and found.name != "comment_created":
        assert {each.code for each in world.last.warnings} == {Code.FORGE_ASSIGNEE_UNKNOWN}
