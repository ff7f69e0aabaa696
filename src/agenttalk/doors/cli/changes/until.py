"""`agenttalk until` and `agenttalk do`: an agent changes this repository until a check is proven."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, SandboxOption

if TYPE_CHECKING:
    from agenttalk.doors.cli.changes.change_run import ChangeRun
    from agenttalk.doors.cli.changes.prepared_change import ChangeOptions

until_app = typer.Typer(add_completion=False)
do_app = typer.Typer(add_completion=False)
RoundsOption = Annotated[
    int, typer.Option("--rounds", min=1, max=100, help="Most turns of the agent, the first one included.")
]
UsdOption = Annotated[
    float | None, typer.Option("--usd", min=0.0, help="Cost limit for all turns together, in dollars.")
]
MinutesOption = Annotated[
    float | None, typer.Option("--minutes", min=0.0, help="Time limit for all turns together, in minutes.")
]
MergeOption = Annotated[
    bool, typer.Option("--merge", help="Merge the proven work into the branch that is checked out.")
]
PullRequestOption = Annotated[
    bool, typer.Option("--pr", help="Push the proven work and open a pull request at the configured forge.")
]
RaceOption = Annotated[
    str,
    typer.Option(
        "--race", metavar="AGENT,AGENT", help="Let several coding agents work at the same time, each in its own clone."
    ),
]
TakeOption = Annotated[
    Literal["first", "cheapest", "smallest-diff"],
    typer.Option(
        "--take", help="Which proven result of a race to take. Only first ends the race before every agent has ended."
    ),
]
ProtectOption = Annotated[
    list[str] | None,
    typer.Option("--protect", metavar="GLOB", help="Files that the agent must not change; repeatable."),
]
ScopeOption = Annotated[
    list[str] | None,
    typer.Option("--scope", metavar="GLOB", help="Only these files may change; repeatable. Default: all."),
]
AllowTestsOption = Annotated[
    bool, typer.Option("--allow-tests", help="Let the agent change the tests that the check runs.")
]
GreenOption = Annotated[
    Literal["ok"] | None,
    typer.Option("--already-green", help="ok: accept a check that already passes before the work."),
]
SuspicionOption = Annotated[
    Literal["note", "ask", "refuse"] | None,
    typer.Option("--suspicion", help="What follows from lines that could deceive the check. Default: ask."),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME", help="Variable to pass on to the agent's program; repeatable."),
]
LinkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--link",
        metavar="PATH",
        help="Ignored path that the clone gets, read-only; repeatable. Default: those found. none: no path.",
    ),
]
PrepareOption = Annotated[
    str, typer.Option("--prepare", metavar="COMMAND", help="Command that prepares a fresh clone, such as 'npm ci'.")
]


@until_app.command("until")
def until(
    ctx: typer.Context,
    check: Annotated[str, typer.Argument(metavar="CHECK", help="Command that succeeds when the work is done.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND", help="Command of the agent, such as: claude -p 'Fix the rounding'"),
    ] = None,
    rounds: RoundsOption = 4,
    usd: UsdOption = None,
    minutes: MinutesOption = None,
    merge: MergeOption = False,
    pr: PullRequestOption = False,
    race: RaceOption = "",
    take: TakeOption = "first",
    protect: ProtectOption = None,
    scope: ScopeOption = None,
    allow_tests: AllowTestsOption = False,
    already_green: GreenOption = None,
    suspicion: SuspicionOption = None,
    env: EnvOption = None,
    link: LinkOption = None,
    prepare: PrepareOption = "",
    sandbox: SandboxOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run an agent in a private clone of this repository until a check is proven. Nothing needs to be set up.

    The engine runs the check itself, where the agent cannot reach it. While the check fails, the agent gets the reasons
    and continues. The result is a branch with one commit; your files stay as they are. Run the same command again to
    continue.

    Exits with 0 when the check is proven, 1 when it is not, 2 for bad usage, 3 when a person must decide.
    """
    from agenttalk.doors.cli.changes.agent_race import read_names
    from agenttalk.doors.cli.changes.prepared_change import ChangeOptions
    from agenttalk.rules.changes.change_plan import ChangeLimits

    options = ChangeOptions(
        limits=ChangeLimits(rounds, usd, minutes),
        merge=merge,
        protect=tuple(protect or ()),
        scope=tuple(scope or ()),
        allow_tests=allow_tests,
        already_green=already_green is not None,
        suspicion=suspicion,
        env=tuple(env or ()),
        links=None if link is None else tuple(link),
        prepare=prepare,
        sandbox=sandbox,
        pull_request=pr,
        race=read_names(race) if race else (),
        take=take,
        root=CommonOptions.merge(ctx, None, as_json).root,
    )
    return _make_run(ctx, as_json, options).run(command or [], check)


@do_app.command("do")
def do(
    ctx: typer.Context,
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What the agent must achieve.")],
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="NAME", help="Coding agent to run. Default: the first one installed."),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="COMMAND", help="Command that proves the goal. Default: the one found in the repository."
        ),
    ] = None,
    ask_me: Annotated[bool, typer.Option("--ask-me", help="Decide yourself at the end, instead of a check.")] = False,
    rounds: RoundsOption = 4,
    usd: UsdOption = None,
    minutes: MinutesOption = None,
    merge: MergeOption = False,
    pr: PullRequestOption = False,
    race: RaceOption = "",
    take: TakeOption = "first",
    protect: ProtectOption = None,
    scope: ScopeOption = None,
    allow_tests: AllowTestsOption = False,
    already_green: GreenOption = None,
    suspicion: SuspicionOption = None,
    env: EnvOption = None,
    link: LinkOption = None,
    prepare: PrepareOption = "",
    sandbox: SandboxOption = None,
    as_json: JsonOption = False,
) -> int:
    """Have a coding agent reach a goal in this repository, proven by the repository's own check.

    The command takes the first coding agent that is installed and finds the check, and shows both before the agent
    starts. Everything else works as in 'agenttalk until'.
    """
    from agenttalk.doors.cli.changes.agent_race import read_names
    from agenttalk.doors.cli.changes.prepared_change import ChangeOptions
    from agenttalk.rules.changes.change_plan import ChangeLimits

    if ask_me and check is not None:
        from agenttalk.rules.text.cli_words import ERRORS

        message = ERRORS["exclusive"](one="--ask-me", other="--check")
        raise UsageError(Code.OPTION_INVALID, message, hint=ERRORS["leave_out_one"]())
    options = ChangeOptions(
        limits=ChangeLimits(rounds, usd, minutes),
        merge=merge,
        protect=tuple(protect or ()),
        scope=tuple(scope or ()),
        allow_tests=allow_tests,
        already_green=already_green is not None,
        suspicion=suspicion,
        env=tuple(env or ()),
        links=None if link is None else tuple(link),
        prepare=prepare,
        sandbox=sandbox,
        pull_request=pr,
        race=read_names(race) if race else (),
        take=take,
        root=CommonOptions.merge(ctx, None, as_json).root,
    )
    return _make_run(ctx, as_json, options).run_goal(goal, agent, check, ask_me=ask_me)


def _make_run(ctx: typer.Context, as_json: bool, options: ChangeOptions) -> ChangeRun:  # noqa: FBT001 - as given
    from agenttalk.doors.cli.changes.change_run import ChangeRun

    return ChangeRun(CommandOutput.from_options(CommonOptions.merge(ctx, None, as_json)), options)
