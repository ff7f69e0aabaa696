"""Lets several coding agents work on one change, each in a run of its own, and takes one proven result.

Each agent has its own clone, root and branch, as if `agenttalk until` had been called for it alone: that is what it is.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.doors.cli.core import engine_client, root_access
from agenttalk.doors.cli.core.output import CommandOutput, sanitize, summarize_lines
from agenttalk.doors.cli.plans.live_view import LivePlanView, can_draw, describe_usage
from agenttalk.rules.changes.change_plan import TASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agenttalk.doors.cli.changes.prepared_change import ChangeOptions, PreparedChange, Take
    from agenttalk.doors.cli.core.live_block import LiveBlock
    from agenttalk.engine.core.task_status import TaskUsage
    from agenttalk.engine.views.models.attempts import AttemptUsage

OURSELVES: Final = (sys.executable, "-P", "-m", "agenttalk", "until")
REDRAWN: Final = 0.5
"""Seconds between two drawings of what the agents do."""
_PATIENCE: Final = 30.0
"""Seconds that a run has to end after it was asked to."""
_DEATH_SIGNAL: Final = 1
"""The number of `PR_SET_PDEATHSIG`."""
_MARKS: Final = {"proven": "[green]✓[/]", "interrupted": "[dim]-[/]", "waiting": "[yellow]‖[/]"}


@dataclass(slots=True)
class RaceRunner:
    """The run of one agent in a race."""

    name: str
    prepared: PreparedChange
    process: subprocess.Popen[bytes]
    printed: IO[bytes]
    view: LivePlanView
    """Describes what it does now."""
    answer: dict[str, Any] | None = None
    """What it said at its end."""

    @property
    def result(self) -> str:
        """How it ended; empty while it runs."""
        return "" if self.answer is None else str(self.answer.get("result", "failed"))

    @property
    def usage(self) -> AttemptUsage:
        """What it used."""
        used: AttemptUsage | None = (self.answer or {}).get("usage")
        return used or {}

    def read_end(self) -> None:
        """Read how it ended."""
        self.process.wait()
        self.printed.seek(0)
        try:
            told = json.loads(self.printed.read())
        except ValueError:
            told = {}
        self.answer = told if isinstance(told, dict) else {}
        if self.result == "interrupted":
            self.answer["usage"] = _read_usage(self.answer)

    def as_json(self) -> dict[str, Any]:
        """Return its end for programs."""
        answer = self.answer or {}
        reason = answer.get("reason") or (answer.get("error") or {}).get("message")
        known = {key: answer.get(key) for key in ("branch", "commit", "root", "usage")}
        return {"agent": self.name, "result": self.result, "reason": reason, **known}


class AgentRace:
    """A race of several agents for one check."""

    def __init__(self, out: CommandOutput, options: ChangeOptions, check: str, folder: Path) -> None:
        """`folder` is where the check is run."""
        self._out = out
        self._options = options
        self._check = check
        self._folder = folder
        self._runners: list[RaceRunner] = []
        self._block: LiveBlock | None = None

    def run(self, prepared: Mapping[str, PreparedChange], take: Take) -> int:
        """Run all agents, take one proven result, and return the exit code."""
        with tempfile.TemporaryDirectory(prefix="agenttalk-race-") as home, self._open_block():
            try:
                self._runners = [self._start(name, change, Path(home)) for name, change in prepared.items()]
                for runner in self._ends():
                    self._tell(runner)
                    if runner.result == "proven" and take == "first":
                        break
            finally:
                self._stop()
        winner = self._choose(take)
        return self._conclude(winner) if winner is not None else self._tell_failure()

    @contextmanager
    def _open_block(self) -> Iterator[None]:
        """Show on a terminal what each agent does now."""
        if self._out.as_json or not can_draw():
            yield
            return
        from agenttalk.doors.cli.core.live_block import LiveBlock

        self._block = LiveBlock(CommandOutput(as_json=False).console(err=True))
        self._block.open()
        try:
            yield
        finally:
            self._block.close()
            self._block = None

    def _draw(self) -> None:
        if self._block is None:
            return
        width, _ = self._block.size
        left = [runner for runner in self._runners if runner.answer is None]
        self._block.draw([line for runner in left for line in self._describe(runner, width)])

    def _describe(self, runner: RaceRunner, width: int) -> list[str]:
        """Describe what an agent does now, as the engine of its run says."""
        plan, root = runner.prepared.plan_id, runner.prepared.root
        with suppress(AgentTalkError):
            client = engine_client.connect_to_running_engine(root, self._out.locale)
            if client is not None:
                return runner.view.describe_tasks(client.get(f"/api/plans/{plan}"), width)
        return [f"[blue]▶[/] [bold]{sanitize(runner.name)}[/]"]

    def _start(self, name: str, prepared: PreparedChange, home: Path) -> RaceRunner:
        printed = (home / name).open("w+b")
        libc = ctypes.CDLL(None)  # loaded here, for the new process may not
        process = subprocess.Popen(  # noqa: S603 - no shell, and the program is our own
            [*OURSELVES, "--json", *to_arguments(self._options), self._check, "--", *prepared.agent.to_argv()],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            # Killed with the race, so that no agent works on unseen, and the same race again goes on with its run.
            preexec_fn=lambda: libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509 - there is one thread
        )
        if not self._out.as_json and self._block is None:
            self._out.say(f"[blue]▶[/] [bold]{sanitize(name)}[/]", err=True)
        view = LivePlanView(self._out, prepared.plan_id, one_change=True)
        return RaceRunner(name, prepared, process, printed, view)

    def _ends(self) -> Iterator[RaceRunner]:
        """Yield the runs as they end."""
        with selectors.DefaultSelector() as selector:
            for runner in self._runners:
                selector.register(os.pidfd_open(runner.process.pid), selectors.EVENT_READ, runner)
            while selector.get_map():
                self._draw()
                for key, _ in selector.select(REDRAWN if self._block is not None else None):
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    key.data.read_end()
                    yield key.data

    def _stop(self) -> None:
        """End all runs that are under way; what they did so far is kept."""
        self._draw()
        left = [runner for runner in self._runners if runner.answer is None]
        for runner in left:
            with suppress(ProcessLookupError):
                runner.process.send_signal(signal.SIGTERM)
        for runner in left:
            try:
                runner.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                runner.process.kill()
            runner.read_end()
            self._tell(runner)

    def _choose(self, take: Take) -> RaceRunner | None:
        proven = [runner for runner in self._runners if runner.result == "proven"]
        if take == "cheapest":
            proven.sort(key=lambda each: (each.usage.get("cost_usd") or 0.0, each.usage.get("tokens") or 0))
        elif take == "smallest-diff":
            proven.sort(key=lambda each: int((each.answer or {}).get("changed_lines") or 0))
        return proven[0] if proven else None

    def _conclude(self, winner: RaceRunner) -> int:
        """Have the run of the winner tell its result once more, and merge it if that is wanted."""
        ends = [*(["--merge"] if self._options.merge else []), *(["--pr"] if self._options.pull_request else [])]
        roots = ["--language", self._out.locale]
        roots += ["--root", str(self._options.root)] if self._options.root else []
        arguments = [*ends, *to_arguments(self._options), self._check, "--", *winner.prepared.agent.to_argv()]
        ours = [*OURSELVES[:-1], *roots, OURSELVES[-1]]
        if not self._out.as_json:
            self._out.say(f"[green]✓[/] {self._out.text('change_run.taken', agent=sanitize(winner.name))}", err=True)
            return subprocess.run(  # noqa: S603 - no shell, and the program is our own
                [*ours, *arguments], cwd=self._folder, stderr=subprocess.DEVNULL, check=False
            ).returncode
        done = subprocess.run(  # noqa: S603 - no shell, and the program is our own
            [*ours, "--json", *arguments], cwd=self._folder, capture_output=True, check=False
        )
        told = json.loads(done.stdout)
        self._out.write_json({**told, "race": [each.as_json() for each in self._runners]})
        return done.returncode

    def _tell_failure(self) -> int:
        waiting = any(each.result == "waiting" for each in self._runners)
        if self._out.as_json:
            result = "waiting" if waiting else "not proven"
            race = [each.as_json() for each in self._runners]
            self._out.write_json({"ok": False, "result": result, "check": self._check, "race": race})
        else:
            check = f"[bold]{sanitize(self._check)}[/]"
            self._out.say(f"[bold red]✗[/] {self._out.text('change_run.not_proven_by_any', check=check)}")
        return 3 if waiting else 1

    def _tell(self, runner: RaceRunner) -> None:
        if self._out.as_json:
            return
        told = runner.as_json()
        took = describe_usage(self._out, runner.usage)
        word = self._out.text(f"change_run.race.{runner.result}")
        reason = summarize_lines(told["reason"] or "") if runner.result not in {"proven", "interrupted"} else ""
        parts = " [dim]·[/] ".join(part for part in (word, took, reason) if part)
        mark = _MARKS.get(runner.result, "[bold red]✗[/]")
        self._out.say(f"{mark} [bold]{sanitize(runner.name)}[/] {parts}", err=True)


def _read_usage(answer: Mapping[str, Any]) -> TaskUsage | None:
    """Read what a run that was stopped had used. It is written down when its turn is ended, after its last word."""
    plan = str(answer.get("plan_id"))
    try:
        explained = root_access.ask_root(
            Path(answer["root"]),
            f"/api/plans/{plan}/tasks/{TASK}/explanation",
            lambda local: local.plans.explain_task(plan, TASK),
        )
    except (AgentTalkError, KeyError):
        used: TaskUsage | None = answer.get("usage")
        return used
    return explained["usage"]


def read_names(text: str) -> tuple[str, ...]:
    """Read the agents of a race. Raises UsageError when one is not known, or there are not two."""
    from agenttalk.rules.agents import agent_commands
    from agenttalk.rules.text.cli_words import ERRORS

    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in agent_commands.FLAGS]
    if unknown:
        hint = ERRORS["options"](names=", ".join(agent_commands.FLAGS))
        raise UsageError(Code.NAME_UNKNOWN, ERRORS["race_agent"](name=unknown[0][:40]), hint=hint)
    if len(names) < 2:
        raise UsageError(Code.OPTION_INVALID, ERRORS["two_agents"](), hint=ERRORS["two_agents_hint"]())
    return names


def to_arguments(options: ChangeOptions) -> list[str]:
    """Write options as the command line of one run takes them, without what follows a race."""
    found = ["--rounds", str(options.limits.rounds)]
    for name, value in (("--usd", options.limits.cost_usd), ("--minutes", options.limits.minutes)):
        found += [name, str(value)] if value is not None else []
    lists = (("--protect", options.protect), ("--scope", options.scope), ("--env", options.env))
    for name, values in (*lists, ("--link", ("none",) if options.links == () else options.links or ())):
        found += [part for value in values for part in (name, value)]
    found += ["--allow-tests"] if options.allow_tests else []
    found += ["--suspicion", options.suspicion] if options.suspicion else []
    found += ["--already-green", "ok"] if options.already_green else []
    found += ["--prepare", options.prepare] if options.prepare else []
    found += ["--sandbox", options.sandbox] if options.sandbox else []
    return found
