"""What the engine says at a forge, and to people, about work that was not done. In English or Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from agenttalk.rules.prompts.wording import Locale

LONGEST_LINE: Final = 1_000
MOST_LINES: Final = 40
_TICKS: Final = re.compile(r"`{3,}")


class FailureWording(NamedTuple):
    """The sentences. Names in braces are filled in."""

    not_done: str
    missing: str
    back: str
    reminder: str
    steps: str
    issue_title: str
    overdue_title: str
    issue: str
    overdue: str
    history: str
    ask_title: str
    ask: str
    capped: str
    refused: str
    unassigned: str
    nobody: str
    outage: str
    unseen_title: str
    unseen: str


WORDING: Final[dict[Locale, FailureWording]] = {
    "en": FailureWording(
        not_done="@{login} This is not done yet: {title} (task `{task}`, round {round}).",
        missing="What is missing:",
        back="The task is back with you. Carry out what is missing and report it; an answer here is not needed.",
        reminder="@{login} A reminder: {title} (task `{task}`) has waited for your report since {since}.",
        steps="What is to be done:",
        issue_title="Failed: {title}",
        overdue_title="Overdue: {title}",
        issue="{agent} could not do this, and it is not tried again by itself: task `{task}` ({action_type}), {place}.",
        overdue="{agent} has not reported since {since}: task `{task}` ({action_type}), {place}.",
        history="What happened:",
        ask_title="{task} of {agent} failed: {title}",
        ask="{task} ({action_type}, {place}) failed: {reason}. Shall it be tried again?",
        capped="{count} comments were written on {object} within an hour. Shall those that wait be posted?",
        refused="{source} does not take what is to be posted on {object}: {reason}. Shall it be tried again?",
        unassigned="{source} opened {object} but did not assign it to {login}. Who takes care of it?",
        nobody="{source} cannot be reached, and no agent is configured as toolchain.ops: {reason}. Who restores it?",
        outage="{source} cannot be reached",
        unseen_title="The engine's account does not see {repo} at {source}",
        unseen="It is unknown whether work in {repo} at {source} is done, so tasks there wait: {reason}. A forge "
        "answers the same for a repository that is hidden and for one that was deleted. If it is there, give the "
        "account of the source's token read access to it; what was done is then found. If it was deleted, answer "
        "'{gone}': its tasks then end.",
    ),
    "zh": FailureWording(
        not_done="@{login} 尚未完成：{title}（任务 `{task}`，第 {round} 轮）。",
        missing="缺少：",
        back="任务已退回给你。必须补齐缺少的内容并提交报告；不需要在此回复。",
        reminder="@{login} 提醒：{title}（任务 `{task}`）自 {since} 起一直没有收到你的报告。",
        steps="必须完成：",
        issue_title="失败：{title}",
        overdue_title="逾期：{title}",
        issue="{agent} 未能完成，系统不再自动重试：任务 `{task}`（{action_type}），{place}。",
        overdue="{agent} 自 {since} 起没有报告：任务 `{task}`（{action_type}），{place}。",
        history="经过：",
        ask_title="{agent} 的 {task} 失败：{title}",
        ask="{task}（{action_type}，{place}）失败：{reason}。是否重试？",
        capped="一小时内已在 {object} 写了 {count} 条评论。是否发布其余等待的内容？",
        refused="{source} 不接受要发布到 {object} 的内容：{reason}。是否重试？",
        unassigned="{source} 已创建 {object}，但没有指派给 {login}。由谁负责？",
        nobody="无法连接 {source}，且没有配置 toolchain.ops：{reason}。由谁恢复？",
        outage="无法连接 {source}",
        unseen_title="引擎的账号看不到 {source} 上的 {repo}",
        unseen="无法判断 {source} 上 {repo} 的工作是否完成，相关任务正在等待：{reason}。"
        "仓库被隐藏或已被删除时，代码平台的回答相同。如果它还在，请给该来源令牌的账号读取权限，之后即可看到已完成的工作。"
        "如果它已被删除，请回答“{gone}”，相关任务随即结束。",
    ),
}


def render_comment(head: str, title: str, lines: Sequence[str], tail: str, markers: Sequence[str]) -> str:
    """Render a text for a forge: a title, facts in a block that calls no account, and hidden markers."""
    parts = [head, f"{title}\n\n{render_block(lines)}" if lines else "", tail, "\n".join(markers)]
    return "\n\n".join(part for part in parts if part)


def render_block(lines: Sequence[str]) -> str:
    """Render any lines as a block of code: they call no account, end no block and hide nothing."""
    shown = [render_line(each) for each in lines[:MOST_LINES]]
    shown += ["…"] if len(lines) > MOST_LINES else []
    longest = max((len(found) for each in shown for found in _TICKS.findall(each)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def render_line(text: str) -> str:
    """Render a text of others as one bounded line without hidden characters."""
    line = " ".join(text.replace("<!--", "<! --").split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def render_inline(text: str) -> str:
    """Render a text of others inside a sentence of ours: it calls no account."""
    return render_line(text).replace("@", "@\u200b").replace("`", "'")
