"""Pages of the reference that are written from the code are up to date.

AGENTTALK_UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic.fields import FieldInfo

from agenttalk.contracts import catalogue
from agenttalk.errors import MEANINGS, Code
from agenttalk.settings import AccountSettings, AgentSettings, Section, Settings, SourceSettings

REFERENCE = Path(__file__).parent.parent / "docs/reference"


def errors_page() -> str:
    rows = [f"| `{code}` | {MEANINGS[code].text} | {'yes' if MEANINGS[code].retriable else 'no'} |" for code in Code]
    return "\n".join(
        [
            "# Codes of errors and problems",
            "",
            "Programs match on the code; the wording may change. This page is written from the code.",
            "",
            "| code | what it means | can a retry help |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def documents_page() -> str:
    rows = [f"| `{name}` | {catalogue.summary(name)} |" for name in catalogue.DOCUMENTS]
    return "\n".join(
        [
            "# Documents",
            "",
            "Every document that AgentTalk reads or writes. `agenttalk schema NAME` shows its JSON Schema (draft 2020-12)",
            "with a sentence on each field; `agenttalk schema --out DIR` writes all of them. This page is written from the",
            "code.",
            "",
            "| name | what it is |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def check(name: str, text: str) -> None:
    if os.environ.get("AGENTTALK_UPDATE_GOLDEN"):
        (REFERENCE / name).write_text(text, encoding="utf-8")
    assert (REFERENCE / name).read_text(encoding="utf-8") == text


def test_the_page_of_codes_is_up_to_date() -> None:
    check("errors.md", errors_page())


def test_the_page_of_documents_is_up_to_date() -> None:
    check("documents.md", documents_page())


def test_every_code_has_a_meaning() -> None:
    assert MEANINGS.keys() == set(Code)
    assert all(code.value == code.name for code in Code)


TABLES: dict[str, type[Section]] = {
    "agents.NAME": AgentSettings,
    "agents.NAME.forge.SOURCE": AccountSettings,
    "sources.NAME": SourceSettings,
}


def settings_page() -> str:
    plain = {name: field for name, field in Settings.model_fields.items() if not isinstance(field.default, Section)}
    tables: dict[str, type[Section]] = {
        name: type(field.default) for name, field in Settings.model_fields.items() if isinstance(field.default, Section)
    } | TABLES
    own = [f"| `{name}` | {_shown(field)} | {_told(field)} |" for name, field in plain.items() if name == "locale"]
    parts = [
        "# Settings",
        "",
        "`agenttalk.toml` at the root, and over it variables such as `AGENTTALK__SERVER__PORT`. A key that nobody knows is an",
        "error that names the nearest one. Secrets do not belong into the file. This page is written from the code.",
        "",
        "| key | default | what it says |",
        "|---|---|---|",
        *own,
    ]
    for name, table in sorted(tables.items()):
        rows = [f"| `{key}` | {_shown(field)} | {_told(field)} |" for key, field in table.model_fields.items()]
        parts += ["", f"## [{name}]", "", (table.__doc__ or "").strip(), "", "| key | default | what it says |"]
        parts += ["|---|---|---|", *rows]
    return "\n".join([*parts, ""])


def _told(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def _shown(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if field.is_required():
        return "needed"
    return "" if value in (None, (), {}) or isinstance(value, Section) else f"`{json.dumps(value)}`"


def test_the_page_of_settings_is_up_to_date() -> None:
    check("settings.md", settings_page())
