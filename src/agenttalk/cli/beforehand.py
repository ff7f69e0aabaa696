"""What can be said of a plan before it begins, and would else be said by a task that failed."""

from __future__ import annotations

from pathlib import Path

from agenttalk.cli.output import Output, plain
from agenttalk.errors import Code, UsageError
from agenttalk.rules.planfile import Compiled


def require_repository(compiled: Compiled) -> None:
    """A plan whose repository is not there cannot begin; better said before than by its first task."""
    workspace = compiled.manifest.workspace
    if workspace is not None and not Path(workspace.repo).is_dir():
        message = f"there is no repository {workspace.repo}"
        raise UsageError(Code.FILE_UNREADABLE, message, hint="look at workspace.repo in the plan, or make it first")


def warn_of_programs(out: Output, compiled: Compiled, root: Path) -> None:
    """A script that lies neither beside the plan file nor in its agent's folder is probably spelled wrongly."""
    for name, profile in compiled.profiles.items():
        for argument in profile.argv[1:] if profile.driver == "script" else ():
            script = argument.endswith((".py", ".sh")) and not argument.startswith(("/", "-"))
            if script and not (root / "agents" / name / argument).is_file() and not out.as_json:
                where = f"neither beside the plan nor in agents/{name}"
                out.say(f"[yellow]![/] agents.{plain(name)}: {plain(argument)} is {plain(where)}", err=True)
