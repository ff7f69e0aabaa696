"""Tasks that are not carried out: each way fails with its code, at an engine that asks a real (fake) forge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.forge import webhooks
from agenttalk.adapters.forge.client import RetryPolicy
from agenttalk.adapters.forge.gitea import Gitea
from agenttalk.adapters.forge.read_back import ReadBack
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.toolchain import PipelineResult
from agenttalk.engine.core import task_comments
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskContribution, TaskName
from agenttalk.engine.people import questions
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.toolchain.board import BOARD, ToolchainBoard, ToolchainSetup
from agenttalk.engine.toolchain.task_kind import ToolchainTaskKind
from agenttalk.engine.views import forge_audit, toolchain
from agenttalk.ports.agents import Job
from agenttalk.ports.kinds import FollowUp, KindOutcome, KindTask, KindTurn
from agenttalk.rules.prompts import toolchain_steps
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.toolchain import event_tasks
from agenttalk.rules.toolchain.accounts import ForgeIdentity, ForgeRegistry
from agenttalk.rules.toolchain.demands import Verify
from agenttalk.rules.toolchain.mentions import Marker, write_marker
from agenttalk.testing import FakeGitea
from agenttalk.testing.gitea_hooks import HookDelivery
from agenttalk.wiring import open_root

SOURCE = "work"
REPO = "acme/widgets"
AGENTS = {"dev": "agent-dev", "reviewer": "agent-reviewer", "ops": "agent-ops"}
REGISTRY = ForgeRegistry(
    identities=tuple(ForgeIdentity(agent, SOURCE, login) for agent, login in AGENTS.items()),
    default_reviewer="reviewer",
    ops="ops",
    repositories=("*",),
    deploy_patterns=("*deploy*",),
    callers={SOURCE: ("*",)},
)
PROFILES = {agent: AgentProfile(agent_id=agent, driver="played") for agent in AGENTS}  # type: ignore[arg-type]
QUICK = RetryPolicy(connect=2.0, answer=5.0, tries=1, pause=0.0)


@dataclass
class Place:
    """A forge and an engine's board in one loop."""

    forge: FakeGitea
    deps: Deps
    board: ToolchainBoard
    outcomes: list[KindOutcome]
    deeds: list[Callable[[Job], Awaitable[None]]] = field(default_factory=list)
    """What the agent does in its next turns; then nothing."""
    hands_in: tuple[str, ...] = ()
    """Evidence that the agent claims in its result."""
    left: int = 0
    """How many more turns may begin. Others wait, so that what is looked at stays as it is."""
    dispatcher: Dispatcher = field(init=False)
    """The one that runs, or ran last."""

    @property
    def repository(self) -> Any:
        return self.forge.state.repository(*REPO.split("/"))

    def user(self, login: str) -> Any:
        return self.forge.state.user(login)

    async def perform(self, job: Job) -> Performance:
        if not self.left:
            await asyncio.Event().wait()
        self.left -= 1
        if self.deeds:
            await self.deeds.pop(0)(job)
        return Performance("finished", result="I did it", claims=self.hands_in)

    async def heard(self) -> list[str]:
        """Have the engine decide about everything that the forge has told since; ids of new tasks."""
        told, self.forge.deliveries.all = self.forge.deliveries.all, []
        made: list[str] = []
        for each in told:
            made += await self.told(each)
        return made

    async def told(self, delivery: HookDelivery) -> list[str]:
        event = webhooks.read_delivery(SOURCE, "gitea", list(delivery.headers.items()), delivery.body)
        [written] = (
            await self.board.process_events([(event, {})])
            if not isinstance(event, webhooks.IgnoredDelivery)
            else [None]
        )
        return list(written.made) if written else []

    async def say(self, job: Job, body: str = "Step 1: done.", kind: str = "action_report", claims: Any = None) -> None:
        remark = TaskContribution("comment", job.agent_id, kind, body, claims)
        await task_comments.post_contribution(
            self.deps, TaskName(BOARD, BOARD, job.task_id), remark, Caller("agent", job.agent_id, None)
        )

    async def ran(self, turns: int = 1) -> None:
        """Run agents until so many turns have ended."""
        self.dispatcher = dispatcher = Dispatcher(self.deps, {"played": self}, LocalProcesses())
        stop = asyncio.Event()
        running = asyncio.create_task(dispatcher.run(stop))
        self.left, wanted = turns, len(self.outcomes) + turns
        try:
            with dispatcher.subscribe_changes() as news:
                async with asyncio.timeout(300):
                    while len(self.outcomes) < wanted and await self._open():
                        news.clear()
                        if len(self.outcomes) < wanted and await self._open():
                            await news.wait()
        finally:
            stop.set()
            await running

    async def _open(self) -> list[Any]:
        found: list[Any] = (await toolchain.list_toolchain_tasks(self.deps, toolchain.ToolchainQuery(status="open")))[
            "tasks"
        ]
        return found


def play(
    folder: Path,
    work: Callable[[Place], Awaitable[None]],
    *,
    verify: Verify = "observed",
    registry: ForgeRegistry = REGISTRY,
) -> None:
    async def run() -> None:
        outcomes: list[KindOutcome] = []

        def failed(_: KindTask, outcome: KindOutcome) -> list[FollowUp]:
            outcomes.append(outcome)
            return []

        async with (
            FakeGitea.running(folder / "forge") as forge,
            Gitea.connect(SOURCE, forge.url, forge.admin, patience=QUICK) as client,
        ):
            for login in (*AGENTS.values(), "maintainer", "somebody"):
                forge.user(login)
            for name in (REPO, "acme/other"):
                forge.repository(name, writers=[*AGENTS.values(), "maintainer", "somebody"])
                forge.hook(name, "http://127.0.0.1:9/", "s", ("pull_request", "issues", "issue_comment", "status"))
            forge.deliveries.hold()  # the test itself brings them
            kind = ToolchainTaskKind(
                verify={SOURCE: verify},
                read_back=ReadBack({SOURCE: client}, registry, patience=0.0, settling=0.0),
                on_failure=failed,
                lead="lead",
            )
            (folder / "root").mkdir()
            async with open_root(folder / "root", kinds={BOARD: kind}) as deps:
                setup = ToolchainSetup(
                    registry=registry,
                    places={SOURCE: toolchain_steps.ForgeAddresses("gitea", forge.url)},
                    profiles=PROFILES,
                    retry_times=0,
                )
                await work(Place(forge, deps, ToolchainBoard(deps, setup, lambda: ""), outcomes))

    asyncio.run(run())


async def approved(place: Place) -> tuple[int, str]:
    """A pull request of dev's that was approved: the task to merge it is there. Its number and head."""
    place.forge.push(REPO, "feat/x", {"x.py": "x = 1\n"}, "agent-dev")
    state, repository = place.forge.state, place.repository
    pull = state.pulls.create_pull(repository, place.user("agent-dev"), "A change", "", "feat/x", "main")
    number, head = pull.issue.number, pull.head_sha
    state.pulls.review(repository, place.user("maintainer"), number, "APPROVED", "Good.", head)
    place.forge.deliveries.all = place.forge.deliveries.all[-1:]  # what is told of the approval alone
    assert len(await place.heard()) == 1
    return number, head


async def asked(place: Place) -> tuple[int, str]:
    """A pull request of somebody's that waits for the reviewer. Its number and head."""
    place.forge.push(REPO, "feat/y", {"y.py": "y = 1\n"}, "somebody")
    pull = place.forge.state.pulls.create_pull(place.repository, place.user("somebody"), "Theirs", "", "feat/y", "main")
    assert len(await place.heard()) == 1
    return pull.issue.number, pull.head_sha


async def called(place: Place, text: str = "@agent-dev how much?") -> int:
    """An issue in which dev is called. Its number."""
    issue = place.forge.state.issues.create_issue(place.repository, place.user("maintainer"), "How much?", "", [])
    place.forge.state.issues.create_comment(place.repository, place.user("maintainer"), issue.number, text)
    assert len(await place.heard()) == 1
    return int(issue.number)


async def only(place: Place) -> Any:
    [task] = (await toolchain.list_toolchain_tasks(place.deps, toolchain.ToolchainQuery()))["tasks"]
    return await forge_audit.audit_task(place.deps, task["id"])


# Waiting


def test_news_that_comes_between_a_reading_and_the_wait_that_follows_from_it_ends_that_wait(tmp_path: Path) -> None:
    """The forge tells it once, and no time ends the wait."""

    async def work(place: Place) -> None:
        place.repository.approvals = 2
        number, head = await approved(place)
        reasons: list[str] = []

        async def never(_: float) -> None:
            await asyncio.Event().wait()

        async with Gitea.connect(SOURCE, place.forge.url, place.forge.admin, patience=QUICK) as client:
            asked = ReadBack({SOURCE: client}, REGISTRY, patience=0.0, settling=0.0, sleep=never)

            async def read_back(task: KindTask, turn: KindTurn) -> list[Evidence]:
                async def wait(why: str, longest: Any) -> None:
                    assert turn.wait is not None
                    if not reasons:
                        pulls, repository = place.forge.state.pulls, place.repository
                        pulls.review(repository, place.user("somebody"), number, "APPROVED", "Good.", head)
                        pulls.merge(repository, place.user("agent-dev"), number, "", "merge")
                        place.dispatcher.wake_forge_waiters()
                    reasons.append(why)
                    await turn.wait(why, longest)

                return await asked(task, replace(turn, wait=wait))

            object.__setattr__(place.deps.kinds[BOARD], "read_back", read_back)
            await place.ran()
            shown = await only(place)
            assert (shown["status"], shown["trust"], len(reasons)) == ("done", "observed", 1)

    play(tmp_path, work)


# Not done


@pytest.mark.shows("T08", "T19")
def test_a_turn_without_a_deed_and_without_a_report_is_no_action(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await approved(place)
        await place.ran()
        [outcome] = place.outcomes
        assert (outcome.cause, outcome.code, outcome.infrastructure) == ("NOT_FULFILLED", "no_action", False)
        assert outcome.detail == f"{REPO}#{number} is not merged: it is open"

    play(tmp_path, work)


@pytest.mark.shows("T08", "T19", "T22")
def test_a_report_of_a_merge_that_did_not_happen_is_denied_and_names_the_difference(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await approved(place)

        async def lies(job: Job) -> None:
            await place.say(job, "Merged.", claims=[{"merged": {"pull_request": number}}])

        place.deeds = [lies]
        await place.ran()
        [outcome] = place.outcomes
        assert outcome.code == "claim_denied"
        assert outcome.detail == (
            f"the report says merged (number {number}), but {REPO}#{number} is not merged: it is open"
        )
        shown = await only(place)
        [turn] = shown["turns"]
        assert [each["body"] for each in shown["said"]] == ["Merged."]
        assert [(each["id"], each["passed"]) for each in turn["seen"] if each["id"].startswith("claim:")] == [
            (f"claim:merged (number {number})", False)
        ]
        assert shown["verify"]["code"] == "claim_denied"

    play(tmp_path, work)


@pytest.mark.parametrize("verify", ["report", "transition"])
def test_a_denied_report_is_not_taken_where_reports_are_taken(tmp_path: Path, verify: Verify) -> None:
    async def work(place: Place) -> None:
        await approved(place)

        async def lies(job: Job) -> None:
            await place.say(job, "I have merged it, as everybody can see.", claims={"merged": True})

        async def tells(job: Job) -> None:
            await place.say(job, "I could not merge it: the build is red.")

        place.deeds = [lies, tells]
        await place.ran(4)
        assert [each.code for each in place.outcomes] == ["claim_denied"]
        shown = await only(place)
        assert (shown["status"], shown["trust"], shown["proven"]) == ("done", "claimed", False), "the second one"
        assert shown["verify"]["code"] == "has_action_report"

    play(tmp_path, work, verify=verify)


@pytest.mark.mends("E5")
def test_what_was_merged_by_somebody_else_is_moot_and_was_not_done_by_the_agent(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, _ = await approved(place)

        async def waits(job: Job) -> None:
            place.forge.state.pulls.merge(place.repository, place.user("somebody"), number, "")
            await place.say(job)

        place.deeds = [waits]
        await place.ran()
        assert [(each.cause, each.code, each.state) for each in place.outcomes] == [("MOOT", "moot", "SKIPPED")]
        assert "was merged meanwhile, by somebody" in place.outcomes[0].reason

    play(tmp_path, work)


def test_a_review_of_an_old_head_is_none(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, old = await asked(place)
        place.forge.push(REPO, "feat/y", {"y.py": "y = 2\n"}, "somebody")
        await place.heard()
        new = place.repository.pulls[number].head_sha

        async def reviews(job: Job) -> None:
            place.forge.state.pulls.review(
                place.repository, place.user("agent-reviewer"), number, "APPROVED", "ok", old
            )
            await place.say(job, claims=[{"review": {"verdict": "APPROVE"}}])

        place.deeds = [reviews]
        await place.ran()
        assert place.outcomes[0].code == "no_action"
        assert place.outcomes[0].detail.endswith(f"is of {old[:10]}, not of the newest head {new[:10]}")

    play(tmp_path, work)


@pytest.mark.parametrize(
    ("login", "event", "words"),
    [("maintainer", "APPROVED", "there is no review"), ("agent-reviewer", "COMMENT", "is COMMENT; APPROVED or")],
)
def test_only_a_verdict_by_the_agent_s_own_account_is_a_review(
    tmp_path: Path, login: str, event: str, words: str
) -> None:
    async def work(place: Place) -> None:
        number, head = await asked(place)

        async def reviews(job: Job) -> None:
            place.forge.state.pulls.review(place.repository, place.user(login), number, event, "Words.", head)
            await place.say(job)

        place.deeds = [reviews]
        await place.ran()
        assert place.outcomes[0].code == "no_action"
        assert words in place.outcomes[0].detail

    play(tmp_path, work)


@pytest.mark.shows("T19")
def test_what_the_engine_wrote_is_no_answer_of_the_agent_whose_account_it_shares(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number = await called(place)
        told = f"@agent-dev this is not done.\n\n{write_marker(Marker('tc-1', 0, by_engine=True))}"
        place.forge.state.issues.create_comment(place.repository, place.user("agent-dev"), number, told)
        await place.ran()
        [outcome] = place.outcomes
        assert (outcome.code, "there is no comment" in outcome.detail) == ("no_action", True)

        async def answers(job: Job) -> None:
            place.forge.state.issues.create_comment(place.repository, place.user("agent-dev"), number, "Forty.")
            await place.say(job)

        place.deeds = [answers]
        await place.ran()
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


def test_a_comment_by_another_account_answers_nothing(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number = await called(place)

        async def answers(job: Job) -> None:
            place.forge.state.issues.create_comment(place.repository, place.user("somebody"), number, "40 cents.")
            await place.say(job)

        place.deeds = [answers]
        await place.ran()
        assert place.outcomes[0].code == "no_action"
        assert place.outcomes[0].detail.endswith("; the last one is somebody's")

    play(tmp_path, work)


def test_a_pull_request_in_another_repository_is_none(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        issue = place.forge.state.issues.create_issue(
            place.repository, place.user("maintainer"), "Do it", "", ["agent-dev"]
        )
        assert len(await place.heard()) == 1

        async def elsewhere(job: Job) -> None:
            place.forge.push("acme/other", "fix/1", {"x.py": "x\n"}, "agent-dev")
            other = place.forge.state.repository("acme", "other")
            dev = place.user("agent-dev")
            pull = place.forge.state.pulls.create_pull(other, dev, "Do it", f"Closes {REPO}#1", "fix/1", "main")
            said = {"pull_request": {"number": pull.issue.number, "repo": "acme/other"}} if said_so else None
            await place.say(job, claims=said)

        said_so = False
        for code in ("no_action", "claim_denied"):
            place.deeds = [elsewhere]
            await place.ran()
            assert place.outcomes[-1].code == code
            place.forge.state.repository("acme", "other").pulls.clear()
            said_so = True
        assert f"it says acme/other, and the task is about {REPO}" in place.outcomes[-1].detail
        assert (
            f"no pull request by agent-dev since {issue.updated} names {REPO}#{issue.number}"
            in place.outcomes[0].detail
        )

    play(tmp_path, work)


def test_a_report_from_before_the_turn_is_none(tmp_path: Path) -> None:
    """It counts neither as a report, nor do its claims."""

    async def work(place: Place) -> None:
        await approved(place)
        [task] = (await toolchain.list_toolchain_tasks(place.deps, toolchain.ToolchainQuery()))["tasks"]
        remark = TaskContribution("comment", "dev", "action_report", "I have done it all beforehand.", {"merged": True})
        await task_comments.post_contribution(
            place.deps, TaskName(BOARD, BOARD, task["id"]), remark, Caller("agent", "dev", None)
        )
        await place.ran()
        assert place.outcomes[0].code == "no_action"
        assert "claims" not in place.outcomes[0].detail

    play(tmp_path, work, verify="transition")


def test_what_an_agent_hands_in_as_evidence_is_none(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await approved(place)

        place.hands_in = ("read_back", "has_action_report", "has_output", "has_comment")
        await place.ran()
        assert place.outcomes[0].code == "no_action"

    play(tmp_path, work, verify="transition")


@pytest.mark.shows("T08")
def test_a_forge_that_is_down_is_an_error_of_nobody_who_worked(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, head = await approved(place)

        async def merges(job: Job) -> None:
            place.forge.state.pulls.merge(place.repository, place.user("agent-dev"), number, head)
            await place.say(job, claims=[{"merged": number}])

        place.deeds = [merges]
        async with place.forge.down():
            await place.ran()
        [outcome] = place.outcomes
        assert (outcome.code, outcome.infrastructure) == ("verify_error", True)
        assert outcome.detail.startswith("FORGE_UNREACHABLE: ")
        await place.ran(9)
        assert (await only(place))["verify"]["code"] == "read_back", "what was done stays done"

    play(tmp_path, work)


def test_an_outage_is_told_once_and_waited_for_and_nobody_works_again(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        number, head = await approved(place)

        async def merges(job: Job) -> None:
            place.forge.state.pulls.merge(place.repository, place.user("agent-dev"), number, head)
            await place.say(job, claims=[{"merged": number}])

        waits: list[float] = []
        long_enough, up = asyncio.Event(), asyncio.Event()

        async def pause(seconds: float) -> None:
            waits.append(seconds)
            if sum(waits) > 300:
                long_enough.set()
                await up.wait()

        kind: Any = place.deps.kinds[BOARD]
        object.__setattr__(kind, "read_back", replace(kind.read_back, patience=60.0, sleep=pause))
        place.deeds = [merges]
        async with place.forge.down():
            running = asyncio.create_task(place.ran(9))
            await asyncio.wait_for(long_enough.wait(), 30)
        up.set()
        await running
        [outcome] = place.outcomes
        assert (outcome.infrastructure, outcome.detail.startswith("FORGE_UNREACHABLE: ")) == (True, True)
        told = await only(place)
        assert (told["status"], told["verify"]["code"], place.left) == ("done", "read_back", 8), "one turn was enough"

    play(tmp_path, work)


@pytest.mark.mends("E4")
def test_a_token_that_may_not_read_is_an_error_of_nobody_who_worked(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await approved(place)
        for each in place.forge.state.users.values():
            each.tokens.clear()
        await place.ran()
        [outcome] = place.outcomes
        assert (outcome.code, outcome.infrastructure) == ("verify_error", True)
        assert outcome.detail.startswith("FORGE_UNSEEN: ")

    play(tmp_path, work)


# Steps that do not apply


@pytest.mark.parametrize(("decision", "status"), [("APPROVE", "done"), ("REJECT", "pending")])
def test_the_lead_decides_about_a_step_that_does_not_apply(tmp_path: Path, decision: Any, status: str) -> None:
    async def work(place: Place) -> None:
        await approved(place)

        async def declares(job: Job) -> None:
            said = {"not_applicable": [{"step": 1, "reason": "the release is frozen"}]}
            await place.say(job, "Nothing to merge now.", claims=said)

        async def answers() -> None:
            while not (found := await questions.list_open(place.deps)):  # noqa: ASYNC110 - another part of the engine asks
                await asyncio.sleep(0.02)
            [request] = found
            assert request.document.title.startswith(
                "lead: do these steps of 'Merge acme/widgets#1: A change' not apply?"
            )
            asked = str(request.document.needed.decision)
            assert "step 1: the release is frozen" in asked
            assert "no_action: acme/widgets#1 is not merged" in asked
            await questions.answer(place.deps, request.request_id, by="ann", decision=decision, notes="so it is")

        place.deeds = [declares]
        answering = asyncio.create_task(answers())
        await place.ran()
        await answering
        shown = await only(place)
        assert shown["turns"][0]["verify"]["code"] == (
            "not_applicable" if decision == "APPROVE" else "not_applicable_refused"
        )
        if decision == "APPROVE":
            assert (shown["status"], shown["trust"]) == (status, "attested")
        else:
            assert place.outcomes[0].detail.startswith(
                "ann does not agree: step 1 (the release is frozen); no_action: "
            )

    play(tmp_path, work)


def test_a_step_that_there_is_not_cannot_be_declared(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await approved(place)

        async def declares(job: Job) -> None:
            await place.say(job, claims={"not_applicable": [{"step": 9, "reason": "no"}]})

        place.deeds = [declares]
        await place.ran()
        assert (place.outcomes[0].code, place.outcomes[0].detail) == ("claim_denied", "there is no step 9: there are 3")

    play(tmp_path, work)


# Done


@pytest.mark.shows("T09", "T19")
def test_what_cannot_be_seen_at_the_forge_is_done_by_a_report_and_unproven(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await called(place, "@agent-dev fyi: prices go up on Monday")

        async def reads(job: Job) -> None:
            await place.say(job, "Nothing to change.")

        place.deeds = [reads]
        await place.ran()
        assert place.outcomes == []
        shown = await only(place)
        assert (shown["status"], shown["proven"], shown["verify"]["code"]) == ("done", False, "has_action_report")

    play(tmp_path, work)


def test_a_deployment_is_repaired_by_a_later_success_of_the_same_context(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        sha = place.repository.bare.head("main")
        status = {"state": "failure", "context": "deploy / production"}
        place.forge.state.pulls.set_status(place.repository, place.user("maintainer"), sha, status)
        assert len(await place.heard()) == 1

        async def other(job: Job) -> None:
            good = {"state": "success", "context": "lint"}
            place.forge.state.pulls.set_status(place.repository, place.user("agent-ops"), sha, good)
            await place.say(job)

        async def deploys(job: Job) -> None:
            fixed = place.forge.push(REPO, "main", {"fix.py": "ok\n"}, "agent-ops")
            good = {"state": "success", "context": "deploy / production"}
            place.forge.state.pulls.set_status(place.repository, place.user("agent-ops"), fixed, good)
            await place.say(job, claims={"deploy": {"sha": fixed}})

        place.deeds = [other, deploys]
        await place.ran(9)
        assert [each.code for each in place.outcomes] == ["no_action"]
        shown = await only(place)
        assert (shown["status"], shown["trust"]) == ("done", "observed")

    play(tmp_path, work)


@pytest.mark.shows("T19")
def test_a_success_from_before_the_failure_repairs_nothing(tmp_path: Path) -> None:
    """The newest commit was deployed well, and then an older one could not be."""

    def told(place: Place, sha: str, state: str) -> None:
        status = {"state": state, "context": "deploy / production"}
        place.forge.state.pulls.set_status(place.repository, place.user("maintainer"), sha, status)

    async def work(place: Place) -> None:
        older = place.repository.bare.head("main")
        newest = place.forge.push(REPO, "main", {"more.py": "ok\n"}, "maintainer")
        told(place, newest, "success")
        told(place, older, "failure")
        assert len(await place.heard()) == 1

        async def rests(job: Job) -> None:
            await place.say(job, "It is deployed.")

        async def deploys(job: Job) -> None:
            told(place, older, "success")
            await place.say(job)

        place.deeds = [rests, deploys]
        await place.ran(9)
        [outcome] = place.outcomes
        assert (outcome.code, "no success of 'deploy / production'" in outcome.detail) == ("no_action", True)
        shown = await only(place)
        assert (shown["status"], shown["trust"]) == ("done", "observed")

    play(tmp_path, work)


@pytest.mark.shows("T19")
def test_one_task_for_two_failed_deployments_is_done_when_both_are_good(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        sha = place.repository.bare.head("main")

        def told(where: str, state: str) -> None:
            status = {"state": state, "context": f"deploy / {where}"}
            place.forge.state.pulls.set_status(place.repository, place.user("agent-ops"), sha, status)

        told("production", "failure")
        told("staging", "failure")
        assert len(await place.heard()) == 1

        async def one(job: Job) -> None:
            told("production", "success")
            await place.say(job)

        async def other(job: Job) -> None:
            told("staging", "success")
            await place.say(job)

        place.deeds = [one, other]
        await place.ran(9)
        [outcome] = place.outcomes
        assert (outcome.code, "'deploy / staging'" in outcome.detail) == ("no_action", True)
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


@pytest.mark.parametrize("told_in_turn", [["success"], ["success", "failure"], []], ids=" and ".join)
def test_a_pipeline_tells_that_it_was_deployed_after_all(tmp_path: Path, told_in_turn: list[str]) -> None:
    def result(outcome: str) -> PipelineResult:
        body = {"schema_version": "1.0", "kind": "deploy", "repository": REPO, "sha": "f" * 40, "name": "production"}
        return PipelineResult.from_json({**body, "outcome": outcome})

    async def work(place: Place) -> None:
        async def told(outcome: str) -> list[str]:
            event = event_tasks.make_pipeline_event(SOURCE, result(outcome), at=place.deps.stamp())
            [written] = await place.board.process_events([(event, {})])
            return list(written.made)

        async def deploys(job: Job) -> None:
            for outcome in told_in_turn:
                assert await told(outcome) == []
            await place.say(job, "Deployed again.")

        if not told_in_turn:
            await told("success")
        assert len(await told("failure")) == 1
        place.deeds = [deploys]
        await place.ran()
        shown = await only(place)
        good = told_in_turn == ["success"]  # only the last word counts
        expected = ("observed", "read_back") if good else ("claimed", "has_action_report")
        assert (shown["status"], shown["trust"], shown["verify"]["code"]) == ("done", *expected)

    play(tmp_path, work)


def test_a_question_about_a_step_outlives_the_engine(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await approved(place)

        async def declares(job: Job) -> None:
            await place.say(job, claims={"not_applicable": {"step": 1, "reason": "the release is frozen"}})

        place.deeds, place.left = [declares], 1
        for last in (False, True):
            dispatcher, stop = Dispatcher(place.deps, {"played": place}, LocalProcesses()), asyncio.Event()
            running = asyncio.create_task(dispatcher.run(stop))
            async with asyncio.timeout(300):
                while not (found := await questions.list_open(place.deps)):  # noqa: ASYNC110 - the engine asks
                    await asyncio.sleep(0.02)
                assert len(found) == 1, "it is asked once"
                if last:
                    await questions.answer(place.deps, found[0].request_id, by="ann", decision="APPROVE")
                    while await place._open():  # noqa: ASYNC110 - the engine ends it
                        await asyncio.sleep(0.02)
            stop.set()
            await running
        shown = await only(place)
        assert (shown["status"], shown["trust"], len(shown["turns"])) == ("done", "attested", 1)

    play(tmp_path, work)


def test_review_comments_are_answered_one_by_one_or_by_a_push(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.forge.push(REPO, "feat/x", {"x.py": "x = 1\n"}, "agent-dev")
        state, repository, dev = place.forge.state, place.repository, place.user("agent-dev")
        pull = state.pulls.create_pull(repository, dev, "A change", "", "feat/x", "main")
        place.forge.deliveries.all = []
        state.pulls.review(
            repository, place.user("maintainer"), pull.issue.number, "COMMENT", "Two questions.", pull.head_sha
        )
        assert len(await place.heard()) == 1

        async def nothing(job: Job) -> None:
            await place.say(job)

        async def answers(job: Job) -> None:
            comment = state.issues.create_comment(repository, dev, pull.issue.number, "Because it is so.")
            await place.say(job, claims=[{"comment": {"id": comment.id}}])

        place.deeds = [nothing, answers]
        await place.ran(9)
        assert [each.code for each in place.outcomes] == ["no_action"]
        assert (await only(place))["trust"] == "observed"

    play(tmp_path, work)


def test_an_agent_without_an_account_proves_nothing(tmp_path: Path) -> None:
    nobody = ForgeRegistry()

    async def work(place: Place) -> None:
        place.board = ToolchainBoard(
            place.deps, ToolchainSetup(registry=REGISTRY, profiles=PROFILES, retry_times=0), lambda: ""
        )
        await approved(place)
        await place.ran()
        assert place.outcomes[0].code == "verify_error"
        assert "dev has no account at work" in place.outcomes[0].detail

    play(tmp_path, work, registry=nobody)
