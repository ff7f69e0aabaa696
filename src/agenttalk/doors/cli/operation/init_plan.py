"""Writes the plan file of a repository, for `agenttalk init`."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.doors.cli.core.root_discovery import PLAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttalk.adapters.workspaces.user_folder import UserRepository
    from agenttalk.rules.changes.check_discovery import CheckCandidate

_TEMPLATES: Final = {"en": "agenttalk.yaml", "zh": "agenttalk.zh.yaml"}
_INSTALLED: Final = (".venv", "venv", "node_modules")
"""Folders with installed packages: clones share them."""
_MOST_PROTECTED: Final = 12
"""Files that the plan names as protected, and so each prompt. What a check consists of is protected in any
case."""


class PlanText(NamedTuple):
    """The plan file of a repository."""

    text: str
    about: str
    """What it is, in one line."""


def make_plan(folder: Path, agent: str, *, installed: bool, locale: Literal["en", "zh"]) -> PlanText | str:
    """Make the plan for the repository whose top is a folder, or say why there is none."""
    from agenttalk.adapters.workspaces.user_folder import find_repository
    from agenttalk.doors.cli.changes.check_selection import find_checks
    from agenttalk.rules.changes.change_plan import make_slug
    from agenttalk.rules.core.scope import display_path
    from agenttalk.rules.text import change_words, cli_words

    try:
        repository = find_repository(folder)
        checks = [each for each in find_checks(repository) if f"{each.cwd}{each.run}{each.junit}".isprintable()]
    except AgentTalkError as error:
        return cli_words.OBSTACLES["no_repository"](why=error.message, hint=error.hint)
    if repository.inside:
        return cli_words.OBSTACLES["top"](path=display_path(str(repository.top)))
    plan_id = make_slug(repository.name) or "work"
    check = checks[0] if checks else None
    prompt = change_words.PLAN_PROMPT if check else change_words.PLAN_PROMPT_NAMELESS
    note = change_words.PLAN_AGENT if installed else change_words.PLAN_AGENT_MISSING
    workspace = {"repo": ".", **({"link": links} if (links := _list_links(repository, check)) else {})}
    template = (files("agenttalk") / "templates" / _TEMPLATES[locale]).read_text(encoding="utf-8")
    text = Template(template).substitute(
        plan_id=plan_id,
        workspace=_to_yaml(workspace),
        agent=agent,
        agent_note=note.render(locale),
        prompt=_to_yaml(prompt.render(locale, run=check.run if check else "")),
        check="\n".join(f"        {line}" for line in _render_check(checks, plan_id, locale)),
    )
    if check is None:
        return PlanText(text, cli_words.PURPOSES["plan_without_check"]())
    return PlanText(text, cli_words.PURPOSES["plan_with_check"](check=check.run))


def _render_check(checks: Sequence[CheckCandidate], plan_id: str, locale: Literal["en", "zh"]) -> list[str]:
    from agenttalk.rules.text import change_words
    from agenttalk.rules.text.message import render

    if not checks:
        note = change_words.PLAN_CHECK_NAMELESS.render(locale)
        question = _to_yaml(change_words.PLAN_QUESTION.render(locale, plan=plan_id))
        example = "#   - {id: check, kind: run, run: sh test.sh}"
        return [f"# {note}", example, "- id: check", "  kind: human", f"  question: {question}"]
    found, others = checks[0], [each.run for each in checks[1:6]]
    check = found.to_check()
    lines = [f"# {_one_line(change_words.PLAN_CHECK_FOUND.render(locale, why=render(found.why, locale)))}"]
    if others:
        lines.append(f"# {_one_line(change_words.PLAN_CHECK_OTHERS.render(locale, commands=', '.join(others)))}")
    lines += ["- id: check", f"  kind: {check.kind}"]
    lines += [
        f"  {name}: {_to_yaml(value)}" for name in ("cwd", "run", "junit") if (value := getattr(check, name, None))
    ]
    plain = [path for path in found.files if path.isprintable() and not re.search(r"[*?\[\]\\!]", path)]
    if len(plain) > _MOST_PROTECTED:
        lines.append(f"  # {change_words.PLAN_PROTECTED.render(locale, count=len(found.files))}")
        plain = []
    return [*lines, f"  protected: {_to_yaml([PLAN, *plain])}"]


def _list_links(repository: UserRepository, check: CheckCandidate | None) -> list[str]:
    """List folders of installed packages that git ignores and the check needs."""
    places = dict.fromkeys(("", f"{check.cwd}/" if check and check.cwd else ""))
    return [f"{place}{name}" for place in places for name in _INSTALLED if f"{place}{name}" in repository.ignored]


def _to_yaml(value: object) -> str:
    """Write a value in the JSON that YAML includes."""
    return json.dumps(value, ensure_ascii=False)


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
