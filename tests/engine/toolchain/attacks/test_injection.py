"""Whatever people write at a forge: it reaches an agent as something that was said, and decides nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.forge.test_webhooks import NAMES, sample
from agenttalk.rules.text import section_words
from engine.toolchain.kits.injections import TEXTS, text_of
from engine.toolchain.kits.inproc import Here, here

_ALLOWED: Final = "\n\t"
NASTY: Final = "数据库崩溃 👩‍💻🏳️‍🌈 שלום \u202eevil\u202c \x1b[31m\x07\x00\u2028END\u200b é́"
_FREE: Final = frozenset({"title", "body", "content", "description", "message", "content_snippet", "display_title"})


def renamed(data: Any, number: int) -> Any:
    """The same of another repository, so that nothing is the same as before."""
    found = json.loads(json.dumps(data).replace("acme/widgets", f"acme/w{number}"))
    body = found.get("body", found)
    for place in (body, body.get("run") or {}):
        if isinstance(place.get("repository"), dict):
            place["repository"]["id"] = 9000 + number
    return found


def comment_event(text: str) -> dict[str, Any]:
    data = sample("gitea/mention")
    body = data["body"]
    body["comment"]["body"] = f"@agent-dev please look at this.\n\n{text}"
    body["issue"] |= {"title": text}
    return data


def issue_event(text: str) -> dict[str, Any]:
    data = sample("gitea/issue_assigned")
    data["body"]["issue"] |= {"title": text, "body": text, "labels": [{"id": 1, "name": text[:100]}]}
    return data


def review_event(text: str) -> dict[str, Any]:
    data = sample("gitea/review_result_request_changes")
    data["body"]["pull_request"] |= {"title": text, "body": text}
    data["body"]["review"]["content"] = text
    return data


PLACES: Final = {"mention": comment_event, "issue_assigned": issue_event, "review_result": review_event}


def places(at: int) -> tuple[str, ...]:
    """Titles, bodies and comments for each text; of two kinds of reviews, every fourth."""
    return ("mention", "issue_assigned", "review_result") if at % 4 == 0 else ("mention", "issue_assigned")


def parts(prompt: str, locale: str) -> tuple[str, str]:
    """What stands inside of the fence, and what outside. Our own words name the fence before it begins."""
    words = (section_words.FACTS.zh if locale == "zh" else section_words.FACTS.en).split("{fence}")
    found = re.search(re.escape(words[0]) + r"(\S+)" + re.escape(words[1][:4]), prompt)
    assert found is not None
    fence = found[1]
    lines = prompt.split("\n")
    assert [lines.count(f"{word} {fence}") for word in ("BEGIN", "END")] == [1, 1]
    begin, end = lines.index(f"BEGIN {fence}"), lines.index(f"END {fence}")
    assert begin < end
    assert not any(fence in line for line in lines[begin + 1 : end]), "nobody else has the marker"
    return "\n".join(lines[begin + 1 : end]), "\n".join(lines[:begin] + lines[end + 1 :])


def told_plainly(prompt: str) -> None:
    strange = {char for char in prompt if not char.isprintable() and char not in _ALLOWED}
    assert strange == set(), "a terminal, or a reader, could act on it"


@pytest.mark.rest_but("zh")
@pytest.mark.shows("T05", "T10")
@pytest.mark.parametrize("locale", ["en", "zh"])
def test_no_text_of_a_forge_leaves_its_fence_or_changes_a_state(tmp_path: Path, locale: str) -> None:
    assert len(TEXTS) >= 30
    names = sorted(TEXTS)[:: 1 if locale == "en" else 4]
    canaries: dict[tuple[str, str], str] = {}
    with here(tmp_path / "root", locale) as engine:
        deliveries = {}
        chosen = [(kind, name) for at, name in enumerate(names) for kind in places(at)]
        for number, (kind, name) in enumerate(chosen):
            canary = canaries[(kind, name)] = f"QX{number:04}XQ"
            data = renamed(PLACES[kind](text_of(name, canary)), number)
            deliveries[(kind, name)] = engine.tell("gitea", data["headers"], data["body"])
        told = {key: engine.decided(each) for key, each in deliveries.items()}
        tasks = {each["must_haves"]["context"]["repo"]: each for each in engine.settled()}
        assert len(tasks) == len(deliveries), "one task of each, and none besides"
        plain = baseline(engine, len(deliveries), locale)
        for number, (kind, name) in enumerate(deliveries):
            assert told[(kind, name)]["state"] == "done", name
            task = tasks[f"acme/w{number}"]
            assert (task["must_haves"]["action_type"], task["assignee"]) == (kind, "agent-dev"), name
            assert task["status"] == "failed", "nothing that is only said makes it done"
            prompt = engine.listener.prompts[task["id"]]
            told_plainly(prompt)
            inside, outside = parts(prompt, locale)
            assert canaries[(kind, name)] in inside or name == "very_long", name
            assert canaries[(kind, name)] not in outside, name
            assert alike(outside, task["id"], number) == plain[kind], name
            assert "@agent-dev" not in outside
        assert engine.get("/api/toolchain/warnings")["warnings"] == []
        assert engine.get("/api/deadletters")["deadletters"] == []


def baseline(engine: Here, first: int, locale: str) -> dict[str, str]:
    """What our own words are when nobody tries anything."""
    found = {}
    before = {each["id"] for each in engine.tasks()}
    for number, kind in enumerate(PLACES, first):
        data = renamed(PLACES[kind]("A quiet text"), number)
        engine.decided(engine.tell("gitea", data["headers"], data["body"]))
    for task in engine.settled():
        if task["id"] not in before:
            number = int(task["must_haves"]["context"]["repo"].removeprefix("acme/w"))
            outside = parts(engine.listener.prompts[task["id"]], locale)[1]
            found[task["must_haves"]["action_type"]] = alike(outside, task["id"], number)
    return found


def alike(outside: str, task: str, number: int) -> str:
    """Our own words without what differs from task to task: its id, its repository, the marker, the branch's name."""
    text = outside.replace(task, "TASK").replace(f"acme/w{number}", "REPO")
    text = re.sub(r"fix/9-[a-z0-9-]{1,40}", "BRANCH", text)
    text = re.sub(r"hop=[0-5] ", "hop=N ", text)
    return re.sub(r"[0-9a-f]{16,64}-*", "HEX", text)


def spoilt(value: Any, key: str = "") -> Any:
    """Every free text of a delivery with characters that are hard to bear."""
    if isinstance(value, dict):
        return {name: spoilt(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [spoilt(each, key) for each in value]
    return f"{NASTY} {value}" if isinstance(value, str) and key in _FREE else value


@pytest.mark.rest
@pytest.mark.shows("T03")
def test_any_script_is_borne_in_every_text_of_every_action_type(tmp_path: Path) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    with here(tmp_path / "root") as engine:
        for number, name in enumerate(NAMES):
            data = sample(name)
            kind = name.partition("/")[0]
            for each in [*(sample(f"{kind}/{before}") for before in data["before"]), data]:
                body = spoilt(renamed(each["body"], number))
                assert engine.decided(engine.tell(kind, each["headers"], body))["state"] != "failed", name
            expected.update((action, agent) for action, agent in data["expected"])
        found = [each for each in engine.settled() if each["status"] != "withdrawn"]
        made = Counter((each["must_haves"]["action_type"], each["assignee"]) for each in found)
        assert {key: made[key] for key in expected} == dict(expected)
        assert {action for action, _ in expected} >= {
            "review_request", "review_result", "review_comment", "review_updated", "ci_failure", "issue_assigned",
            "deploy_failure", "mention", "review_merged",
        }  # fmt: skip
        for each in found:
            prompt = engine.listener.prompts.get(each["id"], "")
            assert prompt or each["must_haves"]["action_type"] == "review_merged"
            told_plainly(prompt)
            if prompt:
                parts(prompt, "en")
            json.dumps(each, ensure_ascii=False).encode()
