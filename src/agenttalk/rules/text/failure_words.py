"""What the engine says at a forge, and to people, about work that was not done, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

NOT_DONE: Final = Template(
    "failure.not_done",
    "@{login} This is not done yet: {title} (task `{task}`, round {round}).",
    "@{login} 尚未完成：{title}（任务 `{task}`，第 {round} 轮）。",
)
MISSING: Final = Template("failure.missing", "What is missing:", "缺少：")
BACK: Final = Template(
    "failure.back",
    "The task is back with you. Carry out what is missing and report it; an answer here is not needed.",
    "任务已退回给你。必须补齐缺少的内容并提交报告；不需要在此回复。",
)
REMINDER: Final = Template(
    "failure.reminder",
    "@{login} A reminder: {title} (task `{task}`) has waited for your report since {since}.",
    "@{login} 提醒：{title}（任务 `{task}`）自 {since} 起一直没有收到你的报告。",
)
STEPS: Final = Template("failure.steps", "What is to be done:", "必须完成：")
ISSUE_TITLE: Final = Template("failure.issue_title", "Failed: {title}", "失败：{title}")
OVERDUE_TITLE: Final = Template("failure.overdue_title", "Overdue: {title}", "逾期：{title}")
ISSUE: Final = Template(
    "failure.issue",
    "{agent} could not do this, and it is not tried again by itself: task `{task}` ({action_type}), {place}.",
    "{agent} 未能完成，系统不再自动重试：任务 `{task}`（{action_type}），{place}。",
)
OVERDUE: Final = Template(
    "failure.overdue",
    "{agent} has not reported since {since}: task `{task}` ({action_type}), {place}.",
    "{agent} 自 {since} 起没有报告：任务 `{task}`（{action_type}），{place}。",
)
HISTORY: Final = Template("failure.history", "What happened:", "经过：")
ASK_TITLE: Final = Template("failure.ask_title", "{task} of {agent} failed: {title}", "{agent} 的 {task} 失败：{title}")
ASK: Final = Template(
    "failure.ask",
    "{task} ({action_type}, {place}) failed: {reason}. Shall it be tried again?",
    "{task}（{action_type}，{place}）失败：{reason}。是否重试？",
)
CAPPED: Final = Template(
    "failure.capped",
    "{count} comments were written on {object} within an hour. Shall those that wait be posted?",
    "一小时内已在 {object} 写了 {count} 条评论。是否发布其余等待的内容？",
)
REFUSED: Final = Template(
    "failure.refused",
    "{source} does not take what is to be posted on {object}: {reason}. Shall it be tried again?",
    "{source} 不接受要发布到 {object} 的内容：{reason}。是否重试？",
)
UNASSIGNED: Final = Template(
    "failure.unassigned",
    "{source} opened {object} but did not assign it to {login}. Who takes care of it?",
    "{source} 已创建 {object}，但没有指派给 {login}。由谁负责？",
)
NO_OPERATOR: Final = Template(
    "failure.no_operator",
    "{source} cannot be reached, and no agent is configured as toolchain.ops: {reason}. Who restores it?",
    "无法连接 {source}，且没有配置 toolchain.ops：{reason}。由谁恢复？",
)
OUTAGE: Final = Template("failure.outage", "{source} cannot be reached", "无法连接 {source}")
UNSEEN_TITLE: Final = Template(
    "failure.unseen_title",
    "The engine's account does not see {repo} at {source}",
    "引擎的账号看不到 {source} 上的 {repo}",
)
UNSEEN: Final = Template(
    "failure.unseen",
    "It is unknown whether work in {repo} at {source} is done, so tasks there wait: {reason}. A forge answers "
    "the same for a repository that is hidden and for one that was deleted. If it is there, give the account of "
    "the source's token read access to it; what was done is then found. If it was deleted, answer '{gone}': its "
    "tasks then end.",
    "无法判断 {source} 上 {repo} 的工作是否完成，相关任务正在等待：{reason}。仓库被隐藏或已被删除时，"
    "代码平台的回答相同。如果它还在，请给该来源令牌的账号读取权限，之后即可看到已完成的工作。如果它已被删除，"
    "请回答“{gone}”，相关任务随即结束。",
)
