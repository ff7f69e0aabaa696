"""`agenttalk audit replay`: applies a policy to past work, page by page."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, sanitize, sanitize_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import typer

    from agenttalk.contracts.policy import AuditPolicy
    from agenttalk.engine.proof.policy_replay import JudgedTask, ReplayCursor, ReplayPage


NOT_KEPT: Final = 1
_BEGIN: Final = '{"dones":['
_SIGNS: Final = {"kept": "[green]✓[/]", "refused": "[bold red]✗[/]", "unknown": "[yellow]?[/]"}
_WORDS: Final = {"kept": "kept", "refused": "would be refused", "unknown": "unknown"}


def replay(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
    file: Path,
    since: str | None,
    plan: str,
) -> int:
    """Replay page by page, and print each page as it arrives."""
    from agenttalk.adapters.mailbox import fsio
    from agenttalk.contracts.core import wire
    from agenttalk.contracts.policy import read_policy

    out, folder = root_access.choose_root(ctx, root, as_json)
    data = fsio.read_file(file.resolve(), limit=wire.ENVELOPE_LIMIT)
    policy = read_policy(data, yaml=file.suffix.lower() != ".json")
    request = {"policy": policy.as_json(), "plan": plan, **({"since": since} if since else {})}
    totals = dict.fromkeys(_WORDS, 0)
    printed = False
    place: ReplayCursor | None = None
    while True:
        page = _read_page(folder, policy, {**request, **(place or {})})
        for done in page["dones"]:
            totals[done["standing"]] += 1
            if out.as_json:  # one at a time, so that a long history is never in memory
                sys.stdout.write(f"{',' if printed else _BEGIN}{wire.to_text(done)}\n")
                printed = True
            else:
                _print_task(out, done)
        place = page["next"]
        if place is None:
            break
    kept = totals["kept"] == sum(totals.values())
    if out.as_json:
        sys.stdout.write(f'{"" if printed else _BEGIN}],"ok":{wire.to_text(kept)},"totals":{wire.to_text(totals)}}}\n')
    else:
        out.say(", ".join(f"{count} {_WORDS[name]}" for name, count in totals.items()))
    return 0 if kept else NOT_KEPT


def _read_page(folder: Path, policy: AuditPolicy, request: Mapping[str, object]) -> ReplayPage:
    return root_access.ask_root(
        folder, "/api/audit/replay", lambda local: local.plans.replay_policy(policy, request), request
    )


def _print_task(out: CommandOutput, done: JudgedTask) -> None:
    name = f"[bold]{sanitize(done['plan_id'])}/{sanitize(done['task_id'])}[/]"
    later = "" if done["stands"] else ", no longer in force"
    out.say(f"{_SIGNS[done['standing']]} {name} {_WORDS[done['standing']]} [dim]({done['at']}{later})[/]")
    for reason in done["reasons"]:
        out.say(f"    · {sanitize_line(reason)}")
