"""What people wrote stays to the letter, whatever is added to it."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.core.config_merge import (
    ALREADY_THERE,
    BEGIN,
    END,
    merge_into_json,
    merge_into_text,
    merge_into_toml,
    remove_from_json,
    remove_from_text,
)

SERVER = {"command": "agenttalk", "args": ["mcp"]}
PATH = ("mcpServers", "agenttalk")
BLOCK = '[mcp_servers.agenttalk]\ncommand = "agenttalk"\n'
TABLE = ("mcp_servers", "agenttalk")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
layouts = st.sampled_from(
    [
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {},
        {"separators": (",", ":")},
        {"indent": 2, "ensure_ascii": False},
    ]
)


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_file_that_is_not_there_is_made(text: str | None) -> None:
    made = merge_into_json(text, PATH, SERVER, first={"$schema": "x"})
    assert json.loads(made.text or "") == {"$schema": "x", "mcpServers": {"agenttalk": SERVER}}


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), layouts, st.sampled_from(["", "\n"]))
def test_everything_that_was_said_in_json_is_still_said_in_the_same_layout(
    said: dict[str, Any], layout: dict[str, Any], end: str
) -> None:
    text = json.dumps(said, **layout) + end
    joined = merge_into_json(text, ("our own key", "agenttalk"), SERVER)
    assert joined.text is not None
    after = json.loads(joined.text)
    assert after.pop("our own key") == {"agenttalk": SERVER}
    assert after == said
    assert merge_into_json(joined.text, ("our own key", "agenttalk"), {"other": 1}) == ALREADY_THERE
    assert joined.text.startswith(text[: text.rindex("}")].rstrip())


def test_what_stands_beside_ours_stays() -> None:
    text = '{\n    "mcpServers": {\n        "other": {"command": "x"}\n    }\n}\n'
    assert merge_into_json(text, PATH, SERVER).why == "rewriting it would change its layout"
    plain = json.dumps({"mcpServers": {"other": {"command": "x"}}, "theme": "dark"}, indent=4) + "\n"
    joined = merge_into_json(plain, PATH, SERVER)
    assert json.loads(joined.text or "") == {
        "mcpServers": {"other": {"command": "x"}, "agenttalk": SERVER},
        "theme": "dark",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, // mine\n"b": 2}', "not plain JSON"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[]", "not a JSON object"),
        ('{"mcpServers": []}', "'mcpServers' is not an object"),
        ('{"a": 1.50}\n', "layout"),
    ],
)
def test_json_that_we_could_not_write_again_is_left_alone(text: str, why: str) -> None:
    joined = merge_into_json(text, PATH, SERVER)
    assert (joined.text, why in joined.why) == (None, True)


@pytest.mark.parametrize(
    "text", [None, "", "# mine\n", 'model = "o5"\n\n[tools]\nweb = true', "[mcp_servers.other]\na = 1\n"]
)
def test_a_table_is_put_behind_everything_in_toml(text: str | None) -> None:
    joined = merge_into_toml(text, TABLE, BLOCK)
    assert joined.text is not None
    assert joined.text.startswith(text or "")
    after = tomllib.loads(joined.text)
    assert after["mcp_servers"]["agenttalk"] == {"command": "agenttalk"}
    assert merge_into_toml(joined.text, TABLE, "[x]\n") == ALREADY_THERE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("= 1", "not TOML"),
        ('mcp_servers = "none"\n', "cannot be added"),
        ("mcp_servers = {other = {a = 1}}\n", "cannot be added"),
    ],
)
def test_toml_that_has_no_room_is_left_alone(text: str, why: str) -> None:
    joined = merge_into_toml(text, TABLE, BLOCK)
    assert (joined.text, why in joined.why) == (None, True)


def test_a_block_that_would_be_taken_for_something_else_is_not_added() -> None:
    assert "would change" in merge_into_toml("[[mcp_servers]]\na = 1\n", ("other",), "[mcp_servers.b]\nc = 1\n").why


@pytest.mark.parametrize("text", [None, "", "# Our rules\n\nBe kind.\n", "No end of line"])
def test_a_paragraph_is_put_behind_everything_once(text: str | None) -> None:
    joined = merge_into_text(text, "\nTake part.\n")
    assert joined.text is not None
    assert joined.text.startswith(text or "")
    assert joined.text.endswith(f"{BEGIN}\nTake part.\n{END}\n")
    assert merge_into_text(joined.text.replace("Take part.", "A person changed it."), "Take part.") == ALREADY_THERE


OWN = {"$schema": "https://example.org"}


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), layouts, st.sampled_from(["", "\n"]))
def test_what_was_added_to_json_is_taken_out_and_leaves_no_trace(
    document: dict[str, Any], layout: dict[str, Any], end: str
) -> None:
    before = json.dumps(document, **layout) + end
    held = 1 if "mcpServers" in document else 0
    added = merge_into_json(before, PATH, SERVER)
    if added.text is not None:
        taken = remove_from_json(added.text, PATH, SERVER, held=held)
        assert taken.text == (before if document else ""), "an empty object is left to whoever made it"
        assert remove_from_json(before, PATH, SERVER, held=held) == ALREADY_THERE


def test_a_file_that_is_ours_alone_is_empty_without_our_entry() -> None:
    made = merge_into_json(None, PATH, SERVER, first=OWN).text or ""
    assert remove_from_json(made, PATH, SERVER, first=OWN).text == ""
    assert remove_from_json(made, PATH, SERVER).text == json.dumps(OWN, indent=2) + "\n"


def test_an_object_with_other_entries_or_that_was_there_before_stays() -> None:
    other = json.dumps({"mcpServers": {"mine": 1, "agenttalk": SERVER}}, indent=2)
    assert json.loads(remove_from_json(other, PATH, SERVER).text or "") == {"mcpServers": {"mine": 1}}
    alone = json.dumps({"mcpServers": {"agenttalk": SERVER}}, indent=2)
    assert json.loads(remove_from_json(alone, PATH, SERVER, held=1).text or "") == {"mcpServers": {}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("// mine\n{}", "not plain JSON"),
        ('{"mcpServers": {"agenttalk": {"command": "mine"}}}', "'agenttalk' was changed"),
        ('{ "mcpServers": {"agenttalk": {"command": "agenttalk", "args": ["mcp"]}}}', "layout"),
    ],
)
def test_an_entry_that_is_not_ours_any_more_stays(text: str, why: str) -> None:
    taken = remove_from_json(text, PATH, SERVER)
    assert (taken.text, why in taken.why) == (None, True)


@pytest.mark.parametrize("text", ["[]", "{}", '{"mcpServers": []}', '{"mcpServers": {"mine": 1}}'])
def test_an_entry_that_is_gone_is_gone(text: str) -> None:
    assert remove_from_json(text, PATH, SERVER) == ALREADY_THERE


def test_a_piece_of_text_is_taken_out_once() -> None:
    added = merge_into_text("Mine.", "Ours.").text or ""
    piece = added.removeprefix("Mine.")
    assert remove_from_text(f"{added}More.", piece).text == "Mine.More."
    assert "was changed" in remove_from_text(added.replace("Ours", "Yours"), piece).why
    assert "twice" in remove_from_text(added + piece, piece).why
