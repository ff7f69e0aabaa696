"""Shows the prompt of a task, as its agent got it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, sanitize

_PROMPTS: Final = {
    "differs": "its hash differs from the recorded one: secrets were removed from it, or the file was changed",
    "hash_only": "only its hash was kept",
    "not_yet": "no agent has received a prompt for it yet",
}


def show_prompt(out: CommandOutput, folder: Path, plan: str, task_id: str) -> int:
    """Print the last prompt of a task to standard output, and remarks about it to standard error."""
    told = root_access.ask_root(
        folder, f"/api/plans/{plan}/tasks/{task_id}/prompt", lambda local: local.plans.read_prompt(plan, task_id)
    )
    counts = _count_tokens(folder, plan, task_id, told["text"]) if told["text"] is not None else {}
    if out.as_json:
        out.write_json({"ok": True, **told, **counts})
        return 0
    if told["standing"] in _PROMPTS:
        shown = f" [dim]{told['sha256']}[/]" if told["sha256"] else ""
        out.say(f"[yellow]![/] {sanitize(plan)}/{sanitize(task_id)}: {_PROMPTS[told['standing']]}{shown}", err=True)
    if told["text"] is not None:
        typer.echo(told["text"])
        for each in counts["sections"]:
            out.say(f"[dim]{each['tokens']:>8,}  {sanitize(each['title']) or '…'}[/]", err=True)
        size = "at most {tokens:,} tokens, {added:,} of them beside the task's own text (estimated)".format(**counts)
        out.say(f"[dim]{size}[/]", err=True)
    return 0


def _count_tokens(folder: Path, plan: str, task_id: str, text: str) -> dict[str, Any]:
    """Estimate the tokens of a prompt: of each section, in all, and of all that is not the text of its task."""
    from agenttalk.rules.prompts.size import estimate_tokens, measure_sections

    told = root_access.ask_root(
        folder, f"/api/plans/{plan}/tasks/{task_id}/explanation", lambda local: local.plans.explain_task(plan, task_id)
    )
    tokens, own = estimate_tokens(text), estimate_tokens(told["asked"] or "")
    sections = [each._asdict() for each in measure_sections(text)]
    return {"tokens": tokens, "added": max(0, tokens - own), "sections": sections}
