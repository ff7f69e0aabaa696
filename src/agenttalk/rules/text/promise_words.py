"""The promise of a task that has none of its own, in English and Chinese."""
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
