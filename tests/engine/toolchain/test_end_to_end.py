"""From an issue to a merged pull request: every step by an agent at the forge, every task done by what is read there."""

from __future__ import annotations

from pathlib import Path

import pytest

import agenttalk
from doors.api.enginekit import agenttalk as agenttalk_
from engine.toolchain.kits.forgekit import REPO, ended, told

TEAM = Path(agenttalk.__file__).parent / "demo" / "forge_team"


@pytest.mark.shows("T01", "T08", "T19", "T22", "T23")
def test_an_issue_becomes_a_merged_pull_request_and_nothing_is_taken_on_trust(tmp_path: Path) -> None:
    programs = {"dev": str(TEAM / "dev.py"), "reviewer": str(TEAM / "reviewer.py")}
    with told(tmp_path, programs) as (world, bench):
        world.forge.deliveries.copies = 2  # hooks of the organisation and of the repository tell the same
        issue = world.assigned()
        [first] = ended(bench, 1)
        pull = max(world.repository.pulls)
        assert world.repository.pulls[pull].draft, "nobody is asked for a review yet"
        world.do(world.forge.finish_workflow, REPO, world.head(pull), pull=pull)
        ended(bench, 6)
        world.do(
            world.forge.state.issues.create_comment,
            world.repository,
            world.user("maintainer"),
            issue,
            "@agent-dev how much?",
        )
        ended(bench, 7)
        notes = world.pull("agent-reviewer", "docs/notes", "Notes")
        world.do(world.forge.state.pulls.merge, world.repository, world.user("maintainer"), notes, "")
        found = ended(bench, 8)
        merging = found[5]["id"]
        shown = [
            agenttalk_("toolchain", "task", each, "--root", str(tmp_path / "root")).stdout
            for each in (merging, found[7]["id"])
        ]
    kinds = [(each["must_haves"]["action_type"], each["assignee"]) for each in found]
    assert kinds == [
        ("issue_assigned", "dev"),
        ("ci_failure", "dev"),
        ("review_request", "reviewer"),
        ("review_result", "dev"),
        ("review_updated", "reviewer"),
        ("review_result", "dev"),
        ("mention", "dev"),
        ("review_merged", "reviewer"),
    ]
    assert {(each["status"], each["trust"]) for each in found} == {("done", "observed")}
    merged = world.repository.pulls[pull]
    assert (merged.merged_by.login, [each.state for each in merged.reviews]) == (
        "agent-dev",
        ["REQUEST_CHANGES", "APPROVED"],
    )
    assert "raise ValueError" in world.repository.bare.git("show", "main:price.py")
    lines = shown[0].splitlines()
    read = f"{REPO}#{pull} was merged by agent-dev at {merged.head_sha[:10]}"
    assert lines[0] == f"{merging}  done  dev"
    assert f"  dev (action_report): Merged #{pull}." in lines
    assert lines[-2:] == [f"  ✓ merged (number {pull}): read: {read}", f"  ✓ read_back: {read} (observed)"]
    assert "delivered: stored for reviewer" in shown[1]
    assert first["must_haves"]["context"]["issue_number"] == issue
    assert not (tmp_path / "root" / "data" / "_mail").exists()
