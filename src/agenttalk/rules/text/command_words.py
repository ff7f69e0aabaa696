"""Texts of commands and promises that have none of their own, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

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
