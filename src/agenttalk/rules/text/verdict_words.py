"""Why work is not done, what broke, and the state of a dispute, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template, make_table

ABORTED: Final = Template(
    "verdict.aborted",
    "aborted: {why}",
    "已中止：{why}",
)
NO_CRITERION: Final = Template(
    "verdict.no_criterion",
    "there is no acceptance criterion",
    "没有验收标准",
)
NOTHING_CHECKED: Final = Template(
    "verdict.nothing_checked",
    "nothing was checked",
    "没有检查任何内容",
)
IS_NOT_THERE: Final = Template(
    "verdict.is_not_there",
    "is not there",
    "不存在",
)
EVIDENCE: Final = Template(
    "verdict.evidence",
    "{name!r} {why}",
    "{name!r} {why}",
)
FAILED_BECAUSE: Final = Template(
    "verdict.failed_because",
    "failed ({why})",
    "未通过（{why}）",
)
FAILED: Final = Template(
    "verdict.failed",
    "failed",
    "未通过",
)
STALE: Final = Template(
    "verdict.stale",
    "is stale",
    "已过期",
)
LITTLE_TRUST: Final = Template(
    "verdict.little_trust",
    "is only {trust}; {least} is required",
    "可信度只有 {trust}，需要 {least}",
)
NOT_SHOWN: Final = Template(
    "verdict.not_shown",
    "criterion {name!r} is not shown: {whys}",
    "标准 {name!r} 未得到证明：{whys}",
)
UNKNOWN_CRITERION: Final = Template(
    "verdict.unknown_criterion",
    "there is no criterion {name!r}",
    "没有标准 {name!r}",
)
WHICH_EVIDENCE: Final = Template(
    "verdict.which_evidence",
    "evidence-present does not say which evidence",
    "evidence-present 没有说明是哪项证据",
)
NO_EVIDENCE: Final = Template(
    "verdict.no_evidence",
    "evidence {why}",
    "证据 {why}",
)
UNCONFIRMED: Final = Template(
    "verdict.unconfirmed",
    "no person has confirmed it",
    "没有人确认",
)
WHICH_CHECKPOINT: Final = Template(
    "verdict.which_checkpoint",
    "gate-passed does not say which checkpoint",
    "gate-passed 没有说明是哪个检查点",
)
UNKNOWN_THRESHOLD: Final = Template(
    "verdict.unknown_threshold",
    "the threshold {name!r} is unknown; a threshold is named <task_id>{suffix}",
    "不认识阈值 {name!r}；阈值应命名为 <task_id>{suffix}",
)
NO_SCORE: Final = Template(
    "verdict.no_score",
    "{name!r} has no score; at least {least} is required",
    "{name!r} 没有分数，至少需要 {least}",
)
LOW_SCORE: Final = Template(
    "verdict.low_score",
    "{name!r} has the score {score}; at least {least} is required",
    "{name!r} 的分数是 {score}，至少需要 {least}",
)
NO_DOCUMENT: Final = Template(
    "verdict.no_document",
    "the document {name!r} is not there",
    "文档 {name!r} 不存在",
)
DRIFTED: Final = Template(
    "verdict.drifted",
    "it changed {paths}, which its scope does not allow",
    "修改了不允许修改的 {paths}",
)
NOT_TAKEN: Final = Template(
    "verdict.not_taken",
    "its changes cannot be accepted: {whys}",
    "无法接收它留下的内容：{whys}",
)
CONFLICT: Final = Template(
    "verdict.conflict",
    "it conflicts with work that was merged meanwhile: {conflict}",
    "与其他人同时所做的修改无法合并：{conflict}",
)
IDLE: Final = Template(
    "verdict.idle",
    "the agent says that it is finished, but it changed nothing",
    "智能体说已经完成，但没有修改任何内容",
)
NO_TOOL: Final = Template(
    "verdict.no_tool",
    "the agent says that it is finished, but it called no tool",
    "智能体说已经完成，但没有调用任何工具",
)
MISSING: Final = Template(
    "verdict.missing",
    "{name} is missing",
    "缺少 {name}",
)
UNFIT: Final = Template(
    "verdict.unfit",
    "{agent} says that it is not fit for this: {why}",
    "{agent} 表示自己不能胜任：{why}",
)
OUTPUT_NOT_THERE: Final = Template(
    "verdict.output_not_there",
    "it is not there",
    "它不存在",
)
EMPTY: Final = Template(
    "verdict.empty",
    "it is empty",
    "它是空的",
)
NOT_CHECKED: Final = Template(
    "verdict.not_checked",
    "it could not be checked: {error}",
    "无法检查：{error}",
)
MISFITS: Final = Template(
    "verdict.misfits",
    "not of their media type: {names}",
    "与其媒体类型不符：{names}",
)
PRINTED: Final = Template(
    "verdict.printed",
    "{check} printed: {text}",
    "{check} 的输出：{text}",
)
BROKE: Final = Template(
    "verdict.broke",
    "what it merged broke the check {names}",
    "它合并的内容破坏了检查 {names}",
)
UNCHANGED: Final = Template(
    "verdict.unchanged",
    "the same issues came back unchanged: {whys}",
    "同样的问题原样重现：{whys}",
)
LEFT_SCOPE: Final = Template(
    "verdict.left_scope",
    "it changed what this task may not change: {paths}. None of that counts. "
    "Do the work without it: the task ends if it happens again",
    "修改了本任务不得修改的内容：{paths}。这些改动不算数。请不要改动它们：再次发生时任务将终止",
)
PUT_BACK: Final = Template(
    "verdict.put_back",
    "protected, and put back as it was: {paths}. Changes to it do not count",
    "受保护，已恢复原状：{paths}。对它的任何改动都不算数",
)
LEFT_OUT: Final = Template(
    "verdict.left_out",
    "ignored by the repository, and left out although it was added to git: {paths}. "
    "Put what matters into files that are not ignored",
    "被仓库忽略，虽已加入 git 仍被排除：{paths}。请把有用的内容放到未被忽略的文件中",
)
RESTS_ON: Final = Template(
    "verdict.rests_on",
    "its checks rest on what other tasks of the plan changed: {paths}",
    "其检查所依据的内容被计划中的其他任务修改过：{paths}",
)
SAID_FAILED: Final = Template(
    "verdict.said_failed",
    "the agent said that it failed: {error}",
    "智能体声称自己失败：{error}",
)
AS_ASKED: Final = Template(
    "verdict.as_asked",
    "it is as asked for",
    "符合要求",
)
NOT_ENOUGH: Final = Template(
    "verdict.not_enough",
    "it is not good enough",
    "还不够好",
)
SCORES_LESS: Final = Template(
    "verdict.scores_less",
    "{why} (score {score:g}; at least {least:g} is required)",
    "{why}（得分 {score:g}，要求 {least:g}）",
)
FOUND_GOOD: Final = Template(
    "verdict.found_good",
    "{by} finds it good enough",
    "{by} 认为足够好",
)
FOUND_POOR: Final = Template(
    "verdict.found_poor",
    "{by} does not find it good enough",
    "{by} 认为还不够好",
)
NO_GATE_RESULT: Final = Template(
    "verdict.no_gate_result",
    "checkpoint {name!r} has no result",
    "检查点 {name!r} 没有结果",
)
GATE_DENIED: Final = Template(
    "verdict.gate_denied",
    "checkpoint {name!r} did not allow it",
    "检查点 {name!r} 没有放行",
)
INPUTS_REFUSED: Final = Template(
    "verdict.inputs_refused",
    "the inputs are not good enough: {whys}",
    "输入不够好：{whys}",
)
DAY_STOPPED: Final = Template(
    "verdict.day_stopped",
    "the day's limit stopped it {count} times in a row: {why}",
    "当日限额已连续 {count} 次中止它：{why}",
)
LIMITED_TOO_OFTEN: Final = Template(
    "verdict.limited_too_often",
    "limits of its provider stopped it {count} times in a row, so this one counts as a failure: {why}",
    "服务方的限制已连续 {count} 次中止它，因此本次算作失败：{why}",
)
REFUSED_UNCHANGED: Final = Template(
    "verdict.refused_unchanged",
    "{by} refuses it, and the same issues came back unchanged: {why}",
    "{by} 拒绝了它，且同样的问题原样重现：{why}",
)
REFUSED_LAST: Final = Template(
    "verdict.refused_last",
    "{by} refuses it, and all rounds of rework are used up: {why}",
    "{by} 拒绝了它，且返工次数已用尽：{why}",
)
NOT_DONE: Final = Template(
    "verdict.not_done",
    "not done",
    "没有完成",
)
CHECK_OF: Final = Template(
    "verdict.check_of",
    "{check} of {task}",
    "{task} 的 {check}",
)
BROKE_BY_ITSELF: Final = Template(
    "verdict.broke_by_itself",
    "the check {names} no longer passes, and nothing was merged",
    "检查 {names} 不再通过，期间没有合并任何内容",
)
BROKEN_BY_COMMIT: Final = Template(
    "verdict.broken_by_commit",
    "the check {names} no longer passes, since a commit that no task made",
    "检查 {names} 自他人的一次提交起不再通过",
)
BROKEN_BY_MERGE: Final = Template(
    "verdict.broken_by_merge",
    "the check {names} no longer passes, since the merge of {task}",
    "检查 {names} 自合并 {task} 起不再通过",
)
REGRESSION: Final = Template(
    "verdict.regression",
    "{why}: {whys}",
    "{why}：{whys}",
)
DISPUTE_OPEN: Final = Template(
    "verdict.dispute_open",
    "You disputed the check {name!r}. No person has decided about that yet. The check is in force.",
    "你对检查 {name!r} 提出了异议。还没有人裁定，检查仍然有效。",
)
DISPUTE_DISMISSED: Final = Template(
    "verdict.dispute_dismissed",
    "You disputed the check {name!r}. {by} examined it and dismissed that{note}. "
    "The check stands: do what it asks for.",
    "你对检查 {name!r} 提出了异议。{by} 看过后驳回了异议{note}。检查不变：请按它的要求去做。",
)
DISPUTE_UPHELD: Final = Template(
    "verdict.dispute_upheld",
    "You disputed the check {name!r}. {by} agrees that it is wrong{note}. "
    "It is in force until the plan is changed; do the rest of the work.",
    "你对检查 {name!r} 提出了异议。{by} 同意检查有误{note}。在计划修改之前它仍然有效；请完成其余工作。",
)
RELEASE: Final = make_table(
    "release",
    {
        "absent": ("deliverable {name!r} is not there: {why}", "交付物 {name!r} 不存在：{why}"),
        "task_is": ("task {task} is {state}", "任务 {task} 的状态是 {state}"),
        "no_maker": ("no task makes it", "没有任务产出它"),
        "stale": (
            "deliverable {name!r} is stale: what shows that task {task} is done has changed",
            "交付物 {name!r} 已过时：证明任务 {task} 完成的内容有变",
        ),
        "refused": ("deliverable {name!r} was refused by {who}", "交付物 {name!r} 被 {who} 拒绝"),
        "own_maker": (
            "deliverable {name!r} was made by {who}, who would have to accept it",
            "交付物 {name!r} 由 {who} 产出，而须由 {who} 接受",
        ),
        "not_accepted": ("deliverable {name!r} is not accepted by {who}", "交付物 {name!r} 尚未被 {who} 接受"),
        "nothing": ("nothing is shipped", "没有要发布的内容"),
        "gate_unknown": ("gate {gate!r}: nothing says who decides it", "关卡 {gate!r}：没有说明由谁决定"),
        "gate_open": ("gate {gate!r} has no result", "关卡 {gate!r} 没有结果"),
        "gate_doubt": ("gate {gate!r}: {why}", "关卡 {gate!r}：{why}"),
        "not_by": (
            "a result of {by} does not count, because {who} decides",
            "{by} 的结果不算数，因为由 {who} 决定",
        ),
        "engine_check": ("a check of the engine's own", "引擎自己的检查"),
        "own_judge": ("{by} made {name!r} and cannot judge it", "{name!r} 由 {by} 产出，{by} 不能评判它"),
        "gate_no_result": ("gate {gate!r} has no result for {what}", "关卡 {gate!r} 没有关于 {what} 的结果"),
        "gate_elsewhere": (
            "gate {gate!r} has no result for {what}; it is about something else",
            "关卡 {gate!r} 没有关于 {what} 的结果；其结果针对的是别的内容",
        ),
        "gate_says": ("gate {gate!r} says {decision} to {what}", "关卡 {gate!r} 对 {what} 的决定是 {decision}"),
        "gate_stale": (
            "gate {gate!r} is stale: something was merged after it examined {what}",
            "关卡 {gate!r} 已过时：在它检查 {what} 之后又有合并",
        ),
        "unreadable": ("{output} of {by} cannot be read: {why}", "{by} 的 {output} 无法读取：{why}"),
        "other_gate": (
            "{output} of {by} says that it is for the gate {gate!r}",
            "{by} 的 {output} 说它针对关卡 {gate!r}",
        ),
        "other_maker": ("{output} of {by} says that {who} made it", "{by} 的 {output} 说它由 {who} 做出"),
        "gone": ("{output} of {by} is gone: {why}", "{by} 的 {output} 已不存在：{why}"),
        "no_checks": ("checks are not supported here", "此处不支持检查"),
        "late": ("the gates took more than {seconds} seconds", "关卡用时超过 {seconds} 秒"),
        "not_checked": ("the gates could not be checked: {why}", "无法检查关卡：{why}"),
        "revoked": ("revoked: {why}", "已撤销：{why}"),
        "done_again": ("{by} has {task} done again", "{by} 要求重做 {task}"),
        "rejected": ("{release} is rejected", "{release} 被否决"),
        "unproven": ("what was proven no longer holds: {checks}", "曾被证明的内容已不成立：{checks}"),
    },
)
"""Why a plan's results are not released, or no longer are."""
