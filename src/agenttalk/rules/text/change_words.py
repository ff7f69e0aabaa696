"""Sentences about changes that are held against their base, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

PLAN_CHECK_FOUND: Final = Template(
    "change.plan_check_found",
    "Found: {why}. Before the check runs, protected files are put back as they were.",
    "依据：{why}。检查运行之前，受保护的文件会恢复原状。",
)
PLAN_CHECK_OTHERS: Final = Template("change.plan_check_others", "Also found: {commands}", "还找到：{commands}")
PLAN_CHECK_NAMELESS: Final = Template(
    "change.plan_check_nameless",
    "No command that checks this repository was found, so a person is asked. Name one instead, such as:",
    "没有找到检查本仓库的命令，因此由人来判断。也可以写明一个命令，例如：",
)
PLAN_PROMPT: Final = Template("change.plan_prompt", "Make this check pass: {run}", "使这项检查通过：{run}")
PLAN_PROMPT_NAMELESS: Final = Template(
    "change.plan_prompt_nameless",
    "Write tests for the most important behaviour of this repository, and say how they are run.",
    "为本仓库最重要的行为编写测试，并说明如何运行。",
)
PLAN_QUESTION: Final = Template(
    "change.plan_question",
    "Is the task of the prompt done? 'agenttalk diff {plan}/task' shows what was changed.",
    "提示中的任务完成了吗？用 agenttalk diff {plan}/task 查看改动。",
)
PLAN_AGENT: Final = Template(
    "change.plan_agent",
    "A coding agent that is installed here; 'agenttalk agent list' shows the others.",
    "本机已安装的编程智能体；用 agenttalk agent list 查看其他的。",
)
PLAN_AGENT_MISSING: Final = Template(
    "change.plan_agent_missing",
    "No coding agent was found here; 'agenttalk agent list' says how to install one.",
    "没有找到编程智能体；用 agenttalk agent list 查看如何安装。",
)
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
