"""Odd work that is honest is taken, and work that only looks like it is not: as a real Gitea shows both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.forge.gitea import Gitea
from agenttalk.adapters.forge.read_back import ReadBack
from agenttalk.engine.views import forge_audit, toolchain
from agenttalk.ports.agents import Job
from agenttalk.rules.toolchain.mentions import Marker, write_marker
from engine.toolchain.test_read_back import QUICK, REGISTRY, REPO, SOURCE, Place, approved, asked, called, only, play


async def rejected(place: Place, verdict: str = "REQUEST_CHANGES") -> tuple[int, str]:
    """A pull request of dev's of which something is said: the task is there. Its number and head."""
    place.forge.push(REPO, "feat/x", {"x.py": "x = 1\n"}, "agent-dev")
    state, repository = place.forge.state, place.repository
    pull = state.pulls.create_pull(repository, place.user("agent-dev"), "A change", "", "feat/x", "main")
    line = [{"path": "x.py", "new_position": 1, "body": "Why one?"}]
    state.pulls.review(repository, place.user("maintainer"), pull.issue.number, verdict, "Why?", pull.head_sha, line)
    place.forge.deliveries.all = place.forge.deliveries.all[-1:]
    assert len(await place.heard()) == 1
    return pull.issue.number, pull.head_sha


async def ended(place: Place, work: Any, turns: int = 1) -> None:
    async def turn(job: Job) -> None:
        work()
        await place.say(job)

    place.deeds = [turn]
    await place.ran(turns)


def merge(place: Place, number: int, style: str = "merge", who: str = "agent-dev") -> None:
    place.forge.state.pulls.merge(place.repository, place.user(who), number, "", style)


# What was merged


@pytest.mark.rest_but("squash")
@pytest.mark.mends("E1", "E14")
@pytest.mark.parametrize("style", ["merge", "squash", "rebase", "rebase-merge"])
def test_what_is_merged_is_not_what_the_branch_is_put_back_to(tmp_path: Path, style: str) -> None:
    async def work(place: Place) -> None:
        number, head = await approved(place)
        place.forge.push(REPO, "main", {"other.py": "1\n"}, "maintainer")

        def cheats() -> None:
            worse = place.forge.push(REPO, "feat/x", {"x.py": "x = 666\n"}, "agent-dev")
            merge(place, number, style)
            place.forge.force_push(REPO, "feat/x", head, "agent-dev")
            assert place.forge.shapes().pull(place.repository, place.repository.pulls[number])["head"]["sha"] == head
            assert worse == place.repository.pulls[number].head_sha

        await ended(place, cheats)
        [outcome] = place.outcomes
        assert outcome.code == "unapproved_merge"
        assert "without an approval" in outcome.detail

    play(tmp_path, work)


@pytest.mark.rest_but("True-squash", "False-merge")
@pytest.mark.mends("E1")
@pytest.mark.parametrize("style", ["merge", "squash", "rebase", "rebase-merge", "fast-forward-only"])
@pytest.mark.parametrize("removed", [True, False])
def test_what_was_approved_is_merged_in_any_way(tmp_path: Path, style: str, *, removed: bool) -> None:
    async def work(place: Place) -> None:
        number, _ = await approved(place)
        if style != "fast-forward-only":
            place.forge.push(REPO, "main", {"other.py": "1\n"}, "maintainer")

        def merges() -> None:
            merge(place, number, style)
            if removed:
                place.forge.force_push(REPO, "feat/x", "", "agent-dev")
            else:
                place.forge.push(REPO, "feat/x", {"next.py": "later\n"}, "agent-dev")

        await ended(place, merges)
        assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")

    play(tmp_path, work)


@pytest.mark.mends("E1")
@pytest.mark.parametrize(
    ("pushes", "words"), [(False, "against maintainer, who asks for changes"), (True, "without an approval")]
)
def test_a_merge_of_what_was_rejected_or_not_looked_at_is_told(tmp_path: Path, words: str, *, pushes: bool) -> None:
    async def work(place: Place) -> None:
        number, _ = await rejected(place)

        def merges() -> None:
            if pushes:
                place.forge.push(REPO, "feat/x", {"x.py": "x = 2\n"}, "agent-dev")
            merge(place, number)
            place.forge.push(REPO, "feat/x", {"x.py": "x = 3\n"}, "agent-dev")

        await ended(place, merges)
        [outcome] = place.outcomes
        assert (outcome.code, words in outcome.detail) == ("unapproved_merge", True), outcome

    play(tmp_path, work)


@pytest.mark.mends("E1")
def test_what_is_pushed_to_a_closed_pull_request_is_no_new_head(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await rejected(place)

        def closes() -> None:
            dev = place.user("agent-dev")
            place.forge.state.issues.edit_issue(place.repository, dev, number, {"state": "closed"})
            place.forge.push(REPO, "feat/x", {"x.py": "x = 3\n"}, "agent-dev")

        await ended(place, closes)
        assert place.outcomes[0].code == "no_action"
        assert "what is pushed afterwards does not count" in place.outcomes[0].detail

    play(tmp_path, work)


@pytest.mark.mends("E1")
def test_a_new_head_counts_although_it_was_approved_and_merged_meanwhile(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await rejected(place)

        def mends() -> None:
            head = place.forge.push(REPO, "feat/x", {"x.py": "x = 2\n"}, "agent-dev")
            maintainer = place.user("maintainer")
            place.forge.state.pulls.review(place.repository, maintainer, number, "APPROVED", "Now it is.", head)
            merge(place, number)

        await ended(place, mends)
        assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")

    play(tmp_path, work)


# What is no work


@pytest.mark.rest_but("empty")
@pytest.mark.mends("E8", "E14")
@pytest.mark.parametrize("how", ["empty", "amended", "reverted"])
def test_commits_that_change_nothing_are_no_work(tmp_path: Path, how: str) -> None:
    async def work(place: Place) -> None:
        await rejected(place)

        def pretends() -> None:
            if how == "empty":
                place.forge.push(REPO, "feat/x", {}, "agent-dev")
            elif how == "amended":
                place.forge.amend(REPO, "feat/x", {}, "agent-dev")
            else:
                place.forge.push(REPO, "feat/x", {"x.py": "x = 2\n"}, "agent-dev")
                place.forge.push(REPO, "feat/x", {"x.py": "x = 1\n"}, "agent-dev")

        await ended(place, pretends)
        assert place.outcomes[0].code == "no_action"
        assert "all its files are as at" in place.outcomes[0].detail

        def mends() -> None:
            place.forge.amend(REPO, "feat/x", {"x.py": "x = 2\n"}, "agent-dev", "Mended")

        await ended(place, mends)
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


@pytest.mark.mends("E8", "E11")
def test_a_pull_request_for_an_issue_changes_something_and_stays(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        state, repository, dev = place.forge.state, place.repository, place.user("agent-dev")
        place.forge.push(REPO, "early", {"early.py": "1\n"}, "agent-dev")
        issue = state.issues.create_issue(repository, place.user("maintainer"), "Do it", "", ["agent-dev"])
        assert len(await place.heard()) == 1

        def opens(branch: str, files: dict[str, str | None]) -> Any:
            place.forge.push(REPO, branch, files, "agent-dev")
            return state.pulls.create_pull(repository, dev, "Done", f"Closes #{issue.number}", branch, "main")

        def empty() -> None:
            number = opens("nothing", {}).issue.number
            assert place.forge.shapes().pull(repository, repository.pulls[number])["changed_files"] == 0

        def given_up() -> None:
            pull = opens("closed", {"x.py": "1\n"})
            state.issues.edit_issue(repository, dev, pull.issue.number, {"state": "closed"})

        for deed, words in ((given_up, "was closed and not merged"), (empty, "changes no file")):
            await ended(place, deed)
            assert place.outcomes[-1].code == "no_action"
            assert words in place.outcomes[-1].detail
        await ended(place, lambda: opens("good", {"y.py": "1\n"}))
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


# What is honest


@pytest.mark.mends("E11")
def test_a_pull_request_from_before_the_assignment_counts_while_it_is_open(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        state, repository = place.forge.state, place.repository
        place.forge.push(REPO, "early", {"early.py": "1\n"}, "agent-dev")
        state.pulls.create_pull(repository, place.user("agent-dev"), "Early", "For #2", "early", "main")
        issue = state.issues.create_issue(repository, place.user("maintainer"), "Do it", "", [])
        assert issue.number == 2
        place.forge.deliveries.all = []
        state.issues.edit_issue(repository, place.user("maintainer"), 2, {"assignees": ["agent-dev"]})
        assert len(await place.heard()) == 1
        await ended(place, lambda: None)
        assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")

    play(tmp_path, work)


@pytest.mark.mends("E11", "E14")
def test_a_review_that_was_drafted_before_it_was_asked_for_counts_when_it_is_handed_in(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        state, repository, reviewer = place.forge.state, place.repository, place.user("agent-reviewer")
        place.forge.push(REPO, "feat/y", {"y.py": "y = 1\n"}, "somebody")
        pull = state.pulls.create_pull(repository, place.user("somebody"), "WIP: theirs", "", "feat/y", "main")
        draft = state.pulls.review(repository, reviewer, pull.issue.number, "", "Fine.", "")
        place.forge.deliveries.all = []
        state.issues.edit_issue(repository, place.user("somebody"), pull.issue.number, {"title": "Theirs"})
        assert len(await place.heard()) == 1

        def hands_in() -> None:
            state.pulls.submit_review(repository, reviewer, pull.issue.number, draft.id, "APPROVED", "")
            assert draft.submitted < draft.updated

        await ended(place, hands_in)
        assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")

    play(tmp_path, work)


@pytest.mark.mends("E11")
def test_a_review_from_before_the_request_counts_neither_by_being_taken_back(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        state, repository, reviewer = place.forge.state, place.repository, place.user("agent-reviewer")
        place.forge.push(REPO, "feat/y", {"y.py": "y = 1\n"}, "somebody")
        pull = state.pulls.create_pull(repository, place.user("somebody"), "WIP: theirs", "", "feat/y", "main")
        old = state.pulls.review(repository, reviewer, pull.issue.number, "APPROVED", "Fine.", "")
        place.forge.deliveries.all = []
        state.issues.edit_issue(repository, place.user("somebody"), pull.issue.number, {"title": "Theirs"})
        await place.heard()
        await ended(place, lambda: state.pulls.dismiss(repository, reviewer, pull.issue.number, old.id))
        assert place.outcomes[0].code == "no_action"

    play(tmp_path, work)


@pytest.mark.mends("E11", "E14")
@pytest.mark.parametrize(
    ("pusher", "address", "good"),
    [
        ("agent-dev", "ann@example.test", True),
        ("agent-dev", "somebody@noreply.example.test", True),
        ("somebody", "agent-dev@noreply.example.test", False),
    ],
)
def test_who_pushed_counts_and_not_whose_address_the_commits_bear(
    tmp_path: Path, pusher: str, address: str, *, good: bool
) -> None:
    async def work(place: Place) -> None:
        await rejected(place)
        files: dict[str, str | None] = {"x.py": "x = 2\n"}
        await ended(place, lambda: place.forge.push(REPO, "feat/x", files, pusher, address=address))
        if good:
            assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")
        else:
            assert place.outcomes[0].code == "no_action"
            assert "were brought by somebody, not by agent-dev" in place.outcomes[0].detail

    play(tmp_path, work)


# Who answers what


@pytest.mark.mends("E6", "E14")
@pytest.mark.parametrize("who", ["agent-dev", "somebody"])
def test_an_answer_in_the_thread_of_a_review_is_seen(tmp_path: Path, who: str) -> None:
    async def work(place: Place) -> None:
        number, _ = await rejected(place, "COMMENT")
        [review] = place.repository.pulls[number].reviews
        [line] = review.comments

        def replies() -> None:
            place.forge.state.pulls.reply(place.repository, place.user(who), number, line.id, "Because of the rule.")
            assert [each.author.login for each in review.comments] == ["maintainer", who]

        await ended(place, replies)
        if who == "agent-dev":
            assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")
        else:
            assert place.outcomes[0].code == "no_action"

    play(tmp_path, work)


@pytest.mark.mends("E6")
def test_a_call_on_a_pull_request_is_answered_in_a_thread_as_well(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await rejected(place, "COMMENT")
        line = place.repository.pulls[number].reviews[0].comments[0]
        state, repository = place.forge.state, place.repository
        state.issues.create_comment(repository, place.user("maintainer"), number, "@agent-ops what do you say?")
        [task] = await place.heard()

        async def turn(job: Job) -> None:
            who = "agent-ops" if job.task_id == task else "agent-dev"
            state.pulls.reply(repository, place.user(who), number, line.id, "It is right.")
            await place.say(job)

        place.deeds = [turn, turn]
        await place.ran(2)
        shown = (await toolchain.list_toolchain_tasks(place.deps, toolchain.ToolchainQuery()))["tasks"]
        assert (place.outcomes, {each["status"] for each in shown}) == ([], {"done"})

    play(tmp_path, work)


@pytest.mark.mends("E11")
def test_one_hello_does_not_answer_two_questions(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number = await called(place)
        state, repository, dev = place.forge.state, place.repository, place.user("agent-dev")
        state.issues.create_comment(repository, place.user("maintainer"), number, "@agent-dev and why?")
        assert len(await place.heard()) == 1

        async def hello(job: Job) -> None:
            state.issues.create_comment(repository, dev, number, "Hello.")
            await place.say(job)

        place.deeds = [hello]
        await place.ran(1)
        [outcome] = place.outcomes
        assert (outcome.code, "each answers one question" in outcome.detail) == ("no_action", True)

        async def answers(job: Job) -> None:
            state.issues.create_comment(repository, dev, number, f"Forty.\n\n{write_marker(Marker(job.task_id, 0))}")
            await place.say(job)

        place.deeds = [answers, answers]
        await place.ran(9)
        shown = (await toolchain.list_toolchain_tasks(place.deps, toolchain.ToolchainQuery()))["tasks"]
        assert (len(place.outcomes), {each["status"] for each in shown}) == (1, {"done"})

    play(tmp_path, work)


@pytest.mark.mends("E11")
def test_a_comment_that_names_another_task_answers_that_one(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number = await called(place)
        state, repository, dev = place.forge.state, place.repository, place.user("agent-dev")

        def elsewhere() -> None:
            state.issues.create_comment(repository, dev, number, f"Yes.\n\n{write_marker(Marker('tc-99', 0))}")

        await ended(place, elsewhere)
        assert place.outcomes[0].code == "no_action"
        await ended(place, lambda: state.issues.create_comment(repository, dev, number, "Forty."))
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


# Whose word a status is


@pytest.mark.mends("E11", "E14")
def test_an_agent_s_own_success_is_none(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        kind: Any = place.deps.kinds["_toolchain"]
        client = kind.read_back.forges[SOURCE]
        knows = Gitea(SOURCE, client.client, is_agent=lambda user: REGISTRY.agent_of(user) is not None)
        object.__setattr__(kind, "read_back", replace(kind.read_back, forges={SOURCE: knows}))
        sha = place.repository.bare.head("main")

        def told(state: str, who: str) -> None:
            status = {"state": state, "context": "deploy / production"}
            place.forge.state.pulls.set_status(place.repository, place.user(who), sha, status)

        told("failure", "maintainer")
        assert len(await place.heard()) == 1
        await ended(place, lambda: told("success", "agent-ops"))
        assert place.outcomes[0].code == "no_action"
        await ended(place, lambda: told("success", "maintainer"))
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


# What the engine cannot see


@pytest.mark.mends("E4", "E14")
def test_a_repository_that_the_engine_does_not_see_makes_no_agent_a_liar(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await approved(place)
        kind: Any = place.deps.kinds["_toolchain"]
        reads = place.forge.user("engine")
        async with Gitea.connect(SOURCE, place.forge.url, reads, patience=QUICK) as client:
            object.__setattr__(kind, "read_back", ReadBack({SOURCE: client}, REGISTRY, patience=0.0, settling=0.0))
            place.repository.private = True

            async def merges(job: Job) -> None:
                merge(place, number)
                await place.say(job, claims=[{"merged": number}])

            place.deeds = [merges]
            await place.ran()
            [outcome] = place.outcomes
            assert (outcome.code, outcome.infrastructure) == ("verify_error", True)
            assert outcome.detail.startswith(f"FORGE_UNSEEN: the engine's account does not see {REPO}")
            place.repository.readers.add("engine")
            await place.ran(9)
            shown = await only(place)
            assert (shown["status"], shown["trust"]) == ("done", "observed")

    play(tmp_path, work)


@pytest.mark.mends("E4")
def test_what_is_missing_in_a_repository_that_is_seen_is_denied(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await asked(place)

        async def lies(job: Job) -> None:
            await place.say(job, claims=[{"merged": 99}])

        place.deeds = [lies]
        await place.ran()
        assert place.outcomes[0].code == "claim_denied"
        [task] = (await toolchain.list_toolchain_tasks(place.deps, toolchain.ToolchainQuery()))["tasks"]
        verify = (await forge_audit.audit_task(place.deps, task["id"]))["verify"]
        assert verify is not None
        assert verify["code"] == "claim_denied"

    play(tmp_path, work)


@pytest.mark.mends("E4")
def test_nobody_works_again_while_the_engine_does_not_see_the_work(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await approved(place)
        kind: Any = place.deps.kinds["_toolchain"]
        reads, waits = place.forge.user("engine"), list[float]()

        async def pause(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 50:
                place.repository.readers.add("engine")

        async with Gitea.connect(SOURCE, place.forge.url, reads, patience=QUICK) as client:
            patient = ReadBack({SOURCE: client}, REGISTRY, patience=5.0, longest=20.0, settling=0.0, sleep=pause)
            object.__setattr__(kind, "read_back", patient)
            place.repository.private = True

            async def merges(job: Job) -> None:
                merge(place, number)
                await place.say(job)

            place.deeds = [merges]
            await place.ran(9)
            [outcome] = place.outcomes
            assert (outcome.infrastructure, outcome.detail.startswith("FORGE_UNSEEN: ")) == (True, True)
            shown = await only(place)
            assert (shown["status"], shown["trust"], place.left) == ("done", "observed", 8), "one turn was enough"

    play(tmp_path, work)
