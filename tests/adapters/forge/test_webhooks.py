"""Deliveries: which are genuine, what they say, and what hostile ones come to."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.forge.world import SOURCE, World, registry
from agenttalk.adapters.forge import gitea_events, webhooks
from agenttalk.adapters.forge.webhooks import IgnoredDelivery, check_signature, read_delivery, read_label
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.errors import Code
from agenttalk.contracts.forge import EventName, ForgeEvent

SAMPLES = Path(__file__).parent / "samples"
NAMES = sorted(f"{each.parent.name}/{each.stem}" for each in SAMPLES.glob("*/*.json"))
SECRET = "a secret of the hook"
KINDS: tuple[ForgeKind, ...] = ("gitea", "forgejo", "github")


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def parsed(name: str) -> ForgeEvent:
    data = sample(name)
    kind: Any = name.partition("/")[0]
    found = read_delivery(SOURCE, kind, data["headers"].items(), json.dumps(data["body"]).encode())
    assert isinstance(found, ForgeEvent), found
    return found


def with_body(name: str, change: Any) -> ForgeEvent | IgnoredDelivery:
    data = sample(name)
    change(data["body"])
    kind: Any = name.partition("/")[0]
    return read_delivery(SOURCE, kind, data["headers"].items(), json.dumps(data["body"]).encode())


def signed(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@pytest.mark.shows("T03")
@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_work_comes_from_each_forge(name: str) -> None:
    data, world = sample(name), World(registry())
    kind = name.partition("/")[0]
    for each in data["before"]:
        world.see(parsed(f"{kind}/{each}"))
    for _ in range(2):
        world.see(parsed(name))
    assert world.outcome() == [tuple(each) for each in data["expected"]]


def test_all_forges_say_the_same_in_the_same_words() -> None:
    for name in ("review_request", "review_merged", "issue_assigned", "mention", "review_updated"):
        texts = set()
        for kind in KINDS:
            found = parsed(f"{kind}/{name}")
            texts.add(found.model_copy(update={"kind": "gitea", "delivery": "", "assignee": None}).as_text())
        assert len(texts) == 1, name


def test_the_review_and_the_comment_that_share_a_name_are_told_apart() -> None:
    data = sample("gitea/mention")
    body = json.dumps(data["body"] | {"is_pull": True}).encode()
    headers = [("X-Gitea-Event", "issue_comment"), ("X-Gitea-Event-Type", "pull_request_comment")]
    comment = read_delivery(SOURCE, "gitea", headers, body)
    assert isinstance(comment, ForgeEvent)
    assert (comment.name, comment.issue and comment.issue.is_pull) == ("comment_created", True)
    assert parsed("gitea/review_comment").name == "review_submitted"


def test_what_the_source_is_was_configured_and_no_header_changes_it() -> None:
    data = sample("github/review_request")
    headers = [*data["headers"].items(), ("X-Gitea-Event", "push"), ("X-Gitea-Event-Type", "push")]
    body = json.dumps(data["body"]).encode()
    assert isinstance(read_delivery(SOURCE, "github", headers, body), ForgeEvent)
    assert isinstance(read_delivery(SOURCE, "gitea", headers, body), IgnoredDelivery)


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_signature_is_taken_and_every_bad_one_refused(kind: ForgeKind) -> None:
    body = b'{"a": 1}'
    good = ("X-Hub-Signature-256", f"sha256={signed(body)}")
    assert check_signature(kind, [good], body, SECRET).good
    bare = {"gitea": "X-Gitea-Signature", "forgejo": "X-Forgejo-Signature"}.get(kind)
    if bare:
        assert check_signature(kind, [(bare, signed(body))], body, SECRET).good
        assert check_signature(kind, [(bare, signed(body)), good], body, SECRET).good
        assert not check_signature(kind, [(bare, signed(b"other")), good], body, SECRET).good
        assert not check_signature(kind, [(bare, "")], body, SECRET).good
    refused: list[tuple[list[tuple[str, str]], bytes, str]] = [
        ([], body, SECRET),
        ([good, good], body, SECRET),
        ([("X-Hub-Signature-256", "")], body, SECRET),
        ([("X-Hub-Signature-256", "sha256=")], body, SECRET),
        ([("X-Hub-Signature-256", f"sha256={signed(body).upper()}")], body, SECRET),
        ([("X-Hub-Signature-256", signed(body))], body, SECRET),
        ([("X-Hub-Signature-256", f"sha256={signed(body)}é")], body, SECRET),
        ([("X-Hub-Signature", f"sha1={'0' * 40}")], body, SECRET),
        ([("X-Hub-Signature-256", f"sha256={signed(body, 'another secret')}")], body, SECRET),
        ([good], body + b" ", SECRET),
        ([good], body, ""),
    ]
    for headers, content, secret in refused:
        verdict = check_signature(kind, headers, content, secret)
        assert not verdict.good
        assert verdict.reason
        assert signed(body) not in verdict.reason


def test_a_signature_that_another_kind_of_forge_sends_does_not_count() -> None:
    assert not check_signature("github", [("X-Gitea-Signature", signed(b"x"))], b"x", SECRET).good


def test_a_form_is_signed_by_its_json_at_gitea_and_as_it_is_at_github() -> None:
    data = sample("gitea/review_request")
    inner = json.dumps(data["body"]).encode()
    body = b"payload=" + quote_plus(inner).encode()
    form = ("Content-Type", "application/x-www-form-urlencoded")
    types = [("X-Gitea-Event-Type", "pull_request"), ("X-GitHub-Event", "pull_request"), form]
    assert check_signature("gitea", [form, ("X-Gitea-Signature", signed(inner))], body, SECRET).good
    assert not check_signature("gitea", [form, ("X-Gitea-Signature", signed(body))], body, SECRET).good
    assert check_signature("github", [form, ("X-Hub-Signature-256", f"sha256={signed(body)}")], body, SECRET).good
    assert isinstance(read_delivery(SOURCE, "gitea", types, body), ForgeEvent)
    assert isinstance(read_delivery(SOURCE, "github", types, body), ForgeEvent)
    for bad in (b"payload=%7B%7D&payload=%7B%7D", b"other=1", b"", b"\xff", b"payload=%ff", b"&" * 40):
        found = read_delivery(SOURCE, "gitea", types, bad)
        assert isinstance(found, IgnoredDelivery)
        assert found.code is Code.JSON_SYNTAX
        assert not check_signature("gitea", [form, ("X-Gitea-Signature", signed(bad))], bad, SECRET).good


def test_names_and_numbers_of_deliveries_are_read_from_the_right_headers() -> None:
    both = [("X-GitHub-Delivery", "g"), ("x-gitea-delivery", "t"), ("X-Forgejo-Delivery", "f")]
    assert [read_label(kind, both)[0] for kind in KINDS] == ["t", "f", "g"]
    assert read_label("gitea", [*both, ("X-Gitea-Delivery", "u")])[0] == ""
    # Gitea 1.23.0 sends an empty coarse name for a status.
    assert read_label("gitea", [("X-Gitea-Event", ""), ("X-Gitea-Event-Type", "status")])[1] == "status"
    assert read_label("gitea", [("X-Gitea-Event", "push")])[1] == "push"


HOSTILE: dict[str, bytes] = {
    "too large": b'{"a": "' + b"x" * (50 * 1024 * 1024) + b'"}',
    "too deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "not JSON": b"{",
    "not UTF-8": b'{"a": "\xff"}',
    "a list": b"[]",
    "a number": b"1",
    "nothing": b"",
    "a key twice": b'{"action": "opened", "action": "closed"}',
    "half a character": b'{"action": "\\ud800"}',
    "infinity": b'{"number": 1e999}',
    "a long number": b'{"number": ' + b"9" * 10_000 + b"}",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "only nulls": b'{"action": null, "pull_request": null, "repository": null, "sender": null}',
    "wrong types": b'{"action": 1, "pull_request": [], "repository": "x", "sender": 3, "issue": true, "run": []}',
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bodies_are_ignored_and_told(what: str) -> None:
    for kind in KINDS:
        name = "pull_request"
        headers = [("X-Gitea-Event-Type", name), ("X-GitHub-Event", name), ("X-Gitea-Signature", "0" * 64)]
        found = read_delivery(SOURCE, kind, headers, HOSTILE[what])
        assert isinstance(found, IgnoredDelivery)
        assert found.code is not None
        assert not check_signature(kind, headers, HOSTILE[what], SECRET).good


@pytest.mark.parametrize("name", NAMES)
def test_any_field_may_be_null_missing_or_of_another_type(name: str) -> None:
    values: list[Any] = [None, [], {}, "text", 7, True, -1]
    for value in values:
        for path in paths(sample(name)["body"]):

            def change(body: Any, path: tuple[Any, ...] = path, value: Any = value) -> None:
                for step in path[:-1]:
                    body = body[step]
                body[path[-1]] = value

            assert isinstance(with_body(name, change), ForgeEvent | IgnoredDelivery)


def paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for key, value in pairs for found in ((*at, key), *paths(value, (*at, key)))]


def test_lists_that_are_null_before_a_version_are_empty_or_unknown() -> None:
    found = with_body("gitea/review_request", lambda body: body["pull_request"].update(requested_reviewers=None))
    assert isinstance(found, ForgeEvent)
    assert found.pull_request
    assert found.pull_request.requested_reviewers is None
    found = with_body("gitea/issue_assigned", lambda body: body["issue"].update(assignees=None))
    assert isinstance(found, ForgeEvent)
    assert found.issue
    assert [each.login for each in found.issue.assignees] == ["agent-dev"]


def test_texts_keep_every_character_but_the_one_that_no_database_takes() -> None:
    title = "修复 🐛 \u202egnp.exe\0 é"
    found = with_body("github/review_request", lambda body: body["pull_request"].update(title=title, body=title))
    assert isinstance(found, ForgeEvent)
    assert found.pull_request
    assert found.pull_request.title == title.replace("\0", "\ufffd")
    assert ForgeEvent.read(json.loads(found.as_text())) == found


def test_very_long_texts_and_lists_are_cut() -> None:
    def change(body: Any) -> None:
        body["pull_request"]["body"] = "x" * 3_000_000
        body["pull_request"]["requested_reviewers"] = [{"login": f"u{n}", "id": n} for n in range(10_000)]

    found = with_body("gitea/review_request", change)
    assert isinstance(found, ForgeEvent)
    assert found.pull_request
    assert len(found.pull_request.body) < 300_000
    assert len(found.pull_request.requested_reviewers or ()) <= 200


@pytest.mark.parametrize(
    ("head", "base", "fork"),
    [
        ({"repo_id": 7, "repo": {"id": 7}}, {"repo_id": 7, "repo": {"id": 7}}, False),
        ({"repo_id": 8, "repo": {"id": 8}}, {"repo_id": 7, "repo": {"id": 7}}, True),
        ({"repo_id": -1, "repo": None}, {"repo_id": 7, "repo": {"id": 7}}, True),
        ({"repo": None}, {"repo": {"id": 7, "full_name": "a/b"}}, True),
        ({"repo": {"full_name": "a/b"}}, {"repo": {"full_name": "a/b"}}, False),
        ({}, {}, True),
    ],
)
def test_a_head_in_another_repository_or_in_none_is_marked(head: Any, base: Any, fork: bool) -> None:
    def change(body: Any) -> None:
        for name, data in (("head", head), ("base", base)):
            body["pull_request"][name] = {"ref": "x", "sha": "a" * 40, **data}

    found = with_body("gitea/review_request", change)
    assert isinstance(found, ForgeEvent)
    assert found.pull_request
    assert found.pull_request.fork is fork


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("WIP: half", "half", "pull_request_ready"),
        ("[wip] half", "half", "pull_request_ready"),
        ("half", "WIP: half", "pull_request_drafted"),
        ("half", "whole", "pull_request_edited"),
        ("WIP: half", "[WIP] half", "pull_request_edited"),
    ],
)
def test_at_gitea_the_title_says_whether_it_is_a_draft(before: str, after: str, name: str) -> None:
    def change(body: Any) -> None:
        body["action"] = "edited"
        body["changes"] = {"title": {"from": before}}
        body["pull_request"]["title"] = after

    found = with_body("gitea/review_request", change)
    assert isinstance(found, ForgeEvent)
    assert found.name == name
    found = with_body("github/review_request", change)
    assert isinstance(found, ForgeEvent)
    assert found.name == "pull_request_edited"


def test_the_old_spelling_of_a_review_is_read_and_an_unknown_one_ignored() -> None:
    name = "gitea/review_comment"
    found = with_body(name, lambda body: body["review"].update(type="pull_request_comment"))
    assert isinstance(found, ForgeEvent)
    found = with_body(name, lambda body: body["review"].update(type="pull_request_review_dismissed"))
    assert isinstance(found, IgnoredDelivery)
    assert found.code is None


def test_before_its_number_is_listed_the_pull_request_of_a_run_is_in_its_path() -> None:
    def change(body: Any) -> None:
        body["workflow_run"].update(path="ci.yml@refs/pull/5/head", event="pull_request", pull_requests=None)

    found = with_body("gitea/deploy_failure", change)
    assert isinstance(found, ForgeEvent)
    assert found.run
    assert (found.run.pulls, found.run.file) == ((5,), ".gitea/workflows/deploy.yml")


def test_a_run_of_forgejo_with_a_broken_payload_inside_is_told() -> None:
    for inner in ("{", "[" * 5_000, '{"pull_request": {"number": 5}}'):
        found = with_body("forgejo/ci_failure", lambda body, inner=inner: body["run"].update(event_payload=inner))
        assert isinstance(found, IgnoredDelivery)
        assert found.code is not None
    found = with_body("forgejo/ci_failure", lambda body: body["run"].update(event_payload="[1]"))
    assert isinstance(found, ForgeEvent)
    assert found.pull_request is None


def test_times_are_brought_to_one_zone() -> None:
    found = with_body(
        "gitea/review_request", lambda body: body["pull_request"].update(updated_at="2024-02-22T01:42:03+01:00")
    )
    assert isinstance(found, ForgeEvent)
    assert found.at == "2024-02-22T00:42:03Z"
    for bad in ("yesterday", "2024-02-22T01:42:03", "0001-01-01T00:00:00Z", 5):
        found = with_body("gitea/review_request", lambda body, bad=bad: body["pull_request"].update(updated_at=bad))
        assert isinstance(found, ForgeEvent)
        assert found.at == ""


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gitea/review_request", {"action": "label_updated"}),
        ("github/review_request", {"action": "labeled"}),
        ("gitea/issue_assigned", {"action": "milestoned"}),
        ("github/issue_assigned", {"action": "pinned"}),
        ("gitea/mention", {"action": "pinned"}),
        ("github/mention", {"action": "pinned"}),
        ("gitea/ci_failure", {"state": "pending"}),
        ("gitea/ci_failure", {"state": "warning"}),
        ("gitea/deploy_failure", {"action": "requested"}),
        ("github/ci_failure", {"action": "requested"}),
        ("github/deploy_failure", {"deployment_status": {"state": "in_progress"}}),
    ],
)
def test_what_calls_for_nothing_is_ignored_with_its_reason(name: str, change: dict[str, Any]) -> None:
    found = with_body(name, lambda body: body.update(change))
    assert isinstance(found, IgnoredDelivery)
    assert found.code is None
    assert found.reason


def test_unknown_events_are_ignored_and_a_missing_name_is_told() -> None:
    assert read_delivery(SOURCE, "gitea", [("X-Gitea-Event-Type", "wiki")], b"not even JSON") == IgnoredDelivery(
        "'wiki' is not an event that creates tasks"
    )
    found = read_delivery(SOURCE, "github", [("X-Gitea-Event-Type", "pull_request")], b"{}")
    assert isinstance(found, IgnoredDelivery)
    assert found.code is Code.FORGE_EVENT_UNREADABLE


def test_jobs_and_single_checks_are_read_like_runs() -> None:
    job = {"id": 1, "run_id": 41, "name": "test", "workflow_name": "CI", "head_sha": "a" * 40, "conclusion": "failure"}
    body = {"action": "completed", "workflow_job": job, "repository": {"full_name": "acme/widgets"}}
    for kind, header in (("gitea", "X-Gitea-Event-Type"), ("github", "X-GitHub-Event")):
        found = read_delivery(SOURCE, kind, [(header, "workflow_job")], json.dumps(body).encode())  # type: ignore[arg-type]
        assert isinstance(found, ForgeEvent)
        assert found.run
        assert (found.run.name, found.run.job, found.run.outcome, found.run.id) == ("CI", "test", "failure", 41)
    body["action"] = "queued"
    assert isinstance(
        read_delivery(SOURCE, "gitea", [("X-Gitea-Event-Type", "workflow_job")], json.dumps(body).encode()),
        IgnoredDelivery,
    )


def test_comments_on_lines_and_statuses_of_github_are_read() -> None:
    pull = sample("github/review_request")["body"]["pull_request"]
    said = {"id": 5, "user": {"login": "alice"}, "body": "@agent-ops?", "path": "src/a.py", "html_url": "u"}
    body = {"action": "created", "comment": said, "pull_request": pull, "repository": {"full_name": "acme/widgets"}}
    found = read_delivery(
        SOURCE, "github", [("X-GitHub-Event", "pull_request_review_comment")], json.dumps(body).encode()
    )
    assert isinstance(found, ForgeEvent)
    assert found.comment
    assert (found.name, found.comment.path) == ("comment_created", "src/a.py")
    for action, name in (("deleted", "comment_deleted"), ("pinned", None)):
        body["action"] = action
        found = read_delivery(
            SOURCE, "github", [("X-GitHub-Event", "pull_request_review_comment")], json.dumps(body).encode()
        )
        assert (found.name if isinstance(found, ForgeEvent) else None) == name
    for state, outcome in (("failure", "failure"), ("error", "failure"), ("success", "success"), ("pending", None)):
        told = {"sha": "a" * 40, "state": state, "context": "ci", "repository": {"full_name": "acme/widgets"}}
        found = read_delivery(SOURCE, "github", [("X-GitHub-Event", "status")], json.dumps(told).encode())
        assert (found.status.outcome if isinstance(found, ForgeEvent) and found.status else None) == outcome
    found = read_delivery(SOURCE, "github", [("X-GitHub-Event", "status")], b'{"state": "failure"}')
    assert isinstance(found, IgnoredDelivery)
    assert found.code is Code.FORGE_EVENT_UNREADABLE


@pytest.mark.mends("E2")
@pytest.mark.parametrize("kind", ["gitea", "github"])
@pytest.mark.parametrize(("action", "name"), [("deleted", "repository_deleted"), ("created", None), ("", None)])
def test_the_end_of_a_repository_is_read(kind: Any, action: str, name: str | None) -> None:
    body = {"action": action, "repository": {"full_name": "acme/widgets", "id": 7}, "sender": {"login": "alice"}}
    headers = {"gitea": [("X-Gitea-Event", "repository"), ("X-Gitea-Event-Type", "repository")]}
    found = read_delivery(
        SOURCE, kind, headers.get(kind, [("X-GitHub-Event", "repository")]), json.dumps(body).encode()
    )
    assert (found.name if isinstance(found, ForgeEvent) else None) == name
    assert isinstance(found, ForgeEvent) or "a repository was" in found.reason


def test_an_assigned_pull_request_is_no_issue() -> None:
    found = with_body("gitea/issue_assigned", lambda body: body["issue"].update(pull_request={"merged": False}))
    assert isinstance(found, IgnoredDelivery)


def test_a_form_that_is_too_large_is_not_even_taken_apart() -> None:
    form = [("Content-Type", "application/x-www-form-urlencoded"), ("X-Gitea-Event-Type", "status")]
    found = read_delivery(SOURCE, "gitea", form, b"payload=" + b"x" * webhooks.LIMIT)
    assert isinstance(found, IgnoredDelivery)
    assert found.code is Code.JSON_TOO_LARGE


def test_every_event_has_its_name_in_the_contract() -> None:
    assert set(get_args(EventName)) >= {parsed(name).name for name in NAMES}
    assert webhooks.LIMIT >= 25 * 1024 * 1024
    assert set(gitea_events.READERS) >= {"pull_request_review_rejected", "action_run_failure"}


@given(st.binary(max_size=300), st.sampled_from(KINDS), st.sampled_from([*gitea_events.READERS, "check_run", "ping"]))
def test_no_bytes_make_it_raise(body: bytes, kind: ForgeKind, name: str) -> None:
    headers = [("X-Gitea-Event-Type", name), ("X-GitHub-Event", name), ("Content-Type", "application/json")]
    assert isinstance(read_delivery(SOURCE, kind, headers, body), ForgeEvent | IgnoredDelivery)
    assert not check_signature(kind, headers, body, SECRET).good
