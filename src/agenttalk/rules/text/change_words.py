"""Sentences about changes that are held against their base, in English and Chinese."""

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

CHECK_BY_FILE: Final = Template(
    "change.check_by_file",
    "{path} belongs to {tool}",
    "{path} 属于 {tool}",
)
CHECK_BY_SCRIPT: Final = Template(
    "change.check_by_script",
    "{path} has a script {name!r}",
    "{path} 中有脚本 {name!r}",
)
CHECK_BY_TARGET: Final = Template(
    "change.check_by_target",
    "{path} has a target {name!r}",
    "{path} 中有目标 {name!r}",
)
CHECK_BY_STEP: Final = Template(
    "change.check_by_step",
    "a step of the workflow {path} runs it",
    "工作流 {path} 的一个步骤会运行它",
)
CHECK_NAMED: Final = Template(
    "change.check_named",
    "you named it",
    "由你指定",
)
