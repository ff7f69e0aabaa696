"""Makes plan files from the templates of AgentTalk."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from agenttalk.contracts.errors import Code, UsageError

NAMES: Final = ("weekly-summary",)


def write_plan_file(name: str, root: Path, schedule: str, *, editor: str, team: Sequence[str]) -> Path:
    """Write a plan file under a root, and return its path. Raises UsageError, also when the file exists."""
    if name not in NAMES:
        from agenttalk.contracts.core.problems import (
            find_nearest,  # not at the top: --help must stay quick
        )

        near = find_nearest(name, NAMES)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(NAMES)}"
        raise UsageError(Code.NAME_UNKNOWN, f"there is no template {name[:80]!r}", hint=hint)
    if not team:
        raise UsageError(Code.OPTION_INVALID, "a weekly summary needs a team", hint="name each member with --team")
    file = root / "plans" / f"{schedule}.yaml"
    if file.exists():
        hint = "use it with --plan, or remove it first"
        raise UsageError(Code.NAME_TAKEN, f"the plan file {file} exists already", hint=hint)
    file.parent.mkdir(exist_ok=True)
    file.write_text(_weekly_summary(schedule, editor, list(dict.fromkeys(team))), encoding="utf-8")
    return file


def _weekly_summary(plan_id: str, editor: str, team: Sequence[str]) -> str:
    import yaml

    template: Any = yaml.safe_load((files("agenttalk") / "templates" / "weekly-summary.yaml").read_bytes())
    words = {"editor": editor, "team": ", ".join(team)}
    members = [{**words, "member": member} for member in team]
    reports = [fill_placeholders(template["member"], member) for member in members]
    promise = {
        "objective": template["name"],
        "acceptance": [fill_placeholders(template["criterion"], member) for member in members],
        "checks": [fill_placeholders(template["check"], member) for member in members],
    }
    summary = {
        **fill_placeholders(template["editor"], words),
        "needs": [task["id"] for task in reports],
        "promise": promise,
    }
    plan = {"plan_id": plan_id, "name": template["name"], "tasks": [*reports, summary]}
    head = "# Made from the template weekly-summary. Edit it freely. Each run gets its own id.\n"
    return f"{head}{yaml.safe_dump(plan, sort_keys=False, allow_unicode=True, width=120)}"


def fill_placeholders(value: Any, words: Mapping[str, str]) -> Any:
    """Replace every ⟨word⟩ in the texts of a value, once: text that is filled in is not searched again."""
    if isinstance(value, dict):
        return {key: fill_placeholders(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_placeholders(item, words) for item in value]
    return re.sub(r"⟨(\w+)⟩", lambda match: words[match[1]], value) if isinstance(value, str) else value
