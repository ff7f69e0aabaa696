"""What moves a task on and what became of a version, in English and Chinese: for people who look at a task."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template, make_table

AFTER_OTHERS: Final = Template(
    "next.after_others",
    "it continues by itself when the tasks before it have ended",
    "前面的任务结束后会自动继续",
)
AGENT_FREE: Final = Template("next.agent_free", "it begins when its agent is free", "智能体空闲时即开始")
TURN_ENDS: Final = Template(
    "next.turn_ends",
    "it ends when its agent does, or at its time limit",
    "智能体结束或到达时限时即结束",
)
PROGRAM_ENDS: Final = Template(
    "next.program_ends",
    "it ends when its agent's program does, or at its time limit",
    "智能体程序结束或到达时限时即结束",
)
INPUTS_OR_PERSON: Final = Template(
    "next.inputs_or_person",
    "it continues by itself when its inputs arrive; if that takes too long, a person is asked",
    "输入到达后会自动继续；等待过久则会询问人",
)
INPUTS: Final = Template("next.inputs", "it continues by itself when its inputs arrive", "输入到达后会自动继续")
DECIDE: Final = Template(
    "next.decide",
    "a person has to decide: 'agenttalk inbox' shows the question",
    "需要有人裁定：见待办，或运行 'agenttalk inbox'",
)
ANSWER: Final = Template(
    "next.answer",
    "a person has to answer: 'agenttalk inbox' shows the question",
    "需要有人答复：见待办，或运行 'agenttalk inbox'",
)
DONE: Final = Template("next.done", "nothing; it is done", "无需操作，已完成")
CLAIMED: Final = Template(
    "next.claimed",
    "nothing; its agent says that it is done, which is not verified",
    "无需操作：智能体自称完成，无人验证",
)
RETRY: Final = Template(
    "next.retry",
    "'agenttalk retry {plan}/{task}' tries it again",
    "可点“重试”，或运行 'agenttalk retry {plan}/{task}'",
)
NOT_NEEDED: Final = Template("next.not_needed", "nothing; it is not needed", "无需操作：不需要它")
SKIPPED: Final = Template("next.skipped", "nothing; it was skipped", "无需操作，已跳过")
NEEDED_FAILED: Final = Template(
    "next.needed_failed",
    "nothing, unless what it needed is tried again: 'agenttalk retry' does that",
    "无需操作；除非用 'agenttalk retry' 重试它所需的任务",
)
NEWER_COMMAND: Final = Template(
    "next.newer_command",
    "a newer command for it, e.g. by 'agenttalk command send'",
    "需要一条更新的命令，例如 'agenttalk command send'",
)
NO_COMMAND: Final = Template(
    "next.no_command",
    "send a command for it: the engine does not run this plan",
    "需要有人发送命令：引擎未运行此计划",
)
INBOX: Final = Template(
    "next.inbox",
    "it continues when {agent} processes its inbox: by hand, or by 'agenttalk heartbeat' or 'agenttalk serve'",
    "{agent} 处理收件箱后继续：手工，或 'agenttalk heartbeat'、'agenttalk serve'",
)
FOLDER: Final = Template(
    "next.folder",
    "it continues when a receipt or the outputs for agents/{agent}/inbox/{plan} are there",
    "有人处理 agents/{agent}/inbox/{plan} 并留下回执或产出后继续",
)
PAUSED: Final = Template(
    "next.paused",
    "the plan is paused: 'agenttalk resume {plan}' continues it",
    "计划已暂停：'agenttalk resume {plan}' 可继续",
)
NO_ROUND: Final = Template(
    "next.no_round",
    "a person has to decide: 'agenttalk rework {plan}/{task} --grant N', '--accept' or '--abort'",
    "需要有人决定：'agenttalk rework {plan}/{task}' 加 --grant N（追加轮次）、--accept（按现状接受）或 --abort（放弃）",
)
STALE: Final = Template(
    "next.stale",
    "its evidence is out of date; it is verified again before the plan ends",
    "已证明的内容之后有变，计划结束前会重新验证",
)
OFFERED: Final = Template(
    "next.offered",
    "it begins when {agent}, which works elsewhere, takes it; an engine has to run for that",
    "在别处工作的 {agent} 领取后开始；为此引擎须在运行",
)
ELSEWHERE: Final = Template(
    "next.elsewhere",
    "it ends when {agent} hands in its result, at its time limit, or when {agent} is silent for too long",
    "{agent} 提交结果、到达时限或失去联系时结束",
)
NO_WORKER: Final = Template(
    "next.no_worker",
    "the pool {pool} has no worker; 'agenttalk worker invite --pool {pool}' invites one",
    "工作机池 {pool} 中没有工作机；用 'agenttalk worker invite --pool {pool}' 邀请一台",
)
NO_VERIFIER: Final = Template(
    "next.no_verifier",
    "the pool {pool} has no verifier; 'agenttalk worker invite --pool {pool} --role verifier' invites one",
    "验证机池 {pool} 中没有验证机；用 'agenttalk worker invite --pool {pool} --role verifier' 邀请一台",
)
WAITS_FOR_VERIFIER: Final = Template(
    "next.waits_for_verifier",
    "it goes on when a verifier of the pool {pool} is online and has a free place: {names}",
    "验证机池 {pool} 中在线的验证机有空位时继续：{names}",
)
NO_FIT_VERIFIER: Final = Template(
    "next.no_fit_verifier",
    "no verifier of the pool {pool} may make its checks: {lacks}",
    "验证机池 {pool} 中没有可做其检查的验证机：{lacks}",
)
WAITS_FOR_WORKER: Final = Template(
    "next.waits_for_worker",
    "it begins when a worker of the pool {pool} is online and has a free place: {names}; an engine has to run for that",
    "工作机池 {pool} 中在线的工作机有空位时开始：{names}；为此引擎须在运行",
)
NO_FIT: Final = Template(
    "next.no_fit", "no worker of the pool {pool} fits: {lacks}", "工作机池 {pool} 中没有合适的工作机：{lacks}"
)
LACKS: Final = Template("next.lacks", "{worker} {lacks}", "{worker} {lacks}")
LACK: Final = make_table(
    "lack",
    {
        "role": ("has another role: {name}", "角色不符：{name}"),
        "label": ("lacks the label {name!r}", "缺少标签 {name!r}"),
        "driver": ("lacks the driver {name!r}", "缺少驱动 {name!r}"),
        "program": ("lacks the coding agent {name!r}", "缺少编码智能体 {name!r}"),
        "sandbox": ("lacks the sandbox {name!r}", "缺少沙箱 {name!r}"),
        "machine": (
            "stands on the machine {name}, where this agent ran since that machine started",
            "位于机器 {name}，该智能体自那台机器启动以来在其上运行过",
        ),
        "answered": (
            "made this check already as {name}, or its machine did",
            "它（{name}）或它所在的机器已经做过这项检查",
        ),
        "full": ("has {name} free places", "有 {name} 个空位"),
    },
)
WORKER_IS: Final = make_table(
    "worker_is",
    {
        "draining": ("is draining", "正在排空"),
        "quarantined": ("is quarantined", "已隔离停用"),
        "removed": ("is removed", "已移除"),
        "paused": ("is in a pool that is paused", "所在的池已暂停"),
        "suspect": ("has been silent for a while", "暂无消息"),
        "lost": ("is lost", "失去联系"),
    },
)
HELD: Final = Template(
    "next.held",
    "an operator starts it: 'agenttalk override {plan}/{task} --checkpoint NAME --reason TEXT'",
    "操作员用 'agenttalk override {plan}/{task} --checkpoint NAME --reason TEXT' 放行",
)
ACCOUNT_FREE: Final = Template(
    "next.account_free",
    "it continues by itself at {until}, and its attempts so far do not count against {agent}; with 'fallback' in the "
    "profile of {agent} another agent does such tasks",
    "将于 {until} 自动继续，此前的尝试不计入 {agent}；在 {agent} 的配置中写 'fallback'，可由另一智能体接手此类任务",
)
ANOTHER_DAY: Final = Template(
    "next.another_day",
    "it continues by itself at 00:00 UTC, or when the limit is raised ('agenttalk budget set USD'); an operator starts "
    "it before that: 'agenttalk override {plan}/{task} --checkpoint pre-act --reason TEXT'",
    "将在 00:00 UTC 或提高限额（'agenttalk budget set USD'）后自动继续；操作员可用 "
    "'agenttalk override {plan}/{task} --checkpoint pre-act --reason TEXT' 提前放行",
)
STOPPED_BY_DAY: Final = Template(
    "next.stopped_by_day",
    "the day's limit stopped its turn, which does not count against {agent}; {next}",
    "当日限额在执行途中中止了它，不计入 {agent} 的过失；{next}",
)
IN_REVIEW: Final = Template(
    "next.in_review",
    "it begins when the plan's DAG is approved: 'agenttalk status {review}' shows its review",
    "计划的 DAG 获批后开始：'agenttalk status {review}' 显示其评审",
)
NOT_APPROVED: Final = Template(
    "next.not_approved",
    "the plan's DAG is not approved: change it with 'agenttalk plan apply', or answer {request}",
    "计划的 DAG 未获批准：用 'agenttalk plan apply' 修改，或答复 {request}",
)
VERIFYING_AGAIN: Final = Template("plan.verifying_again", "verifying again: {tasks}", "正在重新验证：{tasks}")
VERIFYING_ALL: Final = Template(
    "plan.verifying_all",
    "checking whether everything proven still holds",
    "正在查看已证明的内容是否仍然成立",
)
REFUSED_TOO: Final = Template("round.refused_too", "the next version was refused, too", "下一版也被退回")
REFUSED_LAST: Final = Template(
    "round.refused_last",
    "the next version was refused, too, and no round was left",
    "下一版也被退回，返工次数用尽",
)
REFUSED_UNCHANGED: Final = Template(
    "round.refused_unchanged",
    "the next version was refused for the same issues, unchanged",
    "下一版因同样的问题被退回",
)
GRANTED: Final = Template("round.granted", "a person granted more rounds", "有人追加了轮次")
ACCEPTED: Final = Template("round.accepted", "a person accepted it as it is", "有人按现状接受")
GIVEN_UP: Final = Template("round.given_up", "a person gave it up", "有人放弃了它")
GOOD_SO_FAR: Final = Template("round.good_so_far", "the next version is good enough so far", "下一版目前足够好")
FAILED_AGAIN: Final = Template("round.failed_again", "the rework failed", "返工失败")
UNDER_WAY: Final = Template("round.under_way", "the rework is under way", "正在返工")

ACTIVITIES: Final = make_table(
    "activity",
    {
        "queued": ("waits for a free slot", "等待空位"),
        "queued_agent": ("waits until {agent} is free", "等待 {agent} 空闲"),
        "offered": ("waits until {agent} takes it", "等待 {agent} 领取"),
        "elsewhere": ("{agent} works on it elsewhere", "{agent} 正在别处执行"),
        "judging": ("judging its inputs", "正在评判输入"),
        "cloning": ("cloning the repository", "正在克隆仓库"),
        "preparing": ("preparing: {what}", "正在准备：{what}"),
        "baseline": ("checking before the work: {what}", "工作开始前的检查：{what}"),
        "working": ("at work", "正在执行"),
        "self_check": ("checking before the agent stops", "智能体结束前的检查"),
        "checking": ("checking: {what}", "正在检查：{what}"),
        "for_verifier": ("waits for a verifier: {what}", "等待验证机：{what}"),
        "in_line": ("waits for its turn to merge", "等待轮到它合并"),
        "merging": ("merging", "正在合并"),
        "asking": ("waits for a person", "等待人答复"),
        "awaiting": ("waits for the forge", "等待代码平台"),
        "stopping": ("stopping", "正在停止"),
    },
)
"""What a task is doing, by the phase of its activity."""
COUNTED_OF: Final = Template(
    "activity.tests_of", "{what}, {done} of {total} tests", "{what}，已完成 {done}/{total} 个测试"
)
COUNTED_TESTS: Final = Template("activity.tests", "{what}, {done} tests so far", "{what}，目前 {done} 个测试")
