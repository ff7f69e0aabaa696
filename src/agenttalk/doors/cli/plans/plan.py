"""`agenttalk plan`: checks, drafts and applies plan files.

Rules and contracts are imported where they are used, so that --help stays quick.
"""

from __future__ import annotations

import getpass
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.contracts.errors import ContractError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize
from agenttalk.doors.cli.plans import decisions, draft
from agenttalk.doors.cli.plans.run import tell_refused, to_documents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agenttalk.contracts.dag import Node
    from agenttalk.contracts.dag import Output as Made
    from agenttalk.contracts.errors import Problem
    from agenttalk.contracts.planfile.yaml_text import TextPosition, YamlSource
    from agenttalk.rules.planfile.compiler import CompiledPlan

app = typer.Typer(
    no_args_is_help=True, help="Check and draft plan files, and change running plans.", add_completion=False
)

BAD = 2
SHOWN = 200
"""How many tasks, and how many problems, are printed. --json prints all."""


@app.callback()
def main() -> None:
    """Check and draft plan files, and change running plans."""


@app.command("check")
def check(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A plan file in YAML or JSON; - reads standard input.")],
    out_folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the compiled documents to this folder.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check a plan file. Shows its tasks in order, their inputs, outputs and checks, and every problem.

    With --root, agents may also be defined in the root's agenttalk.toml and in agents/.
    """
    from agenttalk.adapters.mailbox.plan_file_folder import with_check_files
    from agenttalk.contracts.core import wire
    from agenttalk.contracts.core.large_documents import pause_collector
    from agenttalk.contracts.planfile import reader
    from agenttalk.doors.cli.core import sources
    from agenttalk.doors.cli.plans import warnings as plan_warnings
    from agenttalk.rules.planfile import compiler as rules
    from agenttalk.wiring.plan_files import add_unheeded_warnings, find_overruled, merge_profiles

    settings = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(settings)
    data = sources.read_bytes(file, limit=wire.DOCUMENT_LIMIT)
    with pause_collector():
        try:
            source = reader.parse_source(data, yaml=_is_yaml(file, data))
            plan = reader.plan_of(source)
        except ContractError as error:
            _tell_refused(out, file, error.problems)
            return BAD
        compiled = rules.compile_plan(plan, agents=merge_profiles(settings.root, plan))
        compiled = replace(compiled, warnings=(*find_overruled(plan, settings.root), *compiled.warnings))
        compiled = add_unheeded_warnings(compiled, settings.root)
        compiled = with_check_files(compiled, Path.cwd() if file == "-" else Path(file).absolute().parent)
        beside = Path.cwd() if file == "-" else Path(file).absolute().parent
        workspace = compiled.manifest.workspace
        remarks = (
            plan_warnings.find_repository_warnings(compiled, beside / workspace.repo) if workspace is not None else []
        )
        compiled = replace(compiled, warnings=(*compiled.warnings, *remarks))
        written = _write_documents(out_folder, compiled) if out_folder is not None and compiled.ok else []
        _tell(out, file, source, compiled, written)
    return 0 if compiled.ok else BAD


@app.command("apply")
def apply(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The changed plan file.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Apply a new revision of a plan. Unchanged tasks continue, and changed tasks start over.

    Programs of tasks that changed or were removed are ended. 'agenttalk run' continues the plan.
    """
    from agenttalk.wiring.plan_files import compile_plan_file

    out, folder = root_access.choose_root(ctx, root, as_json)
    compiled = compile_plan_file(file, folder)
    if compiled.problems:
        return tell_refused(out, compiled)
    by = getpass.getuser()

    told = root_access.ask_root(
        folder,
        "/api/plans/apply",
        lambda local: local.service.plans.apply(
            compiled.dag, compiled.manifest, compiled.profiles, compiled.files, by=by
        ),
        to_documents(compiled),
    )
    if out.as_json:
        out.write_json({"ok": True, "plan_id": compiled.dag.plan_id, **told})
    else:
        words = ", ".join(f"{len(told[what])} {what}" for what in ("added", "changed", "removed") if told[what])
        out.say(f"[green]✓[/] [bold]{sanitize(compiled.dag.plan_id)}[/]: {words or 'nothing changed'}")
    return 0


app.command("draft")(draft.draft)
app.command("assemble", hidden=True)(draft.assemble)


def _is_yaml(file: str, data: bytes) -> bool:
    """Decide by the file name, or by the first character: reading JSON as YAML would be far slower."""
    if file.endswith((".json", ".yaml", ".yml")):
        return not file.endswith(".json")
    return data.lstrip()[:1] != b"{"


def _write_documents(folder: Path, compiled: CompiledPlan) -> list[str]:
    from agenttalk.adapters.mailbox import fsio

    files = {folder / "task_dag.json": compiled.dag, folder / "plan_manifest.json": compiled.manifest}
    profiles = {folder / "agents" / name / "agent_profile.json": each for name, each in compiled.profiles.items()}
    for path, document in {**files, **profiles}.items():
        fsio.write_file(path, document.to_bytes() + b"\n")
    return [str(path) for path in (*files, *profiles)]


def _tell_refused(out: CommandOutput, file: str, problems: Iterable[Problem]) -> None:
    found = tuple(problems)
    if out.as_json:
        out.write_json({"ok": False, "problems": _as_json(found), "warnings": [], "task_dag": None})
        return
    _tell_problems(out, found)
    _tell_end(out, file, len(found))


def _tell_end(out: CommandOutput, file: str, count: int) -> None:
    words = out.text("run.plan_refused", file=_name(file), problems=out.count(count, "problem"))
    out.say(f"[bold red]{out.text('run.no_plan')}[/]{words}", err=True)


def _tell(out: CommandOutput, file: str, source: YamlSource, compiled: CompiledPlan, written: list[str]) -> None:
    from agenttalk.rules.planfile.compiler import compute_waves
    from agenttalk.rules.text import plan_words

    def add(text: str, mark: TextPosition) -> str:
        return plan_words.PLACED(what=text, line=mark.line, column=mark.column)

    problems, warnings = source.located(compiled.problems, add), source.located(compiled.warnings, add)
    order = compute_waves(compiled.dag)
    if out.as_json:
        out.write_json(
            {
                "ok": compiled.ok,
                "problems": _as_json(problems),
                "warnings": _as_json(warnings),
                "waves": order,
                "task_dag": compiled.dag.as_json(),
                "plan_manifest": compiled.manifest.as_json(),
                "agent_profiles": {name: profile.as_json() for name, profile in compiled.profiles.items()},
                "files": written,
            }
        )
        return
    _tell_plan(out, compiled, order)
    _tell_problems(out, warnings, warning=True)
    _tell_problems(out, problems)
    if compiled.ok:
        remarks = f", and {_count(len(warnings), 'remark')}" if warnings else ""
        out.say(f"[green]✓[/] {_name(file)}: [bold]{compiled.dag.plan_id}[/] can be submitted{remarks}")
        for path in written:
            out.say(f"  {sanitize(path)}")
    else:
        _tell_end(out, file, len(problems))


def _tell_plan(out: CommandOutput, compiled: CompiledPlan, order: list[list[str]]) -> None:
    dag, manifest = compiled.dag, compiled.manifest
    name = f" {sanitize(manifest.plan_name)}" if manifest.plan_name else ""
    counts = [_count(len(dag.nodes), "task"), _count(len(compiled.profiles), "agent"), _count(len(order), "wave")]
    out.say(f"[bold]{dag.plan_id}[/]{name} [dim]({', '.join(counts)})[/]")
    nodes: dict[str, Node] = {node.task_id: node for node in dag.nodes}
    activated: dict[str, str] = {
        task_id: node.task_id
        for node in dag.nodes
        for branch in (node.gates.branches if node.gates else ())
        for task_id in branch.activate
    }
    decisions.tell_policies(out, manifest.policies)
    left = SHOWN
    for number, wave in enumerate(order, 1):
        if not left:
            break
        out.say(f"[bold]wave {number}[/]" + (f" [dim]{len(wave)} in parallel[/]" if len(wave) > 1 else ""))
        for task_id in wave[:left]:
            _tell_task(out, nodes[task_id], activated.get(task_id))
        left -= len(wave[:left])
    if len(dag.nodes) > SHOWN:
        out.say(f"[dim]… and {_count(len(dag.nodes) - SHOWN, 'task')} more; --json has all[/]")


def _tell_task(out: CommandOutput, node: Node, activator: str | None) -> None:
    after = f" after {', '.join(node.depends_on)}" if node.depends_on else ""
    only = f" [dim]only if {activator} activates it[/]" if activator else ""
    out.say(f"  [bold cyan]{node.task_id}[/] by {node.assigned_agent_id}{after}{only}")
    for need in node.inputs:
        value = need.selector.type_value if need.selector.type == "by_message_type" else need.selector.value
        kind = "" if need.selector.type == "by_output_name" else f" [dim]{need.selector.type}[/]"
        extra = " [dim]from outside[/]" if need.external else "" if need.required else " [dim]optional[/]"
        out.say(f"    takes {sanitize(need.name)} ← {sanitize(value)}{kind}{extra}")
    for output in node.outputs:
        out.say(f"    makes {sanitize(output.name)}{_fate(output)}")
    for line in _done(node):
        out.say(f"    done: {line}")


def _fate(output: Made) -> str:
    to = f" → {', '.join(output.deliver_to)}" if output.deliver_to else ""
    notes = [*(["deliverable"] if output.deliverable else []), *(["optional"] if output.optional else [])]
    notes += [f"when {output.when}"] if output.when else []
    return to + (f" [dim]({sanitize(', '.join(notes))})[/]" if notes else "")


def _done(node: Node) -> list[str]:
    if node.promise:
        kinds = {check.id: check.kind for check in node.promise.checks}
        shown = {
            each.description: ", ".join(f"{name}: {kinds.get(name, 'handed in')}" for name in each.evidence_required)
            for each in node.promise.acceptance
        }
        return [sanitize(f"{text} ({how or 'a person decides'})") for text, how in shown.items()]
    names = [output.name for output in node.outputs if not output.when and not output.optional]
    derived = f"{', '.join(names)} stored as declared" if names else "a result that is not empty"
    return [sanitize(f"{derived}{' and a score' if node.score_required else ''} (derived)")]


def _tell_problems(out: CommandOutput, problems: tuple[Problem, ...], *, warning: bool = False) -> None:
    out.show_problems(problems[:SHOWN], warning=warning)
    if len(problems) > SHOWN:
        out.say(f"[dim]… and {len(problems) - SHOWN} more; --json has all[/]", err=True)


def _as_json(problems: tuple[Problem, ...]) -> list[dict[str, Any]]:
    return [
        {"code": str(each.code), "field": each.field, "message": each.message, "hint": each.hint} for each in problems
    ]


def _name(file: str) -> str:
    return "standard input" if file == "-" else sanitize(file)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
