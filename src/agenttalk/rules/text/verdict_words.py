"""What the engine says of work: why it is not done, what broke, what became of a dispute, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import MessageTemplate

ABORTED: Final = MessageTemplate(
    "aborted: {why}",
    "已中止：{why}",
)
NO_CRITERION: Final = MessageTemplate(
    "there is no acceptance criterion",
    "没有验收标准",
)
NOTHING_CHECKED: Final = MessageTemplate(
    "nothing was checked",
    "没有检查任何内容",
)
IS_NOT_THERE: Final = MessageTemplate(
    "is not there",
    "不存在",
)
EVIDENCE: Final = MessageTemplate(
    "{name!r} {why}",
    "{name} {why}",
)
FAILED_BECAUSE: Final = MessageTemplate(
    "failed ({why})",
    "未通过（{why}）",
)
FAILED: Final = MessageTemplate(
    "failed",
    "未通过",
)
STALE: Final = MessageTemplate(
    "is stale",
    "已过期",
)
LITTLE_TRUST: Final = MessageTemplate(
    "is only {trust:s}, and {least:s} is needed",
    "可信度只有 {trust}，需要 {least}",
)
NOT_SHOWN: Final = MessageTemplate(
    "criterion {name!r} is not shown: {whys}",
    "标准 {name} 未得到证明：{whys}",
)
UNKNOWN_CRITERION: Final = MessageTemplate(
    "there is no criterion {name!r}",
    "没有标准 {name}",
)
WHICH_EVIDENCE: Final = MessageTemplate(
    "evidence-present does not say which evidence",
    "evidence-present 没有说明是哪项证据",
)
NO_EVIDENCE: Final = MessageTemplate(
    "evidence {why}",
    "证据 {why}",
)
UNCONFIRMED: Final = MessageTemplate(
    "no person has confirmed it",
    "没有人确认",
)
WHICH_CHECKPOINT: Final = MessageTemplate(
    "gate-passed does not say which checkpoint",
    "gate-passed 没有说明是哪个检查点",
)
UNKNOWN_THRESHOLD: Final = MessageTemplate(
    "nobody knows the threshold {name!r}; one is named <task_id>{suffix}",
    "不认识阈值 {name}；阈值应命名为 <task_id>{suffix}",
)
NO_SCORE: Final = MessageTemplate(
    "{name!r} has no score, and at least {least} is needed",
    "{name} 没有分数，至少需要 {least}",
)
LOW_SCORE: Final = MessageTemplate(
    "{name!r} has the score {score}, and at least {least} is needed",
    "{name} 的分数是 {score}，至少需要 {least}",
)
NO_DOCUMENT: Final = MessageTemplate(
    "the document {name!r} is not there",
    "文档 {name} 不存在",
)
DRIFTED: Final = MessageTemplate(
    "it changed {paths}, which it may not",
    "修改了不允许修改的 {paths}",
)
NOT_TAKEN: Final = MessageTemplate(
    "what it left cannot be taken: {whys}",
    "无法接收它留下的内容：{whys}",
)
CONFLICT: Final = MessageTemplate(
    "it does not merge with what others did meanwhile: {conflict}",
    "与其他人同时所做的修改无法合并：{conflict}",
)
IDLE: Final = MessageTemplate(
    "the agent says that it is finished, and has changed nothing",
    "智能体说已经完成，但没有修改任何内容",
)
NO_TOOL: Final = MessageTemplate(
    "the agent says that it is finished, and has called no tool",
    "智能体说已经完成，但没有调用任何工具",
)
MISSING: Final = MessageTemplate(
    "{name:s} is missing",
    "缺少 {name}",
)
UNFIT: Final = MessageTemplate(
    "{agent:s} says that it is not fit for this: {why}",
    "{agent} 表示自己不能胜任：{why}",
)
OUTPUT_NOT_THERE: Final = MessageTemplate(
    "it is not there",
    "它不存在",
)
EMPTY: Final = MessageTemplate(
    "it is empty",
    "它是空的",
)
NOT_CHECKED: Final = MessageTemplate(
    "it could not be checked: {error}",
    "无法检查：{error}",
)
MISFITS: Final = MessageTemplate(
    "not of their media type: {names}",
    "与其媒体类型不符：{names}",
)
PRINTED: Final = MessageTemplate(
    "{check:s} printed: {text}",
    "{check} 的输出：{text}",
)
BROKE: Final = MessageTemplate(
    "what it merged broke the check {names}",
    "它合并的内容破坏了检查 {names}",
)
UNCHANGED: Final = MessageTemplate(
    "the same issues came back unchanged: {whys}",
    "同样的问题原样重现：{whys}",
)
LEFT_SCOPE: Final = MessageTemplate(
    "it changed what this task may not change: {paths}. None of that counts. "
    "Do the work without it: the task ends if it happens again",
    "修改了本任务不得修改的内容：{paths}。这些改动不算数。请不要改动它们：再次发生时任务将终止",
)
PUT_BACK: Final = MessageTemplate(
    "protected, and put back as it was: {paths}. Nothing that is done to it counts",
    "受保护，已恢复原状：{paths}。对它的任何改动都不算数",
)
LEFT_OUT: Final = MessageTemplate(
    "ignored by the repository, and left out although it was added to git: {paths}. "
    "Put what matters into files that are not ignored",
    "被仓库忽略，虽已加入 git 仍被排除：{paths}。请把有用的内容放到未被忽略的文件中",
)
RESTS_ON: Final = MessageTemplate(
    "its checks rest on what other tasks of the plan changed: {paths}",
    "其检查所依据的内容被计划中的其他任务修改过：{paths}",
)
SAID_FAILED: Final = MessageTemplate(
    "the agent said that it failed: {error}",
    "智能体声称自己失败：{error}",
)
AS_ASKED: Final = MessageTemplate(
    "it is as asked for",
    "符合要求",
)
NOT_ENOUGH: Final = MessageTemplate(
    "it is not good enough",
    "还不够好",
)
SCORES_LESS: Final = MessageTemplate(
    "{why} (it scores {score:g}, and {least:g} is asked for)",
    "{why}（得分 {score}，要求 {least}）",
)
FOUND_GOOD: Final = MessageTemplate(
    "{by} finds it good enough",
    "{by} 认为足够好",
)
FOUND_POOR: Final = MessageTemplate(
    "{by} does not find it good enough",
    "{by} 认为还不够好",
)
NO_GATE_RESULT: Final = MessageTemplate(
    "checkpoint {name!r} has no result",
    "检查点 {name} 没有结果",
)
GATE_DENIED: Final = MessageTemplate(
    "checkpoint {name!r} did not allow it",
    "检查点 {name} 没有放行",
)
NOT_DONE: Final = MessageTemplate(
    "not done",
    "没有完成",
)
CHECK_OF: Final = MessageTemplate(
    "{check:s} of {task:s}",
    "{task} 的 {check}",
)
BROKE_BY_ITSELF: Final = MessageTemplate(
    "the check {names} does not pass any more, and nothing was merged",
    "检查 {names} 不再通过，期间没有合并任何内容",
)
BROKEN_BY_COMMIT: Final = MessageTemplate(
    "the check {names} does not pass any more, since a commit of somebody else",
    "检查 {names} 自他人的一次提交起不再通过",
)
BROKEN_BY_MERGE: Final = MessageTemplate(
    "the check {names} does not pass any more, since the merge of {task:s}",
    "检查 {names} 自合并 {task} 起不再通过",
)
REGRESSION: Final = MessageTemplate(
    "{why}: {whys}",
    "{why}：{whys}",
)
CODED: Final = MessageTemplate(
    "{code:s}: {whys}",
    "{code}：{whys}",
)
DISPUTE_OPEN: Final = MessageTemplate(
    "You disputed the check {name!r}. Nobody has decided about that yet. The check is in force.",
    "你对检查 {name} 提出了异议。还没有人裁定，检查仍然有效。",
)
DISPUTE_DISMISSED: Final = MessageTemplate(
    "You disputed the check {name!r}. {by} looked at it and dismissed that{note}. "
    "The check stands: do what it asks for.",
    "你对检查 {name} 提出了异议。{by} 看过后驳回了异议{note}。检查不变：请按它的要求去做。",
)
DISPUTE_UPHELD: Final = MessageTemplate(
    "You disputed the check {name!r}. {by} agrees that it is wrong{note}. "
    "It is in force until the plan is changed; do the rest of the work.",
    "你对检查 {name} 提出了异议。{by} 同意检查有误{note}。在计划修改之前它仍然有效；请完成其余工作。",
)
