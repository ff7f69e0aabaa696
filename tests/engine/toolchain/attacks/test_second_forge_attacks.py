"""Work that only looks like it, and honest work that looks odd: what nobody had tried at a forge before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.forge.gitea import Gitea
from agenttalk.engine.views import toolchain
from agenttalk.ports.agents import Job
from agenttalk.rules.toolchain.accounts import ForgeIdentity
from agenttalk.rules.toolchain.mentions import Marker, write_marker
from engine.toolchain.attacks.test_honest_and_not import ended, merge, rejected
from engine.toolchain.test_read_back import REGISTRY, REPO, SOURCE, Place, approved, asked, called, only, play

pytestmark = pytest.mark.rest


async def statuses(place: Place) -> list[str]:
    """How the tasks stand, in the order in which they were made."""
    found = (await toolchain.list_toolchain_tasks(place.deps, toolchain.ToolchainQuery()))["tasks"]
    return [each["status"] for each in sorted(found, key=lambda each: str(each["id"]))]


def say(place: Place, number: int, text: str, who: str = "agent-dev") -> None:
    place.forge.state.issues.create_comment(place.repository, place.user(who), number, text)


# One deed for two tasks, and none at all


def test_one_comment_does_not_answer_a_call_and_a_remark_of_a_review_after_it(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.forge.push(REPO, "feat/x", {"x.py": "x = 1\n"}, "agent-dev")
        state, repository, maintainer = place.forge.state, place.repository, place.user("maintainer")
        number = state.pulls.create_pull(
            repository, place.user("agent-dev"), "A change", "", "feat/x", "main"
        ).issue.number
        place.forge.deliveries.all = []
        say(place, number, "@agent-dev why is it so slow?", "maintainer")
        state.pulls.review(repository, maintainer, number, "COMMENT", "And why is it one?", "")
        assert len(await place.heard()) == 2

        async def hello(job: Job) -> None:
            if not any(each.author.login == "agent-dev" for each in repository.comments):
                say(place, number, "Because.")
            await place.say(job)

        place.deeds = [hello, hello]
        await place.ran(1)
        assert [each.code for each in place.outcomes] == ["no_action"]

        async def answers(job: Job) -> None:
            say(place, number, f"It is so.\n\n{write_marker(Marker(job.task_id, 0))}")
            await place.say(job)

        place.deeds = [answers, answers]
        await place.ran(9)
        assert (len(place.outcomes), await statuses(place)) == (1, ["done", "done"])

    play(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    ["<!-- nothing -->", "   \n\u200b\u2060", "> @agent-dev how much?", "{marker}", "> how much?\n\n{marker}"],
)
def test_a_comment_that_says_nothing_is_no_answer(tmp_path: Path, text: str) -> None:
    async def work(place: Place) -> None:
        number = await called(place)

        async def nothing(job: Job) -> None:
            say(place, number, text.format(marker=write_marker(Marker(job.task_id, 0))))
            await place.say(job)

        async def answers(job: Job) -> None:
            say(place, number, f"> how much?\n\n40\n\n{write_marker(Marker(job.task_id, 0))}")
            await place.say(job)

        place.deeds = [nothing, answers]
        await place.ran(1)
        assert [each.code for each in place.outcomes] == ["no_action"]
        await place.ran(9)
        assert await statuses(place) == ["done"]

    play(tmp_path, work)


# Verdicts that are taken back


@pytest.mark.parametrize("who", ["agent-dev", "maintainer"])
def test_an_author_who_takes_the_rejection_back_has_not_done_what_it_asks_for(tmp_path: Path, who: str) -> None:
    async def work(place: Place) -> None:
        number, _ = await rejected(place)
        state, repository = place.forge.state, place.repository
        [review] = repository.pulls[number].reviews
        await ended(place, lambda: state.pulls.dismiss(repository, place.user(who), number, review.id))
        [outcome] = place.outcomes
        assert (outcome.cause == "MOOT") == (who == "maintainer"), outcome
        if who == "agent-dev":
            assert outcome.code == "no_action"
            await ended(place, lambda: place.forge.push(REPO, "feat/x", {"x.py": "x = 2\n"}, "agent-dev"))
            assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


@pytest.mark.parametrize("later", [False, True])
def test_what_was_approved_and_is_not_any_more_is_not_merged(tmp_path: Path, *, later: bool) -> None:
    """The approval is taken back while the agent works; an approval by somebody else counts."""

    async def work(place: Place) -> None:
        number, head = await approved(place)
        state, repository = place.forge.state, place.repository
        [review] = repository.pulls[number].reviews

        def merges() -> None:
            state.pulls.dismiss(repository, place.user("maintainer"), number, review.id)
            if later:
                state.pulls.review(repository, place.user("somebody"), number, "APPROVED", "Fine with me.", head)
            merge(place, number)

        await ended(place, merges)
        if later:
            assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")
        else:
            assert [each.code for each in place.outcomes] == ["unapproved_merge"]

    play(tmp_path, work)


def test_who_is_dismissed_and_asked_again_reviews_again(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, head = await asked(place)
        state, repository, reviewer = place.forge.state, place.repository, place.user("agent-reviewer")
        await ended(place, lambda: state.pulls.review(repository, reviewer, number, "APPROVED", "Good.", head))
        assert await statuses(place) == ["done"]
        await place.heard()
        [review] = repository.pulls[number].reviews
        state.pulls.dismiss(repository, place.user("maintainer"), number, review.id)
        state.pulls.request_review(repository, place.user("somebody"), number, "agent-reviewer")
        assert len(await place.heard()) == 1
        await ended(place, lambda: None)
        assert [each.code for each in place.outcomes] == ["no_action"], "the old review does not count once more"
        await ended(place, lambda: state.pulls.review(repository, reviewer, number, "REQUEST_CHANGES", "No.", head))
        assert await statuses(place) == ["done", "done"]

    play(tmp_path, work)


@pytest.mark.parametrize("looked", [False, True])
def test_who_merges_unreviewed_what_an_issue_asks_for_is_told_of(tmp_path: Path, *, looked: bool) -> None:
    async def work(place: Place) -> None:
        state, repository, dev = place.forge.state, place.repository, place.user("agent-dev")
        issue = state.issues.create_issue(repository, place.user("maintainer"), "Do it", "", ["agent-dev"])
        assert len(await place.heard()) == 1

        def works() -> None:
            head = place.forge.push(REPO, "fix", {"fix.py": "1\n"}, "agent-dev")
            number = state.pulls.create_pull(
                repository, dev, "Done", f"Closes #{issue.number}", "fix", "main"
            ).issue.number
            if looked:
                state.pulls.review(repository, place.user("agent-reviewer"), number, "APPROVED", "Good.", head)
            merge(place, number)

        await ended(place, works)
        if looked:
            assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")
        else:
            assert [each.code for each in place.outcomes] == ["unapproved_merge"]

    play(tmp_path, work)


# Where it goes to


def test_what_was_approved_for_one_branch_is_not_merged_into_another(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await approved(place)
        place.forge.push(REPO, "attic", {"a.txt": "1\n"}, "agent-dev")

        def merges() -> None:
            place.forge.state.pulls.retarget(place.repository, place.user("agent-dev"), number, "attic")
            merge(place, number)

        await ended(place, merges)
        [outcome] = place.outcomes
        assert outcome.code == "unapproved_merge"
        assert "approved for main" in outcome.detail

    play(tmp_path, work)


@pytest.mark.parametrize("honest", [False, True])
def test_an_approval_does_not_cover_what_lay_below_it(tmp_path: Path, *, honest: bool) -> None:
    """A small change on a large branch is approved; then it goes to main, with or without what was below it."""

    async def work(place: Place) -> None:
        state, repository, dev = place.forge.state, place.repository, place.user("agent-dev")
        place.forge.push(REPO, "large", {"large.py": "nobody = 'looked'\n"}, "agent-dev")
        large = state.pulls.create_pull(repository, dev, "Large", "", "large", "main").issue.number
        tip = repository.bare.head("large")
        repository.bare.move_ref("refs/heads/small", tip)
        head = place.forge.push(REPO, "small", {"small.py": "x = 1\n"}, "agent-dev")
        number = state.pulls.create_pull(repository, dev, "Small", "", "small", "large").issue.number
        state.pulls.review(repository, place.user("maintainer"), number, "APPROVED", "Good.", head)
        place.forge.deliveries.all = place.forge.deliveries.all[-1:]
        assert len(await place.heard()) == 1

        def merges() -> None:
            if honest:
                merge(place, large, who="maintainer")
            state.pulls.retarget(repository, dev, number, "main")
            place.forge.force_push(REPO, "large", "", "agent-dev")
            merge(place, number)

        await ended(place, merges)
        if honest:
            assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")
        else:
            assert [each.code for each in place.outcomes] == ["unapproved_merge"]

    play(tmp_path, work)


# Heads


def test_a_head_that_goes_back_in_time_or_is_made_anew_is_no_work(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.forge.push(REPO, "feat/x", {"x.py": "x = 1\n"}, "agent-dev")
        older = place.repository.bare.head("feat/x")
        place.forge.push(REPO, "feat/x", {"x.py": "x = 2\n"}, "agent-dev")
        state, repository = place.forge.state, place.repository
        pull = state.pulls.create_pull(repository, place.user("agent-dev"), "A change", "", "feat/x", "main")
        number, head = pull.issue.number, pull.head_sha
        state.pulls.review(repository, place.user("maintainer"), number, "REQUEST_CHANGES", "Why?", head)
        place.forge.deliveries.all = place.forge.deliveries.all[-1:]
        assert len(await place.heard()) == 1
        await ended(place, lambda: place.forge.force_push(REPO, "feat/x", older, "agent-dev"))
        assert [each.code for each in place.outcomes] == ["no_action"], "an older head is nothing new"

        def anew() -> None:
            place.forge.force_push(REPO, "feat/x", head, "agent-dev")
            place.forge.amend(REPO, "feat/x", {}, "agent-dev", "Mended everything")

        await ended(place, anew)
        assert [each.code for each in place.outcomes] == ["no_action"] * 2
        await ended(place, lambda: place.forge.push(REPO, "feat/x", {"x.py": "x = 3\n"}, "agent-dev"))
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


@pytest.mark.parametrize("context", ["ci / test (pull_request)", "ci / mine (pull_request)"])
def test_an_agent_does_not_make_its_red_head_green(tmp_path: Path, context: str) -> None:
    async def work(place: Place) -> None:
        kind: Any = place.deps.kinds["_toolchain"]
        client = kind.read_back.forges[SOURCE]
        knows = Gitea(SOURCE, client.client, is_agent=lambda user: REGISTRY.agent_of(user) is not None)
        object.__setattr__(kind, "read_back", replace(kind.read_back, forges={SOURCE: knows}))
        head = place.forge.push(REPO, "feat/x", {"x.py": "x = 1\n"}, "agent-dev")
        state, repository = place.forge.state, place.repository
        state.pulls.create_pull(repository, place.user("agent-dev"), "A change", "", "feat/x", "main")
        await place.heard()

        def told(outcome: str, who: str, name: str = "ci / test (pull_request)") -> None:
            state.pulls.set_status(repository, place.user(who), head, {"state": outcome, "context": name})

        told("failure", "maintainer")
        [task] = await place.heard()
        place.deeds = []

        async def pretends(job: Job) -> None:
            if job.task_id == task:
                told("success", "agent-dev", context)
            await place.say(job)

        place.deeds = [pretends, pretends]
        await place.ran(2)
        assert {each.code for each in place.outcomes} == {"no_action"}
        assert await place.heard() == []
        assert "withdrawn" not in await statuses(place)

    play(tmp_path, work)


# Obligations


@pytest.mark.parametrize("how", ["unassigns", "closes"])
def test_an_agent_that_takes_itself_off_an_issue_still_owes_it(tmp_path: Path, how: str) -> None:
    async def work(place: Place) -> None:
        state, repository, dev = place.forge.state, place.repository, place.user("agent-dev")
        number = state.issues.create_issue(repository, place.user("maintainer"), "Do it", "", ["agent-dev"]).number
        assert len(await place.heard()) == 1
        change: dict[str, Any] = {"assignees": []} if how == "unassigns" else {"state": "closed"}
        await ended(place, lambda: state.issues.edit_issue(repository, dev, number, change))
        assert [each.code for each in place.outcomes] == ["no_action"]
        await place.heard()
        state.issues.edit_issue(repository, place.user("maintainer"), number, {"title": "Do it, please"})
        await place.heard()
        assert "withdrawn" not in await statuses(place), "nor does what is told later end it"
        maintainer = place.user("maintainer")
        if how == "unassigns":
            state.issues.edit_issue(repository, maintainer, number, {"assignees": ["agent-dev"]})
            state.issues.edit_issue(repository, maintainer, number, {"assignees": []})
        else:
            state.issues.edit_issue(repository, maintainer, number, {"state": "open"})
            state.issues.edit_issue(repository, maintainer, number, {"state": "closed"})
        await place.heard()
        assert await statuses(place) == ["withdrawn"], "a person who takes it away does"

    play(tmp_path, work)


def test_a_head_that_comes_back_is_approved_as_it_was_and_asked_for_once(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, head = await approved(place)
        place.forge.push(REPO, "feat/x", {"x.py": "x = 9\n"}, "agent-dev")
        await place.heard()
        place.forge.force_push(REPO, "feat/x", head, "agent-dev")
        await place.heard()
        found = (await toolchain.list_toolchain_tasks(place.deps, toolchain.ToolchainQuery()))["tasks"]
        mine = [each for each in found if each["must_haves"]["action_type"] == "review_result"]
        assert len(mine) == 1
        assert place.repository.pulls[number].head_sha == head

    play(tmp_path, work)


def test_a_pull_request_that_is_a_draft_on_and_off_is_reviewed_once(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await asked(place)
        for title in ("WIP: Theirs", "Theirs", "WIP: Theirs", "Theirs"):
            place.forge.state.issues.edit_issue(place.repository, place.user("somebody"), number, {"title": title})
            await place.heard()
        assert len(await statuses(place)) == 1
        told, place.forge.deliveries.all = place.forge.deliveries.all, []
        assert told == []

    play(tmp_path, work)


# Accounts


def test_an_account_that_took_the_name_of_a_deleted_one_is_another_one(tmp_path: Path) -> None:
    numbers = tuple(
        replace(each, id=100_000) if each.agent == "dev" else each
        for each in REGISTRY.identities
        if isinstance(each, ForgeIdentity)
    )

    async def work(place: Place) -> None:
        state, repository = place.forge.state, place.repository
        state.issues.create_issue(repository, place.user("maintainer"), "Do it", "", ["agent-dev"])
        assert await place.heard() == [], "this agent-dev is not the one that is configured"
        number = state.issues.create_issue(repository, place.user("maintainer"), "How much?", "", []).number
        say(place, number, "@agent-dev how much?", "maintainer")
        await place.heard()
        await ended(place, lambda: say(place, number, "Forty."))
        assert [each.code for each in place.outcomes] == ["no_action"]

    play(tmp_path, work, registry=replace(REGISTRY, identities=numbers))


# Honest, and odd


def test_an_update_from_the_base_is_a_new_head(tmp_path: Path) -> None:
    """A reviewer may ask for just that. Whether it is enough, the reviewer says, and rounds are counted."""

    async def work(place: Place) -> None:
        number, _ = await rejected(place)
        place.forge.push(REPO, "main", {"other.py": "1\n"}, "maintainer")
        bare = place.repository.bare

        def updates() -> None:
            before = bare.branches()
            bare.merge("feat/x", bare.head("main"), "Update", "agent-dev", "merge")
            place.forge.state.pulls.note_push(place.repository, place.user("agent-dev"), before)

        await ended(place, updates)
        assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")
        assert place.repository.pulls[number].head_sha == bare.head("feat/x")

    play(tmp_path, work)


def test_a_reviewer_who_comments_first_and_approves_later_is_done_with_the_second(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, head = await asked(place)
        state, repository, reviewer = place.forge.state, place.repository, place.user("agent-reviewer")
        await ended(place, lambda: state.pulls.review(repository, reviewer, number, "COMMENT", "Let me think.", head))
        [outcome] = place.outcomes
        assert (outcome.code, "is COMMENT; APPROVED or" in outcome.detail) == ("no_action", True)
        await ended(place, lambda: state.pulls.review(repository, reviewer, number, "APPROVED", "Good.", head))
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


def test_who_works_before_being_asked_is_done_at_once(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await rejected(place)
        place.forge.push(REPO, "feat/x", {"x.py": "x = 2\n"}, "agent-dev")  # before its turn has begun
        await place.heard()
        await ended(place, lambda: None)
        assert place.outcomes == []
        assert place.repository.pulls[number].issue.state == "open"
        assert "done" in await statuses(place)

    play(tmp_path, work)


def test_a_person_who_answers_instead_of_the_agent_leaves_it_the_question(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number = await called(place)
        await ended(place, lambda: say(place, number, "Forty, I would say.", "maintainer"))
        [outcome] = place.outcomes
        assert outcome.code == "no_action"
        assert "agent-dev" in outcome.detail
        assert "maintainer" in outcome.detail, "who is told that another account answered"
        await ended(place, lambda: say(place, number, "What maintainer says."))
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


def test_a_maintainer_who_edits_history_takes_no_work_from_the_agent(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, head = await approved(place)
        main = place.forge.push(REPO, "main", {"other.py": "1\n"}, "maintainer")
        place.forge.amend(REPO, "main", {"other.py": "2\n"}, "maintainer", "History, anew")
        assert place.repository.bare.head("main") != main

        def merges() -> None:
            place.forge.state.pulls.merge(place.repository, place.user("agent-dev"), number, head)

        await ended(place, merges)
        assert (place.outcomes, (await only(place))["trust"]) == ([], "observed")

    play(tmp_path, work)
