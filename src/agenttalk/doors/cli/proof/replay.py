"""`agenttalk audit replay`: past work held against a policy, page by page."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from agenttalk.doors.cli.core.output import CommandOutput, sanitize, sanitize_line

if TYPE_CHECKING:
    from pathlib import Path

    import typer

    from agenttalk.engine.core.deps import Deps

NOT_KEPT: Final = 1
_BEGIN: Final = '{"dones":['
_SIGNS: Final = {"kept": "[green]✓[/]", "refused": "[bold red]✗[/]", "unknown": "[yellow]?[/]"}
_WORDS: Final = {"kept": "kept", "refused": "would be refused", "unknown": "cannot be told"}


def replay(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
    file: Path,
    since: str | None,
    plan: str,
) -> int:
    """Ask for all pages, and tell each as it comes."""
    from agenttalk.adapters.mailbox import fsio
    from agenttalk.contracts.core import wire
    from agenttalk.contracts.policy import read_policy
    from agenttalk.doors.cli.core import root_access
    from agenttalk.engine.proof import policy_replay

    out, folder = root_access.choose_root(ctx, root, as_json)
    data = fsio.read_file(file.resolve(), limit=wire.ENVELOPE_LIMIT)
    policy = read_policy(data, yaml=file.suffix.lower() != ".json")
    begin = policy_replay.parse_since(since)
    totals = dict.fromkeys(_WORDS, 0)
    told_before = False
    following: dict[str, Any] | None = {}
    while following is not None:
        asked = policy_replay.ReplayQuery(policy, begin, plan, **following)

        async def by_hand(deps: Deps, asked: policy_replay.ReplayQuery = asked) -> dict[str, Any]:
            return await policy_replay.replay_page(deps, asked)

        body = {"policy": policy.as_json(), "plan": plan, **({"since": since} if since else {}), **following}
        told = root_access.ask_root(folder, "/api/audit/replay", by_hand, body)
        for each in told["dones"]:
            totals[each["standing"]] += 1
            if out.as_json:  # one by one, so that nothing has to hold a long history
                sys.stdout.write(f"{',' if told_before else _BEGIN}{wire.to_text(each)}\n")
                told_before = True
            else:
                _tell(out, each)
        following = told["next"]
    kept = totals["kept"] == sum(totals.values())
    if out.as_json:
        sys.stdout.write(
            f'{"" if told_before else _BEGIN}],"ok":{wire.to_text(kept)},"totals":{wire.to_text(totals)}}}\n'
        )
    else:
        out.say(", ".join(f"{count} {_WORDS[name]}" for name, count in totals.items()))
    return 0 if kept else NOT_KEPT


def _tell(out: CommandOutput, each: dict[str, Any]) -> None:
    name = f"[bold]{sanitize(each['plan_id'])}/{sanitize(each['task_id'])}[/]"
    later = "" if each["stands"] else ", not in force any more"
    out.say(f"{_SIGNS[each['standing']]} {name} {_WORDS[each['standing']]} [dim]({each['at']}{later})[/]")
    for reason in each["reasons"]:
        out.say(f"    · {sanitize_line(reason)}")
