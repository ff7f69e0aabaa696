"""The words for the codes of the engine, in English and Chinese, and its messages in the language of the reader.

Texts of agents and of people are shown as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from agenttalk.doors.pages.words import LANGUAGES, Language
from agenttalk.rules.text.catalogue import read_text
from agenttalk.rules.text.message import join, render

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
        "DEPENDENCY_BLOCK": ("something before it failed: a person decides", "前置任务失败，等待裁定"),
        "DEPENDENCY_REPLAN": ("something before it failed: another plan is needed", "前置任务失败，需要新计划"),
        "DEPENDENCY_RETRIED": ("what failed before it is tried again", "前置任务正在重试"),
        "BRANCH_NOT_TAKEN": ("no task called for it", "未被触发"),
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
        "INPUT_REJECTED": ("it refused its inputs", "拒绝了输入"),
        "INPUT_ARRIVED": ("its missing input is there", "等待的输入已到"),
        "DECIDED": ("a person decided", "已裁定"),
        "ANSWERED": ("a person answered", "已答复"),
        "GIVEN_UP": ("a person said no", "已被放弃"),
        "WAIT_TIMEOUT": ("waited too long", "等待超时"),
        "STALE": ("its evidence has changed", "依据已变化"),
        "REWORK": ("refused by its consumer", "被使用者退回"),
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


def label_code(language: Language, group: Group, code: object) -> str:
    """Return the words for a code; an unknown code is shown as it is."""
    known = CODES[group].get(str(code)) if code is not None else None
    return known[LANGUAGES.index(language)] if known else str(code or "")


def translate_field(language: Language, document: Mapping[str, Any], name: str) -> str:
    """Return the text in a field of a document in the language of the reader."""
    return translate(language, read_text(document, name)) if isinstance(document.get(name), str) else ""


def translate_all(language: Language, texts: Sequence[str]) -> str:
    """Return texts one after the other in the language of the reader."""
    return translate(language, join(texts))


def translate(language: Language, text: object) -> str:
    """Return a text in the language of the reader; one that is not a message is shown as it is."""
    return render(text, language) if isinstance(text, str) else ""
