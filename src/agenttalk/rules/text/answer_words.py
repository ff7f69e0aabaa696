"""What is wrong with an agent's answer or outputs, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

EMPTY: Final = Template(
    "answer.empty",
    "the answer is empty",
    "回答是空的",
)
NO_JSON: Final = Template(
    "answer.no_json",
    "the answer is not JSON ({error}): {text}",
    "回答不是 JSON（{error}）：{text}",
)
NO_OBJECT: Final = Template(
    "answer.no_object",
    "the answer is not an object: {text}",
    "回答不是对象：{text}",
)
UNWRITABLE: Final = Template(
    "answer.unwritable",
    "the answer cannot be written down: {error}",
    "回答无法记录：{error}",
)
NO_RESULT: Final = Template(
    "answer.no_result",
    "`result` is not there, or no text, or an empty one",
    "`result` 不存在、不是文本或是空的",
)
NO_DECISION: Final = Template(
    "answer.no_decision",
    "`decision` is neither ACCEPT nor REJECT",
    "`decision` 既不是 ACCEPT 也不是 REJECT",
)
NO_OUTPUT: Final = Template(
    "answer.no_output",
    "an output is an object with a `name` and a `text`",
    "每个输出是带有 `name` 和 `text` 的对象",
)
NOT_ASKED_FOR: Final = Template(
    "answer.not_asked_for",
    "the output {name!r} was not requested; requested: {names}",
    "没有要求输出 {name!r}；要求的是：{names}",
)
TWICE: Final = Template(
    "answer.twice",
    "the output {name!r} is given twice",
    "输出 {name!r} 给了两次",
)
OUTPUTS_EMPTY: Final = Template(
    "answer.outputs_empty",
    "required but missing or empty: {names}",
    "要求但不存在或为空的输出：{names}",
)
RESULT_UNREADABLE: Final = Template(
    "answer.result_unreadable",
    "the result file cannot be read: {error}",
    "无法读取结果文件：{error}",
)
RESULT_NO_OBJECT: Final = Template(
    "answer.result_no_object",
    "the result file does not contain an object",
    "结果文件中不是一个对象",
)
NO_SCORE: Final = Template(
    "answer.no_score",
    "a score from 0 to 100 is required, but none was given",
    "要求给出 0 到 100 的分数，但没有给出",
)
BAD_SCORE: Final = Template(
    "answer.bad_score",
    "a score is a number from 0 to 100, not {score}",
    "分数应是 0 到 100 之间的数字，而不是 {score}",
)
OUTPUTS_MISSING: Final = Template(
    "answer.outputs_missing",
    "declared but missing: {names}",
    "已声明但不存在的输出：{names}",
)
AGENT_FAILED: Final = Template(
    "answer.agent_failed",
    "the agent failed: {error}",
    "智能体失败：{error}",
)
NOT_PERMITTED: Final = Template(
    "answer.not_permitted",
    "not permitted to the agent: {asked} (do without it, or {permit})",
    "不允许该智能体执行：{asked}（请不要这样做，或 {permit}）",
)
SILENT: Final = Template(
    "answer.silent",
    "the agent ended without any output or action",
    "智能体结束时没有说任何话，也没有做任何事",
)
OUTPUT_NOT_PUT: Final = Template(
    "answer.output_not_put",
    "the output {name!r} is not there; put it into {folder}",
    "输出 {name!r} 不存在；请放到 {folder}",
)
CHECK_FAILS: Final = Template(
    "answer.check_fails",
    "the check {name!r} does not pass: {why}",
    "检查 {name!r} 未通过：{why}",
)
TOOK_LONGER: Final = Template(
    "answer.took_longer",
    "'{command}' took longer than {seconds:g} seconds",
    "'{command}' 的运行时间超过 {seconds:g} 秒",
)
CANNOT_RUN: Final = Template(
    "answer.cannot_run",
    "'{command}' cannot be run: {error}",
    "'{command}' 无法运行：{error}",
)
FILE_NOT_THERE: Final = Template(
    "answer.file_not_there",
    "{path} is not there",
    "{path} 不存在",
)
FILE_HOLDS_NOT: Final = Template(
    "answer.file_holds_not",
    "{path} does not contain {text!r}",
    "{path} 不包含 {text!r}",
)
FILE_TOO_SMALL: Final = Template(
    "answer.file_too_small",
    "{path} is too small",
    "{path} 太小",
)
FILE_NO_JSON: Final = Template(
    "answer.file_no_json",
    "{path} is not JSON: {error}",
    "{path} 不是 JSON：{error}",
)
NO_END: Final = Template(
    "answer.no_end",
    "the agent ended without saying how its work ended",
    "智能体结束时没有说明工作结果如何",
)
NO_END_BUT: Final = Template(
    "answer.no_end_but",
    "the agent ended without saying how its work ended; its last output was: {text}",
    "智能体结束时没有说明工作结果如何；它最后说的是：{text}",
)
NO_REASON: Final = Template(
    "answer.no_reason",
    "it does not say why",
    "没有说明原因",
)
FITNESS: Final = Template(
    "answer.fitness",
    "{why} ({score:g} of 100)",
    "{why}（{score:g} 分，满分 100）",
)
COMMAND_ENDED: Final = Template(
    "answer.command_ended",
    "'{command}' ended with {code}",
    "'{command}' 以退出码 {code} 结束",
)
COMMAND_ENDED_SAYING: Final = Template(
    "answer.command_ended_saying",
    "'{command}' ended with {code}:\n{text}",
    "'{command}' 以退出码 {code} 结束：\n{text}",
)
STILL_MISSING: Final = Template(
    "answer.still_missing",
    "This is still missing:",
    "以下内容仍然缺失：",
)
CUT_OFF: Final = Template(
    "answer.cut_off",
    "the answer was cut off at {limit} tokens",
    "回答在 {limit} 个 token 处被截断",
)
