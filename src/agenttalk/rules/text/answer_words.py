"""What agents are told of what they answered and left, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import MessageTemplate

EMPTY: Final = MessageTemplate(
    "the answer is empty",
    "回答是空的",
)
NO_JSON: Final = MessageTemplate(
    "the answer is no JSON ({error}): {text}",
    "回答不是 JSON（{error}）：{text}",
)
NO_OBJECT: Final = MessageTemplate(
    "the answer is no object: {text}",
    "回答不是对象：{text}",
)
UNWRITABLE: Final = MessageTemplate(
    "the answer cannot be written down: {error}",
    "回答无法记录：{error}",
)
NO_RESULT: Final = MessageTemplate(
    "`result` is not there, or no text, or an empty one",
    "`result` 不存在、不是文本或是空的",
)
NO_DECISION: Final = MessageTemplate(
    "`decision` is neither ACCEPT nor REJECT",
    "`decision` 既不是 ACCEPT 也不是 REJECT",
)
NO_OUTPUT: Final = MessageTemplate(
    "an output is an object with a `name` and a `text`",
    "每个输出是带有 `name` 和 `text` 的对象",
)
NOT_ASKED_FOR: Final = MessageTemplate(
    "nobody asked for an output {name!r}; asked for: {names}",
    "没有要求输出 {name}；要求的是：{names}",
)
TWICE: Final = MessageTemplate(
    "the output {name!r} is given twice",
    "输出 {name} 给了两次",
)
OUTPUTS_EMPTY: Final = MessageTemplate(
    "asked for and not there, or empty: {names}",
    "要求但不存在或为空的输出：{names}",
)
RESULT_UNREADABLE: Final = MessageTemplate(
    "the result file cannot be read: {error}",
    "无法读取结果文件：{error}",
)
RESULT_NO_OBJECT: Final = MessageTemplate(
    "the result file does not hold an object",
    "结果文件中不是一个对象",
)
NO_SCORE: Final = MessageTemplate(
    "a score from 0 to 100 was asked for and none was given",
    "要求给出 0 到 100 的分数，但没有给出",
)
BAD_SCORE: Final = MessageTemplate(
    "a score is a number from 0 to 100, not {score}",
    "分数应是 0 到 100 之间的数字，而不是 {score}",
)
OUTPUTS_MISSING: Final = MessageTemplate(
    "declared and not there: {names}",
    "已声明但不存在的输出：{names}",
)
AGENT_FAILED: Final = MessageTemplate(
    "the agent failed: {error}",
    "智能体失败：{error}",
)
NOT_PERMITTED: Final = MessageTemplate(
    "not permitted to the agent: {asked} (do without it, or {permit})",
    "不允许该智能体执行：{asked}（请不要这样做，或 {permit}）",
)
SILENT: Final = MessageTemplate(
    "the agent ended without having said or done anything",
    "智能体结束时没有说任何话，也没有做任何事",
)
OUTPUT_NOT_PUT: Final = MessageTemplate(
    "the output {name!r} is not there; put it into {folder}",
    "输出 {name} 不存在；请放到 {folder}",
)
CHECK_FAILS: Final = MessageTemplate(
    "the check {name!r} does not pass: {why}",
    "检查 {name} 未通过：{why}",
)
TOOK_LONGER: Final = MessageTemplate(
    "'{command}' took longer than {seconds:g} seconds",
    "'{command}' 的运行时间超过 {seconds} 秒",
)
CANNOT_RUN: Final = MessageTemplate(
    "'{command}' cannot be run: {error}",
    "'{command}' 无法运行：{error}",
)
FILE_NOT_THERE: Final = MessageTemplate(
    "{path} is not there",
    "{path} 不存在",
)
FILE_HOLDS_NOT: Final = MessageTemplate(
    "{path} does not hold {text!r}",
    "{path} 不包含 {text}",
)
FILE_TOO_SMALL: Final = MessageTemplate(
    "{path} is too small",
    "{path} 太小",
)
FILE_NO_JSON: Final = MessageTemplate(
    "{path} is no JSON: {error}",
    "{path} 不是 JSON：{error}",
)
NO_END: Final = MessageTemplate(
    "the agent ended without saying how its work ended",
    "智能体结束时没有说明工作结果如何",
)
NO_END_BUT: Final = MessageTemplate(
    "the agent ended without saying how its work ended; the last that it told was: {text}",
    "智能体结束时没有说明工作结果如何；它最后说的是：{text}",
)
NO_REASON: Final = MessageTemplate(
    "it does not say why",
    "没有说明原因",
)
FITNESS: Final = MessageTemplate(
    "{why} ({score:g} of 100)",
    "{why}（{score} 分，满分 100）",
)
COMMAND_ENDED: Final = MessageTemplate(
    "'{command}' ended with {code:d}",
    "'{command}' 以退出码 {code} 结束",
)
COMMAND_ENDED_SAYING: Final = MessageTemplate(
    "'{command}' ended with {code:d}:\n{text}",
    "'{command}' 以退出码 {code} 结束：\n{text}",
)
STILL_MISSING: Final = MessageTemplate(
    "This is still missing:",
    "以下内容仍然缺失：",
)
CUT_OFF: Final = MessageTemplate(
    "the answer was cut off at {limit} tokens",
    "回答在 {limit} 个 token 处被截断",
)
