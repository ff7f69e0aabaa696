"""Pages of the reference that are written from the code are up to date.

AGENTTALK_UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from agenttalk.contracts import catalogue
from agenttalk.errors import MEANINGS, Code

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
