"""What the engine says in codes and fixed sentences, as people say it, in English and Chinese.

Texts of agents and of people are shown as they are; these come from tables that are known beforehand.
"""

from __future__ import annotations

import re
from functools import cache
from string import Formatter
from typing import Final, Literal

from agenttalk.doors.pages.words import LANGUAGES, Language
from agenttalk.rules.text.render import translate

_LONGEST: Final = 1_000
"""Characters of a sentence that is looked for."""
Group = Literal["state", "phase", "cause", "trust", "asked", "severity", "decision", "health", "delivery", "by"]

CODES: Final[dict[Group, dict[str, tuple[str, str]]]] = {
    "state": {
        "PENDING": ("waits for others", "等待前置任务"),
        "READY": ("ready to begin", "可以开始"),
        "RUNNING": ("under way", "进行中"),
        "BLOCKED_WAITING_INPUT": ("waits for inputs", "等待输入"),
        "BLOCKED_WAITING_REVIEW": ("waits for a decision", "等待裁定"),
        "BLOCKED_WAITING_HUMAN": ("waits for a person", "等待人工处理"),
        "COMPLETED": ("completed", "已完成"),
        "FAILED": ("failed", "失败"),
        "SKIPPED": ("skipped", "已跳过"),
    },
    "phase": {
        "validating": ("judging its inputs", "正在评判输入"),
        "executing": ("at work", "执行中"),
        "asking": ("asks a person", "等待人工答复"),
        "awaiting": ("waits for the forge", "等待代码平台"),
        "offered": ("offered to its agent", "待智能体领取"),
        "elsewhere": ("done elsewhere", "在别处执行"),
        "verifying": ("being verified", "验证中"),
    },
    "cause": {
        "INPUTS_PICKED": ("its inputs are there", "输入已就绪"),
        "INPUTS_MISSING": ("inputs are missing", "缺少输入"),
        "INPUTS_AMBIGUOUS": ("several inputs would fit", "有多个输入符合"),
        "INPUTS_LOST": ("an input is gone", "输入已不存在"),
        "DEPENDENCY_SKIP": ("something before it failed", "前置任务失败，跳过"),
        "DEPENDENCY_BLOCK": ("something before it failed: somebody decides", "前置任务失败，等待裁定"),
        "DEPENDENCY_REPLAN": ("something before it failed: another plan is needed", "前置任务失败，需要新计划"),
        "DEPENDENCY_RETRIED": ("what failed before it is tried again", "前置任务正在重试"),
        "BRANCH_NOT_TAKEN": ("nothing called for it", "未被触发"),
        "LEASED": ("its agent took it", "智能体已领取"),
        "SUPERSEDED": ("a newer command took its place", "被更新的命令取代"),
        "SOFT_DENIED": ("held up by a checkpoint", "被检查点拦下"),
        "FULFILLED": ("promise fulfilled", "承诺已兑现"),
        "GATE_UNMET": ("its gate is not met", "未通过门槛"),
        "NOT_FULFILLED": ("not good enough, sent back", "未达要求，退回"),
        "REWORK_EXHAUSTED": ("not good enough, no round left", "未达要求，返工次数用尽"),
        "RETRY": ("went wrong, tried again", "出错，重试"),
        "FAILED_FOR_GOOD": ("went wrong too often", "多次出错"),
        "ABORTED": ("stopped", "已中止"),
        "DAY_SPENT": ("stopped by the day's limit; it goes on another day", "因当日限额中止，改日继续"),
        "ENGINE_ENDED": ("the engine ended meanwhile", "引擎中途停止"),
        "ENGINE_ENDED_TOO_OFTEN": ("the engine ended over it too often", "引擎多次因此停止"),
        "MOOT": ("not needed any more", "已无需处理"),
        "NEEDS_PERSON": ("needs a person", "需要人工处理"),
        "INPUT_REJECTED": ("it refused what it was given", "拒绝了输入"),
        "INPUT_ARRIVED": ("what it waited for is there", "等待的输入已到"),
        "DECIDED": ("somebody decided", "已裁定"),
        "ANSWERED": ("somebody answered", "已答复"),
        "GIVEN_UP": ("somebody said no", "已被放弃"),
        "WAIT_TIMEOUT": ("waited too long", "等待超时"),
        "STALE": ("what it rests on has changed", "依据已变化"),
        "REWORK": ("refused by who uses it", "被使用者退回"),
        "REGRESSION": ("it broke the check of another", "破坏了其他任务的检查"),
        "CONFLICT": ("conflicts with the plan's branch", "与计划分支冲突"),
        "CANCELLED": ("called off", "已取消"),
        "REMOVED": ("not in the plan any more", "已从计划中移除"),
        "ACCEPTED": ("accepted as it is by a person", "由人按现状接受"),
        "OPERATOR_RETRY": ("an operator has it tried again", "操作员要求重试"),
        "RUN_AGAIN": ("an operator has it begin anew", "操作员要求重新开始"),
        "CHANGED": ("the plan says something else of it", "计划已修改"),
    },
    "trust": {
        "claimed": ("claimed", "声明"),
        "attested": ("attested", "担保"),
        "observed": ("observed", "观察"),
        "executed": ("executed", "执行"),
        "confirmed": ("confirmed", "人工确认"),
    },
    "asked": {
        "MISSING_FILE": ("file needed", "需要文件"),
        "DECISION": ("decision", "需要决定"),
        "APPROVAL": ("approval", "需要批准"),
        "CLARIFY": ("question", "需要说明"),
        "REEXECUTE_LIMIT": ("no round left", "返工次数用尽"),
    },
    "severity": {
        "LOW": ("low", "低"),
        "MEDIUM": ("medium", "中"),
        "HIGH": ("high", "高"),
        "CRITICAL": ("critical", "紧急"),
        "warning": ("warning", "警告"),
        "soft-deny": ("held up", "拦下"),
        "hard-deny": ("denied", "拒绝"),
    },
    "decision": {
        "PROVIDE": ("answered", "已答复"),
        "APPROVE": ("approved", "已批准"),
        "REJECT": ("rejected", "已拒绝"),
        "ABORT": ("given up", "已放弃"),
    },
    "health": {
        "HEALTHY": ("healthy", "正常"),
        "WARNING": ("warning", "警告"),
        "CRITICAL": ("critical", "严重"),
    },
    "delivery": {
        "new": ("to be decided", "待处理"),
        "done": ("done", "已处理"),
        "ignored": ("ignored", "已忽略"),
        "warned": ("warned", "已警告"),
        "failed": ("failed", "失败"),
        "waiting": ("waiting", "等待中"),
        "held": ("held up", "拦下"),
        "sent": ("sent", "已发送"),
        "dropped": ("dropped", "已放弃"),
        "stored": ("stored", "已存储"),
        "delivered": ("delivered", "已投递"),
        "processed": ("processed", "已处理"),
        "superseded": ("superseded", "已被取代"),
        "dead": ("refused", "已拒收"),
    },
    "by": {
        "engine": ("the engine", "引擎"),
        "the agent": ("the agent", "智能体"),
        "a person": ("a person", "人"),
    },
}
"""Group → code → English, Chinese."""

SENTENCES: Final[dict[str, str]] = {
    "it goes on by itself when the tasks before it have ended": "前面的任务结束后会自动继续",
    "it begins when its agent is free": "智能体空闲时即开始",
    "it ends when its agent does, or at its time limit": "智能体结束或到达时限时即结束",
    "it goes on by itself when its inputs arrive; if that takes too long, a person is asked": (
        "输入到达后会自动继续；等待过久则会询问人"
    ),
    "somebody has to decide: 'agenttalk inbox' shows the question": "需要有人裁定：见待办",
    "somebody has to answer: 'agenttalk inbox' shows the question": "需要有人答复：见待办",
    "nothing; it is done": "无需操作，已完成",
    "'agenttalk retry {plan}/{task}' tries it again": "可点“重试”，或运行 'agenttalk retry {plan}/{task}'",
    "nothing; it is not needed": "无需操作：不需要它",
    "the plan is paused: 'agenttalk resume {plan}' lets it go on": "计划已暂停：恢复 {plan} 后继续",
    "nothing, unless what it needed is tried again: 'agenttalk retry' does that": "无需操作；除非重试它所需的任务",
    "somebody has to decide: 'agenttalk rework {plan}/{task} --grant N', '--accept' or '--abort'": (
        "需要有人决定：追加轮次、按现状接受或放弃"
    ),
    "what was proven of it has changed since; it is verified again before the plan ends": (
        "已证明的内容之后有变，计划结束前会重新验证"
    ),
    "nothing; its agent says that it is done, which nobody has verified": "无需操作：智能体自称完成，无人验证",
    "a newer command for it, e.g. by 'agenttalk command send'": "需要一条更新的命令，例如 'agenttalk command send'",
    "nothing; it was skipped": "无需操作，已跳过",
    "it goes on by itself when its inputs arrive": "输入到达后会自动继续",
    "it ends when its agent's program does, or at its time limit": "智能体程序结束或到达时限时即结束",
    "somebody has to send a command for it: the engine does not run this plan": "需要有人发送命令：引擎未运行此计划",
    "it goes on when {agent} works its inbox: by hand, or by 'agenttalk heartbeat' or 'agenttalk serve'": (
        "{agent} 处理收件箱后继续：手工，或 'agenttalk heartbeat'、'agenttalk serve'"
    ),
    "it goes on when somebody works agents/{agent}/inbox/{plan} and leaves a receipt or the outputs": (
        "有人处理 agents/{agent}/inbox/{plan} 并留下回执或产出后继续"
    ),
    "it begins when {agent}, which works elsewhere, takes it; for that an engine has to run": (
        "在别处工作的 {agent} 领取后开始；为此引擎须在运行"
    ),
    "it ends when {agent} hands in its result, at its time limit, or when nothing is heard of {agent}": (
        "{agent} 提交结果、到达时限或失去联系时结束"
    ),
    "an operator lets it begin: 'agenttalk override {plan}/{task} --checkpoint NAME --reason TEXT'": (
        "需要操作员说明理由后放行"
    ),
    "it goes on by itself at 00:00 UTC, or when the limit is raised ('agenttalk budget set USD'); an operator lets it "
    "begin before: 'agenttalk override {plan}/{task} --checkpoint pre-act --reason TEXT'": (
        "将在 00:00 UTC 或提高限额后自动继续；操作员可说明理由提前放行"
    ),
    "the day stopped its turn in the middle, which does not count against {agent}; it goes on by itself at 00:00 UTC, "
    "or when the limit is raised ('agenttalk budget set USD'); an operator lets it begin before: "
    "'agenttalk override {plan}/{task} --checkpoint pre-act --reason TEXT'": (
        "当日限额在执行途中中止了它，不计入 {agent} 的过失；将在 00:00 UTC 或提高限额后自动继续，操作员可提前放行"
    ),
    "it begins when the plan's DAG is approved: 'agenttalk status {review}' shows its review": (
        "计划的任务图获批后开始：评审见 {review}"
    ),
    "the plan's DAG is not approved: change it with 'agenttalk plan apply', or answer {request}": (
        "计划的任务图未获批准：用 'agenttalk plan apply' 修改，或答复 {request}"
    ),
    "verifying again: {tasks}": "正在重新验证：{tasks}",
    "{task} failed": "{task} 失败",
    "nothing called for it": "未被触发",
    "{name} accepted it as it is": "{name} 按现状接受",
    "{task} made another version of what it was given": "{task} 产出了其输入的新版本",
    "The output {name} is there as declared": "产出 {name} 已按声明提供",
    "Task {task} is done": "任务 {task} 完成",
    "The result is not empty": "结果不为空",
    "The score is a number from 0 to 100": "得分为 0 到 100 的数",
    "The gates of the task are met": "任务的门槛已满足",
    "looking whether all that was proven still holds": "正在查看已证明的内容是否仍然成立",
}
"""Sentences of the engine → Chinese. What stands in braces is the same in both."""


def label_code(language: Language, group: Group, code: object) -> str:
    """What people call a code; one that is not known is said as it is."""
    known = CODES[group].get(str(code)) if code is not None else None
    return known[LANGUAGES.index(language)] if known else str(code or "")


def translate_sentence(language: Language, text: object) -> str:
    """A sentence of the engine in the language of who reads it; one that is not known is said as it is."""
    said = str(text or "")
    if language == "en" or len(said) > _LONGEST:
        return said
    for form, chinese in _forms():
        found = form.fullmatch(said)
        if found:
            return chinese.format(**found.groupdict())
    return translate(said, language)


@cache
def _forms() -> list[tuple[re.Pattern[str], str]]:
    """The sentences as forms that fit them: a name stands for the same wherever it comes again."""
    return [(re.compile(_form(english), re.DOTALL), chinese) for english, chinese in SENTENCES.items()]


def _form(english: str) -> str:
    parts: list[str] = []
    known: set[str] = set()
    for literal, name, _, _ in Formatter().parse(english):
        parts.append(re.escape(literal))
        if name is not None:
            parts.append(f"(?P={name})" if name in known else f"(?P<{name}>.+)")
            known.add(name)
    return "".join(parts)
