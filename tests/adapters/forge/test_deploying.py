"""What a forge shows of the newest commit ↔ tasks for deployments that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.forge.test_intake import A, B
from adapters.forge.world import SOURCE, registry
from agenttalk.contracts.forge import Status
from agenttalk.rules.toolchain import dedup_keys, deployments
from agenttalk.rules.toolchain.deployments import FailedDeployment, NewestCommit
from agenttalk.rules.toolchain.proposal import ForgeKnowledge
from effort import cases

REGISTRY = replace(registry(), ops="agent-ops", deploy_patterns=("*deploy*",))
REPO = "acme/widgets"
CONTEXTS = ("deploy / production", "deploy / staging", "build", "deploy (pull_request)", "Deploy")


NOON = "2026-01-31T12:00:00Z"


def newest(undone: Mapping[str, FailedDeployment] | None = None, **outcomes: str) -> NewestCommit:
    statuses = tuple(
        Status(sha=A, outcome=outcome, context=CONTEXTS[int(at[1:])], at=NOON)  # type: ignore[arg-type]
        for at, outcome in outcomes.items()
    )
    return NewestCommit(SOURCE, "gitea", REPO, "main", A, statuses, undone or {})


@pytest.mark.shows("T25")
def test_a_commit_that_could_not_be_deployed_is_the_task_of_who_runs_things() -> None:
    found = newest(_1="success", _0="failure", _2="failure")
    [event] = deployments.make_events(found, REGISTRY)
    decision = deployments.decide(found, event, REGISTRY, ForgeKnowledge())
    [task] = decision.tasks
    assert task.key == dedup_keys.deploy_failure(SOURCE, REPO, A)
    assert (task.action_type, task.assignee) == ("deploy_failure", "agent-ops")
    assert (task.context["deploy_context"], task.context["branch"]) == (CONTEXTS[0], "main")


@pytest.mark.parametrize("outcomes", [{}, {"_0": "other"}, {"_2": "failure"}, {"_3": "failure"}], ids=str)
def test_what_has_not_ended_or_is_no_deployment_tells_nothing(outcomes: dict[str, str]) -> None:
    assert deployments.make_events(newest({}, **outcomes), REGISTRY) == ()


def test_who_has_nobody_or_names_nothing_hears_of_nothing() -> None:
    assert deployments.is_watched(REGISTRY)
    assert not deployments.is_watched(replace(REGISTRY, ops=None))
    assert not deployments.is_watched(replace(REGISTRY, deploy_patterns=()))


outcomes = st.dictionaries(
    st.sampled_from([f"_{number}" for number in range(len(CONTEXTS))]), st.sampled_from(["success", "failure", "other"])
)


undones = st.builds(
    FailedDeployment,
    st.sampled_from(["", "deploy", "gone", *CONTEXTS]),
    st.sampled_from(["", "2026-01-31T11:59:59Z", NOON, "2026-01-31T12:00:01Z"]),
    st.sampled_from([A, B]),
)


@given(outcomes, st.dictionaries(st.text("ab", min_size=1), undones))
@settings(max_examples=cases(200), deadline=None)
def test_only_what_is_green_under_its_own_name_since_then_is_over(
    seen: dict[str, str], undone: dict[str, FailedDeployment]
) -> None:
    found = newest(undone, **seen)
    for event in deployments.make_events(found, REGISTRY):
        decision = deployments.decide(found, event, REGISTRY, ForgeKnowledge())
        shown = {CONTEXTS[int(at[1:])]: outcome for at, outcome in seen.items()}
        red = [name for name, outcome in shown.items() if outcome == "failure"]
        called = any("eploy" in name and "(pull_request)" not in name for name in red)
        assert bool(decision.tasks) == called
        for key, (context, since, sha) in undone.items():
            own = [outcome for name, outcome in shown.items() if name == context or name.startswith(f"{context} /")]
            over = any(each.key == key and each.reason == deployments.DEPLOYED for each in decision.withdrawn)
            good = context != "" and own != [] and set(own) == {"success"} and since <= NOON
            assert over == (good and not (called and sha == A)), "what else of the commit is red is the same task"
        assert decision.warnings == ()
