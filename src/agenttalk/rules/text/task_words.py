"""What a task promises and what its command says by default; why it waits, was stopped or moved: in both languages."""
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
NOT_CALLED_FOR: Final = Template("task.not_called_for", "no task activated it", "未被触发")
OTHER_VERSION: Final = Template(
    "task.other_version",
    "{task} made another version of its input",
    "{task} 产出了其输入的新版本",
)
REPLACED_INPUT: Final = Template(
    "task.replaced_input",
    "a newer version replaced its input",
    "其输入被另一版本取代",
)
NOT_IN_PLAN: Final = Template("task.not_in_plan", "the new plan has no such task", "新计划中没有该任务")
MACHINE_FINDS_NOTHING: Final = Template(
    "task.machine_finds_nothing", "a machine finds nothing wrong with it", "机器检查未发现问题"
)
RESTS_ON_REFUSED: Final = Template(
    "task.rests_on_refused", "it rests on what {task} made, which was refused", "它依赖 {task} 的产出，而该产出被拒绝"
)
RACE_WON: Final = Template("task.race_won", "{task} was proven first", "{task} 先通过了证明")
RACE_LEFT: Final = Template(
    "task.race_left", "out of the race, and others go on: {why}", "退出竞赛，其他智能体继续：{why}"
)
SKIPPED_BY: Final = Template("task.skipped_by", "skipped by {by}", "由 {by} 跳过")
TRIED_AGAIN: Final = Template("task.tried_again", "tried again by {by}", "由 {by} 重试")
REVISED: Final = Template("task.revised", "revision {number} of the plan is in force", "计划的第 {number} 版已生效")
STOPPED_BY: Final = Template("task.stopped_by", "stopped by {by}", "由 {by} 停止")
NOTHING_CAME: Final = Template(
    "task.nothing_came", "nothing came within {seconds} seconds", "{seconds} 秒内没有收到任何东西"
)
UNDONE: Final = Template("task.undone", "it was not done", "没有完成")
NAME_MISSING: Final = Template("task.name_missing", "{name} is missing", "缺少 {name}")
NO_ANSWER: Final = Template(
    "task.no_answer",
    "{agent} did not answer before the deadline, {deadline}",
    "{agent} 在截止时间 {deadline} 之前没有回答",
)
REVIEW_OVER: Final = Template("task.review_over", "the review is over", "评审已结束")
DAG_REFUSED: Final = Template("task.dag_refused", "its DAG was not approved", "其 DAG 未获批准")
NO_ENGINE: Final = Template(
    "schedule.no_engine", "{slot}: no engine ran when it was due", "{slot}：到期时没有引擎在运行"
)
NOT_ENDED: Final = Template("schedule.not_ended", "{slot}: {plan} has not ended yet", "{slot}：{plan} 尚未结束")
WRONG_PLAN: Final = Template("schedule.wrong_plan", "its plan is wrong: {field}: {what}", "其计划有误：{field}：{what}")
CANNOT_BEGIN: Final = Template("schedule.cannot_begin", "{what}", "其计划无法开始：{what}")
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
    "上一次执行被中断；已做的工作保留，下一次执行从那里继续",
)
TAKEN: Final = Template("task.taken", "another worker has the task", "任务已由其他执行者领取")
INPUT_GONE: Final = Template("task.input_gone", "the input {name!r} is not there any more", "输入 {name!r} 已不存在")
OUTPUT_ABSENT: Final = Template("task.output_absent", "the output {name!r} is not there", "输出 {name!r} 不存在")
STILL_ALIVE: Final = Template(
    "task.still_alive",
    "processes of the turn are still alive",
    "该次执行的进程仍在运行",
)
NOTHING_TO_CHECK: Final = Template(
    "task.nothing_to_check",
    "there is nothing that could be checked: {why}",
    "没有可以检查的内容：{why}",
)
TASK_DONE: Final = Template("promise.task_done", "Task {task} is done", "任务 {task} 完成")
NAMED_TASK_DONE: Final = Template("promise.named_task_done", "Task {task} is done: {name}", "任务 {task} 完成：{name}")
OUTPUT: Final = Template("promise.output", "The output {name} is there as declared", "产出 {name} 已按声明提供")
RESULT: Final = Template("promise.result", "The result is not empty", "结果不为空")
SCORE: Final = Template("promise.score", "The score is a number from 0 to 100", "得分为 0 到 100 的数")
GATES: Final = Template("promise.gates", "The gates of the task are met", "任务的门槛已满足")
RUBRIC: Final = Template(
    "command.rubric",
    "Score from 0 to 100 by completeness, clarity and testability: 90-100 nothing is missing and every point can be "
    "tested; 70-89 small gaps; 50-69 clear gaps; 0-49 cannot be used as it is.",
    "按完整性、清晰度和可测试性打分，范围 0-100："
    "90-100 没有遗漏且每一点都可测试；70-89 有小缺口；50-69 有明显缺口；0-49 无法直接使用。",
)
COMPLETED: Final = Template("command.completed", "Completed: {{result}}", "已完成：{{result}}")
"""A notice of a command. It has places of its own, which the engine fills in when the command ends."""
COMPLETED_WITH_SCORE: Final = Template(
    "command.completed_with_score",
    "Completed with score {{score}}: {{result}}",
    "已完成，得分 {{score}}：{{result}}",
)
FAILED: Final = Template("command.failed", "Failed: {{error}}", "执行失败：{{error}}")
