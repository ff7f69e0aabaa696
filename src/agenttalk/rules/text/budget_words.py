"""What a budget allows and what used it up, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

TOKEN: Final = Template("budget.token", "1 token", "1 个 token")
TOKENS: Final = Template("budget.tokens", "{count:,.0f} tokens", "{count:,.0f} 个 token")
DOLLARS: Final = Template("budget.dollars", "${count:g}", "{count:g} 美元")
SECOND: Final = Template("budget.second", "1 second", "1 秒")
SECONDS: Final = Template("budget.seconds", "{count:,g} seconds", "{count:,g} 秒")
TOOL_CALL: Final = Template("budget.tool_call", "1 tool call", "1 次工具调用")
TOOL_CALLS: Final = Template("budget.tool_calls", "{count:,.0f} tool calls", "{count:,.0f} 次工具调用")
OF_TASK: Final = Template("budget.of_task", "the task's budget of {amount}", "任务预算（{amount}）")
OF_PLAN: Final = Template("budget.of_plan", "the plan's budget of {amount}", "计划预算（{amount}）")
OF_DAY: Final = Template("budget.of_day", "the day's budget of {amount}", "当日预算（{amount}）")
USED_UP: Final = Template("budget.used_up", "{limit} is used up", "{limit}已用尽")
OVERRUN: Final = Template("budget.overrun", "{amount} of {limit}", "{limit}已用 {amount}")
EXCEEDS_PLAN: Final = Template("budget.exceeds_plan", "{own} is more than {plan}", "{own}超过{plan}")
ALLOWS_NOTHING: Final = Template(
    "budget.allows_nothing",
    "{field}: a budget of 0 allows no work",
    "{field}：预算为 0，什么也做不了",
)
REPEATED: Final = Template("budget.repeated", "the same {count} times: {steps}", "相同的步骤重复 {count} 次：{steps}")
SILENT: Final = Template("budget.silent", "no news for {seconds:g} seconds", "{seconds:g} 秒没有消息")
ACCOUNT_USED_UP: Final = Template(
    "budget.account_used_up",
    "{agent}: usage limit of the account until {until} ({why})",
    "{agent}：账户用量已达上限，直到 {until}（{why}）",
)
PROVIDER_BUSY: Final = Template(
    "budget.provider_busy",
    "{agent}: its provider is overloaded; the next attempt is at {until} ({why})",
    "{agent}：服务方过载，将于 {until} 重试（{why}）",
)
HANDED_OVER: Final = Template(
    "budget.handed_over",
    "{fallback} does it instead of {agent}, whose account waits",
    "{agent} 的账户在等待，由 {fallback} 接手",
)
TASK_WAITS: Final = Template("budget.task_waits", "{wait}; 1 task waits", "{wait}；1 个任务在等待")
TASKS_WAIT: Final = Template("budget.tasks_wait", "{wait}; {count} tasks wait", "{wait}；{count} 个任务在等待")
