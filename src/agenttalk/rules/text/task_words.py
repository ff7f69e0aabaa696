"""Why a task waits, was stopped or moved, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

WAITS_FOR: Final = Template("task.waits_for", "waits for {names}", "等待 {names}")
WAITED_TOO_LONG: Final = Template(
    "task.waited_too_long",
    "has waited more than {seconds} seconds for {names}",
    "等待 {names} 已超过 {seconds} 秒",
)
DECIDED_BY: Final = Template("task.decided_by", "{decision} by {by}", "{by} 的决定：{decision}")
WANTS_PLAN: Final = Template(
    "task.wants_plan",
    "{by} wants another plan; 'agenttalk plan apply FILE' puts it in force",
    "{by} 要求另一个计划；'agenttalk plan apply FILE' 使其生效",
)
TO_DECIDE: Final = Template("task.to_decide", "{why}; a person has to decide", "{why}；需要有人裁定")
PLAN_NEEDED: Final = Template(
    "task.plan_needed",
    "{task} failed; a new plan is needed",
    "{task} 失败；需要新计划",
)
CANCELLED: Final = Template("task.cancelled", "cancelled by {by}", "由 {by} 取消")
CANCELLED_BECAUSE: Final = Template("task.cancelled_because", "cancelled by {by}: {why}", "由 {by} 取消：{why}")
ABORTED_BY: Final = Template("task.aborted_by", "{why} ({by} aborted)", "{why}（{by} 已中止）")
GATE_UNMET: Final = Template("task.gate_unmet", "the gate of {task} is not met: {why}", "{task} 未通过门槛：{why}")
ENDED_ENGINE: Final = Template(
    "task.ended_engine",
    "{task} ended the engine {count} times",
    "{task} 已 {count} 次使引擎停止",
)
TASK_FAILED: Final = Template("task.failed", "{task} failed", "{task} 失败")
NOT_CALLED_FOR: Final = Template("task.not_called_for", "no task called for it", "未被触发")
OTHER_VERSION: Final = Template(
    "task.other_version",
    "{task} made another version of its input",
    "{task} 产出了其输入的新版本",
)
REPLACED_INPUT: Final = Template(
    "task.replaced_input",
    "another version takes the place of its input",
    "其输入被另一版本取代",
)
NOT_IN_PLAN: Final = Template("task.not_in_plan", "the new plan has no such task", "新计划中没有该任务")
ACCEPTED_BY: Final = Template("task.accepted_by", "{by} accepted it as it is", "{by} 按现状接受")
OVERRIDDEN: Final = Template("task.overridden", "overridden: {why}", "已放行：{why}")
NOT_NEWEST: Final = Template(
    "task.not_newest",
    "the command is not the newest of its task",
    "该命令不是其任务的最新命令",
)
INTERRUPTED: Final = Template(
    "task.interrupted",
    "the turn before was interrupted; what it did is kept, and the next turn goes on from there",
    "上一轮被中断；已做的工作保留，下一轮从那里继续",
)
TAKEN: Final = Template("task.taken", "another worker has the task", "任务已由其他执行者领取")
INPUT_GONE: Final = Template("task.input_gone", "the input {name!r} is not there any more", "输入 {name!r} 已不存在")
OUTPUT_ABSENT: Final = Template("task.output_absent", "the output {name!r} is not there", "输出 {name!r} 不存在")
STILL_ALIVE: Final = Template(
    "task.still_alive",
    "processes of the turn are still alive",
    "本轮的进程仍在运行",
)
NOTHING_TO_CHECK: Final = Template(
    "task.nothing_to_check",
    "there is nothing that could be checked: {why}",
    "没有可以检查的内容：{why}",
)
