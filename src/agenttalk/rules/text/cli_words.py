"""What the command line prints for people, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agenttalk.rules.text.message import Template, make_table

COUNTS: Final = make_table(
    "count",
    {
        f"{key}{suffix}": (f"{{count:,}} {noun}", f"{{count:,}} {chinese}")
        for key, (one, many, chinese) in {
            "chain": ("chain", "chains", "条链"),
            "check": ("check", "checks", "项检查"),
            "entry": ("entry", "entries", "条记录"),
            "more check": ("more check", "more checks", "项其他检查"),
            "more round": ("more round", "more rounds", "轮"),
            "other": ("other", "others", "个其他命令"),
            "problem": ("problem", "problems", "个问题"),
            "question": ("question", "questions", "个问题"),
            "rework round": ("rework round", "rework rounds", "轮返工"),
            "round": ("round", "rounds", "轮"),
            "task": ("task", "tasks", "个任务"),
            "token": ("token", "tokens", "个 token"),
            "tool call": ("tool call", "tool calls", "次工具调用"),
            "turn": ("turn", "turns", "次执行"),
            "uncommitted file": ("uncommitted file", "uncommitted files", "个未提交的文件"),
        }.items()
        for suffix, noun in ((" (one)", one), ("", many))
    },
)
"""A number with its noun. `(one)` marks the singular."""
TIMES: Final = make_table(
    "time",
    {
        "seconds": ("{seconds:.1f} s", "{seconds:.1f} 秒"),
        "minutes": ("{minutes} min {seconds:02} s", "{minutes} 分 {seconds:02} 秒"),
        "hours": ("{hours} h {minutes:02} min", "{hours} 小时 {minutes:02} 分"),
        "limit": ("{minutes:g} minutes", "{minutes:g} 分钟"),
    },
)
"""How long something took."""
NO_PRICE: Final = Template("cli.no_price", "cost unknown: no price of {model}", "费用未知：没有 {model} 的价格")
FAILED_TEST: Final = Template("cli.failed_test", "failed: {name}", "失败：{name}")
AND_MORE: Final = Template("cli.and_more", "{names} and {count} more", "{names}，另有 {count} 个")
NOT_SERVED: Final = Template(
    "cli.not_served",
    "no engine runs here, so no work continues; start 'agenttalk serve', or repeat 'agenttalk run'",
    "这里没有运行引擎，工作不会继续；请启动 'agenttalk serve'，或再次运行 'agenttalk run'",
)
OPEN_QUESTION: Final = Template(
    "cli.open_question",
    "1 question is not answered: see 'agenttalk inbox'",
    "1 个问题尚未回答：见 'agenttalk inbox'",
)
OPEN_QUESTIONS: Final = Template(
    "cli.open_questions",
    "{count:,} questions are not answered: see 'agenttalk inbox'",
    "{count:,} 个问题尚未回答：见 'agenttalk inbox'",
)
REMARKS: Final = make_table(
    "remark",
    {
        "score": ("score {score:g}", "评分 {score:g}"),
        "round": ("round {number}", "第 {number} 轮"),
        "round_of": ("round {number} of {most}", "第 {number} 轮，共 {most} 轮"),
        "stale": ("stale", "已过期"),
        "unproven": ("unproven", "未证明"),
        "isolated": ("isolated", "已隔离"),
        "not_isolated": ("not isolated", "未隔离"),
        "exit_code_only": ("exit-code only", "仅凭退出码"),
        "from_output": ("from the runner's output", "取自测试运行器的输出"),
        "from_report": ("from the runner's report file", "取自测试运行器的报告文件"),
        "question": ("question {request}", "问题 {request}"),
        "weak": ("weak", "较弱"),
        "flaky": ("flaky", "不稳定"),
        "overridden": ("overridden by", "放行者："),
        "claimed_by": ("claimed by {agent}, and not proven", "{agent} 自称完成，未经证明"),
        "check_passed": ("{check} passed ({notes})", "{check} 通过（{notes}）"),
        "check_failed": ("{check} failed", "{check} 未通过"),
        "waits_for": ("waits for {names}", "等待 {names}"),
        "stale_until_end": (
            "stale: its evidence is out of date, and is checked again before the plan ends",
            "已过期：证据已过时，计划结束前会重新检查",
        ),
        "claimed": ("claimed by the agent, not verified", "智能体自称完成，未经验证"),
    },
)
"""Short remarks beside a task."""
RUN: Final = make_table(
    "run",
    {
        "done": ("everything is done", "全部完成"),
        "failed": ("something failed", "有任务失败"),
        "waiting": ("the plan waits for a person or an outside agent", "等待人或外部智能体"),
        "paused": ("the plan is paused; 'agenttalk resume' continues it", "已暂停；'agenttalk resume' 可继续"),
        "running": (
            "stopped following; the engine goes on; run the plan again to follow it",
            "不再跟随；引擎继续运行；再次运行该计划即可跟随",
        ),
        "interrupted": ("interrupted; run the plan again to go on", "已中断；再次运行该计划即可继续"),
        "stopping": ("stopping … (Ctrl-C again ends it now)", "正在停止……（再按一次 Ctrl-C 立即结束）"),
        "checked": ("{count} tasks; nothing was run", "{count} 个任务；没有运行任何内容"),
        "refused": ("refused: {problems}", "被拒绝：{problems}"),
        "no_plan": ("refused", "被拒绝"),
        "plan_refused": (": {file} has {problems}", "：{file} 有 {problems}"),
        "closing": ("closing: {what}", "正在收尾：{what}"),
        "hidden": ("and {tasks}", "另有 {tasks}"),
        "hidden_tasks": ("{count} {state}", "{count} 个{state}"),
        "done_of": ("{done} of {count} done", "完成 {done}/{count}"),
        "inbox": ("'agenttalk inbox' shows the question", "'agenttalk inbox' 显示该问题"),
        "outputs": ("its outputs are in {folder}", "产出在 {folder}"),
        "by_hand": ("waits for an answer to its command in {folder}", "等待 {folder} 中的命令得到答复"),
        "refused_round": ("round {number}: refused: {why}", "第 {number} 轮：被退回：{why}"),
        "refused_round_by": ("round {number}: refused by {by}: {why}", "第 {number} 轮：被 {by} 退回：{why}"),
        "no_forge": (
            "no source has a token, so the engine cannot read a forge, and these tasks cannot be done",
            "没有来源带有令牌，引擎无法读取代码平台，以下任务无法完成",
        ),
        "script_missing": (
            "{script} is neither beside the plan nor in agents/{agent}",
            "{script} 既不在计划文件旁，也不在 agents/{agent} 中",
        ),
        "no_login": ("no key is set, and there is no login; {remedy}", "没有设置密钥，也没有登录；{remedy}"),
    },
)
"""How a plan runs."""
EXPLAIN: Final = make_table(
    "explain",
    {
        "state": ("{task} is {state}", "{task} 的状态：{state}"),
        "state_why": ("{task} is {state}: {why}", "{task} 的状态：{state}：{why}"),
        "agent": ("a task of {agent}", "{agent} 的任务"),
        "asked": ("asked of {agent}: {what}", "交给 {agent}：{what}"),
        "derived": ("done means, from the plan:", "按计划，完成意味着："),
        "promised": ("done means, as promised:", "按承诺，完成意味着："),
        "all_attempts": ("in all attempts: {usage}", "全部尝试：{usage}"),
        "sent_back": ("sent back: {why}", "被退回：{why}"),
        "waits_for": ("waits for: {names}", "等待：{names}"),
        "missing": ("is missing: {names}", "缺少：{names}"),
        "choice": (
            "input {name}: one of the outputs of {tasks}, chosen by {rule}",
            "输入 {name}：从 {tasks} 的产出中按 {rule} 选取",
        ),
        "superseded": ("{command} was superseded before it ran: {why}", "{command} 在运行前已被取代：{why}"),
        "verdict": ("the engine's verdict: {verdict}", "引擎的裁定：{verdict}"),
        "fulfilled": ("fulfilled", "已兑现"),
        "not_fulfilled": ("not fulfilled", "未兑现"),
        "accepted_by": (
            "{verdict}, because {who} accepted the work as it is",
            "{verdict}，因为 {who} 按现状接受了工作",
        ),
        "not_counting": ("{verdict} of {about}, which no longer counts", "{verdict}（{about}，已不算数）"),
        "unverified": ("{mark}, claimed only: {names}", "{mark}，仅为声明：{names}"),
        "branch": ("the score ({when}) activated {tasks}", "评分（{when}）触发了 {tasks}"),
        "attempt": (
            "{command}, attempt {number}: {how} in {seconds} s{where}",
            "{command}，第 {number} 次尝试：{how}，用时 {seconds} 秒{where}",
        ),
        "no_sandbox": ("without a sandbox", "没有沙箱"),
        "sandbox": ("in the sandbox {tier}", "在沙箱 {tier} 中"),
        "notice": ("notice:", "提示："),
        "score": ("score {score:g}: {why}", "评分 {score:g}：{why}"),
        "events": ("its events ({count}): {file}", "它的事件（{count} 条）：{file}"),
        "self_check": (
            "our check before the agent stopped failed, which is not the agent's fault: {why}",
            "智能体停止前的检查自身出错，不是智能体的过失：{why}",
        ),
        "claim": ("claims that {name} is {truth} ({standing})", "声称 {name} 为{truth}（{standing}）"),
        "true": ("true", "真"),
        "false": ("false", "假"),
        "set_aside": ("ignored: the engine's own evidence decides", "不采用：以引擎自己的证据为准"),
        "not_proven": ("a claim, not proven", "仅为声明，未经证明"),
        "foreign": (
            "commits on the plan's branch that no task made: {commits}",
            "计划分支上有不是由任务做出的提交：{commits}",
        ),
        "merged": ("merged as {commit}", "已合并为 {commit}"),
        "seen": ("as seen at {at} for {whom}", "{at} 以 {whom} 的身份看到"),
        "sealed": (
            "made by the verifier {name} on the machine {machine} ({tier}), signed with the key {key}",
            "由验证机 {name} 在机器 {machine}（{tier}）上检查，用密钥 {key} 签名",
        ),
        "not_engine": (
            "the engine does not run this plan: it knows only its messages",
            "引擎未运行此计划：只知道它的消息",
        ),
        "command": ("{command} is {state}", "{command} 的状态：{state}"),
        "command_receipt": ("{command} is {state}, receipt {receipt}", "{command} 的状态：{state}，回执 {receipt}"),
        "attempt_runs": ("attempt {number} runs", "第 {number} 次尝试正在运行"),
        "made": ("made {name}, {message}", "已产出 {name}，{message}"),
    },
)
"""The state of a task, as `agenttalk explain` prints it."""
ROUNDS: Final = make_table(
    "rounds",
    {
        "granted": ("{by} granted {rounds}", "{by} 追加了 {rounds}"),
        "accepted": ("{by} accepted the work as it is ({shown})", "{by} 按现状接受了工作（{shown}）"),
        "aborted": ("{by} aborted it", "{by} 中止了它"),
        "stuck": ("the same issues again", "同样的问题再次出现"),
        "last": ("no round left", "返工次数用尽"),
        "conflict": ("a conflict", "冲突"),
        "refused": ("{round}: refused by {by}: {why}", "{round}：被 {by} 退回：{why}"),
        "refused_score": (
            "{round}: refused by {by}, {score:g} of 100: {why}",
            "{round}：被 {by} 退回，{score:g} 分（满分 100）：{why}",
        ),
    },
)
"""The rework rounds of a task."""
STATUS: Final = make_table(
    "status",
    {
        "no_plans": (
            "No plans yet. 'agenttalk route --once' imports plans from system_runtime/plans.",
            "还没有计划。'agenttalk route --once' 会导入 system_runtime/plans 中的计划。",
        ),
        "origin": ("{origin}, board {board}", "{origin}，看板 {board}"),
        "halted": ("halted:", "已停用："),
        "messages": ("messages: {counts}", "消息：{counts}"),
        "none": ("none", "无"),
        "sent": ("{count} sent", "已发送 {count}"),
        "delivered": ("{count} delivered", "已投递 {count}"),
        "superseded": ("{count} superseded", "已被取代 {count}"),
        "duplicate": ("{count} duplicate", "重复 {count}"),
        "dead": ("{count} dead", "已拒收 {count}"),
        "in_flight": ("{count} in flight", "在途 {count}"),
        "in_all": ("in all: {usage}", "合计：{usage}"),
        "open_tasks": (
            "open tasks: {count} ('agenttalk toolchain tasks' lists them)",
            "未结束的任务：{count}（'agenttalk toolchain tasks' 可列出）",
        ),
        "times": ("{what} ({count} times)", "{what}（{count} 次）"),
        "honesty": ("honesty: {counts}", "诚信：{counts}"),
        "details": ("(details: 'agenttalk honesty')", "（详情：'agenttalk honesty'）"),
    },
)
"""The state of plans, as `agenttalk status` prints it."""
HONESTY: Final = make_table(
    "honesty",
    {
        "no_turn": ("No agent has ended a turn yet.", "还没有智能体结束过一次执行。"),
        "agents": ("agents", "智能体"),
        "models": ("models", "模型"),
        "kinds": ("kinds", "种类"),
        "validators": ("validators", "验证者"),
        "uncounted": (
            "{count} entries of the ledger are not counted yet; repeat the command",
            "账本中有 {count} 条记录尚未计入；请再次运行该命令",
        ),
        "no_model": ("model unknown", "模型未知"),
        "held": ("{percent:.0%} held", "{percent:.0%} 属实"),
        "judged": ("{count} judged", "评判 {count}"),
        "misled": ("{count} wrongly accepted", "误放 {count}"),
        "overruled": ("{count} overruled", "被推翻 {count}"),
        "unjudged": ("{count} not judged", "未评判 {count}"),
        "no_claim": ("{turns}, no claim of done", "{turns}，没有完成声明"),
        "claim": ("1 claim of done: {counts}", "1 次完成声明：{counts}"),
        "claims": ("{count} claims of done: {counts}", "{count} 次完成声明：{counts}"),
        "proven": ("{count} proven", "已证明 {count}"),
        "unproven": ("{count} on its word alone", "仅凭其言 {count}"),
        "unisolated": ("{count} not isolated", "未隔离 {count}"),
        "gamed": ("{count} passed only what it saw", "只通过可见检查 {count}"),
        "refuted": ("{count} refuted", "被证伪 {count}"),
        "overturned": ("{count} later overturned", "后被推翻 {count}"),
        "stale": ("{count} stale", "已过期 {count}"),
        "disputed": (
            "{checks} disputed ({upheld} upheld, {dismissed} dismissed)",
            "对 {checks}提出异议（成立 {upheld}，驳回 {dismissed}）",
        ),
        "cost": ("${cost:.4g} per proven task", "每个已证明的任务 ${cost:.4g}"),
    },
)
"""How many claims of agents held."""
DAY: Final = make_table(
    "day",
    {
        "no_limit": ("no spending limit is set", "没有设置花费上限"),
        "set_by": ("(set by {who})", "（由 {who} 设置）"),
        "from_settings": ("(from agenttalk.toml)", "（来自 agenttalk.toml）"),
        "spent": (
            "today (UTC): ${spent:g} of ${limit:g} spent {origin}",
            "今日（UTC）：已用 ${spent:g}，上限 ${limit:g} {origin}",
        ),
        "paused": (
            "no task starts: the day's budget is used up; it goes on at 00:00 UTC or after 'agenttalk budget set USD'",
            "没有任务开始：今日预算已用完；将在 00:00 UTC 或 'agenttalk budget set USD' 之后继续",
        ),
        "waiting": ("waiting tasks: {count}", "等待的任务：{count}"),
        "stopped": (
            "stopped during a turn, which does not count against their agents: {names}",
            "在执行途中被中止，不计入智能体的过失：{names}",
        ),
    },
)
"""The spending limit of a day."""
DECISIONS: Final = make_table(
    "decisions",
    {
        "review.open": (
            "its DAG is being reviewed: 'agenttalk status {review_plan}'",
            "其 DAG 正在评审：'agenttalk status {review_plan}'",
        ),
        "review.waits": (
            "its DAG is not approved ({decision} by {decided_by}): question {request_id}",
            "其 DAG 未获批准（{decided_by} 的决定：{decision}）：问题 {request_id}",
        ),
        "review.approved": ("its DAG was approved by {decided_by}", "其 DAG 已由 {decided_by} 批准"),
        "review.dropped": ("the review of its DAG was dropped", "其 DAG 的评审已取消"),
        "without": ("without {names}", "缺少 {names}"),
        "release.due": ("release {release_id} is being decided", "正在决定发布 {release_id}"),
        "release.approved": ("release {release_id}: approved", "发布 {release_id}：已批准"),
        "release.rejected": ("release {release_id}: rejected", "发布 {release_id}：被否决"),
        "release.revoked": ("release {release_id}: revoked", "发布 {release_id}：已撤销"),
        "not_isolated": (
            "{tasks} of the plan not isolated: an agent or a check ran without a sandbox",
            "计划中有 {tasks}未隔离：智能体或检查在没有沙箱的情况下运行",
        ),
        "disputes": ("{agent} disputes the check {check}: {decision}", "{agent} 对检查 {check} 有异议：{decision}"),
        "disputes_note": (
            "{agent} disputes the check {check}: {decision}: {note}",
            "{agent} 对检查 {check} 有异议：{decision}：{note}",
        ),
        "decided_by": ("{decision} by {who}", "{decision}，由 {who} 决定"),
        "reason": ("its reason: {why}", "理由：{why}"),
    },
)
"""The review of a plan's DAG, its release, and disputes of checks."""
INBOX: Final = make_table(
    "inbox",
    {
        "none": ("no open questions", "没有待处理的问题"),
        "for": ("for {agent}", "交给 {agent}"),
        "continues": ("the task continues", "任务继续"),
        "continues_later": (
            "the task continues with the next 'agenttalk run' or 'agenttalk serve'",
            "任务将随下一次 'agenttalk run' 或 'agenttalk serve' 继续",
        ),
        "still_missing": (
            "still missing: {names}; 'agenttalk inbox' shows the new question",
            "仍缺少：{names}；'agenttalk inbox' 显示新的问题",
        ),
        "answered": ("{request}: {decision}; {then}", "{request}：{decision}；{then}"),
        "in_force": (
            "the check stays in force until you change the plan: 'agenttalk plan apply FILE'",
            "在修改计划之前该检查仍然有效：'agenttalk plan apply FILE'",
        ),
        "no_decision": ("{text!r} is not a decision", "{text!r} 不是一种决定"),
        "no_answer": (
            "the answer is empty: give --decision, --file, --answer or --note",
            "回答是空的：请给出 --decision、--file、--answer 或 --note",
        ),
        "needs_more": (
            "{request} asks for files or options, not only for approval",
            "{request} 需要文件或选项，不只是批准",
        ),
        "needs_more_hint": (
            "use 'agenttalk answer' with --answer KEY and --file PATH; 'agenttalk inbox' shows which",
            "请用 'agenttalk answer'，加上 --answer KEY 和 --file PATH；'agenttalk inbox' 显示需要哪些",
        ),
    },
)
"""Questions to people and their answers."""
CHANGE: Final = make_table(
    "change_run",
    {
        "check": ("check", "检查"),
        "agent": ("agent", "智能体"),
        "from": ("from", "起点"),
        "protected": ("protected", "受保护"),
        "scope": ("scope", "范围"),
        "read-only": ("read-only", "只读"),
        "prepare": ("prepare", "准备"),
        "sandbox": ("sandbox", "沙箱"),
        "limits": ("limits", "限制"),
        "nothing": ("nothing", "无"),
        "submodules": ("the clone has no files of submodules: {paths}", "克隆中没有子模块的文件：{paths}"),
        "lfs": (
            "the clone has pointers instead of files of Git LFS: {paths}",
            "克隆中 Git LFS 文件只有指针：{paths}",
        ),
        "you": ("you, when the agent says that it is done", "由你在智能体声称完成时决定"),
        "check_in": ("{check} in {folder}", "{check}（在 {folder} 中）"),
        "found": ("({why})", "（{why}）"),
        "found_others": ("({why}; {others} found, --check names one)", "（{why}；还找到 {others}，可用 --check 指定）"),
        "feedback": ("(findings in AGENTTALK_FEEDBACK)", "（反馈在 AGENTTALK_FEEDBACK 中）"),
        "model": ("{agent}, model {model}", "{agent}，模型 {model}"),
        "dropped": ("(ours instead of {flags})", "（由我们的参数代替 {flags}）"),
        "no_sandbox": ("none: the agent can do what you can", "无：智能体能做你能做的一切"),
        "no_branch": ("no branch", "没有分支"),
        "base": ("{commit} ({branch})", "{commit}（{branch}）"),
        "base_uncommitted": ("{commit} ({branch}) with {files}", "{commit}（{branch}），含 {files}"),
        "proven": ("proven: {check} ({summary})", "已证明：{check}（{summary}）"),
        "not_proven": ("not proven: {check} ({summary})", "未证明：{check}（{summary}）"),
        "not_proven_by_any": ("not proven by any agent: {check}", "没有智能体能证明：{check}"),
        "sealed": ("in a sealed checkout", "在密封的检出中"),
        "succeeds": ("it succeeds", "成功"),
        "shown": ("it failed before the work; now, {where}: {now}", "工作之前它失败；现在，{where}：{now}"),
        "shown_green": ("now, {where}: {now}", "现在，{where}：{now}"),
        "green": ("nothing to prove: the check passes before the work", "无可证明：检查在工作之前已通过"),
        "green_hint": (
            "name a check that fails, or pass --already-green ok",
            "请指定一个未通过的检查，或加上 --already-green ok",
        ),
        "waiting": ("waits for a person: {why} ({summary})", "等待人处理：{why}（{summary}）"),
        "waiting_hint": (
            "agenttalk inbox --root {root}, and then the same command again",
            "agenttalk inbox --root {root}，然后再次运行同一命令",
        ),
        "interrupted": ("stopped; run the same command again to go on", "已停止；再次运行同一命令即可继续"),
        "question": ("a question is open", "有问题待答复"),
        "disputes": ("the agent disputes the check: {why}", "智能体对检查有异议：{why}"),
        "pull_request": ("pull request: {address}", "合并请求：{address}"),
        "no_pull_request": ("no pull request was opened: {why}", "没有创建合并请求：{why}"),
        "merged": ("merged into {branch} as {commit}", "已合并到 {branch}，提交 {commit}"),
        "not_merged": ("not merged: {why}{paths}", "未合并：{why}{paths}"),
        "taken": ("taken: {agent}", "采用：{agent}"),
        "race.proven": ("proven", "已证明"),
        "race.not proven": ("not proven", "未证明"),
        "race.green": ("green", "此前已通过"),
        "race.unable": ("unable", "无法检查"),
        "race.waiting": ("waiting", "等待中"),
        "race.failed": ("failed", "失败"),
        "race.interrupted": ("stopped", "已停止"),
    },
)
"""What `until` and `do` decide, and how they end."""
PROVE: Final = make_table(
    "prove",
    {
        "work": ("checking the work", "正在检查改动"),
        "held": ("checking the work with the tests as they were", "正在用原来的测试检查改动"),
        "base": ("checking the base", "正在检查起点"),
        "red": ("checking the base with the tests of the work", "正在用改动的测试检查起点"),
        "check": ("check: {command} ({why})", "检查：{command}（{why}）"),
    },
)
"""What `prove` does at the moment."""
STEER: Final = make_table(
    "steer",
    {
        "paused": ("paused; running tasks finish", "已暂停；正在运行的任务会做完"),
        "resumed": ("resumed", "已恢复"),
        "cancelled": ("cancelled", "已取消"),
        "again_from": ("runs again from {task} on", "从 {task} 起重新运行"),
        "retried": ("{task} is retried", "正在重试 {task}"),
        "stopped": ("{task} is stopped", "{task} 已中止"),
        "overridden": ("{task} may start; {checkpoint} is overridden", "{task} 可以开始；已越过 {checkpoint}"),
        "rework": ("{task}: {answer}", "{task}：{answer}"),
        "unchanged": ("nothing changed", "没有任何改变"),
    },
)
"""The result of an action on a plan or task."""
OPERATE: Final = make_table(
    "operate",
    {
        "backup": ("{file}: {count} files, written and verified", "{file}：{count} 个文件，已写入并核对"),
        "left_out": ("left out: {path}, because {why}", "未包含：{path}，原因：{why}"),
        "left_out_more": ("and {count} more; --json lists them", "另有 {count} 个；--json 会列出"),
        "restored": (
            "{root}: as it was at {at}; {count} files, the ledger intact",
            "{root}：恢复到 {at} 的状态；{count} 个文件，账本完整",
        ),
        "restored_turns": (
            "{count} turns were running; they start again with their plans",
            "当时有 {count} 次执行正在进行；它们随计划重新开始",
        ),
        "restored_texts": (
            "{count} texts may have been posted to forges since; the engine checks before it posts",
            "此后可能已有 {count} 条文字发布到代码托管平台；引擎发布前会先检查",
        ),
        "restored_schedules": (
            "paused schedules: {names}; 'agenttalk schedule resume NAME' resumes one",
            "已暂停的定时任务：{names}；'agenttalk schedule resume NAME' 可恢复其中一个",
        ),
        "restored_plans": (
            "paused: {names}; 'agenttalk resume PLAN' resumes one",
            "已暂停：{names}；'agenttalk resume PLAN' 可恢复其中一个",
        ),
        "schedule_added": ("{name} is added; next run at {at}", "{name} 已添加；下次运行：{at}"),
        "schedule_plan_file": ("its plan file is {file}", "它的计划文件是 {file}"),
        "schedule_paused": ("paused", "已暂停"),
        "schedule_next": ("next at {at}", "下次：{at}"),
        "schedule_last": ("last run: {plan}", "上次运行：{plan}"),
        "schedule_none": (
            "No schedules. Add one with 'agenttalk schedule add' or as {table} in agenttalk.toml.",
            "没有定时任务。用 'agenttalk schedule add' 添加，或在 agenttalk.toml 中写 {table}。",
        ),
        "schedule.pause": ("{name} is paused", "{name} 已暂停"),
        "schedule.resume": ("{name} is resumed", "{name} 已恢复"),
        "schedule.remove": ("{name} is removed", "{name} 已移除"),
        "schedule.run": ("{name} is submitted", "{name} 已提交"),
        "token_file": ("token {id} of {name} is in {file}", "{name} 的令牌 {id} 在 {file} 中"),
        "token_once": (
            "token {id} of {name}, {role}; it is shown only once",
            "{name} 的令牌 {id}（{role}）；只显示一次",
        ),
        "token_revoked": ("token {id} of {name} is revoked", "{name} 的令牌 {id} 已撤销"),
        "token_revoked_at": ("revoked {at}", "撤销于 {at}"),
        "setting_in_effect": ("{key} is in effect", "{key} 已生效"),
        "setting_restart": ("{key} takes effect after a restart of the engine", "{key} 在引擎重启后生效"),
        "setting_unchanged": ("nothing has changed", "没有变化"),
        "dead_letters_none": ("no dead letters", "没有死信"),
        "dead_letter_not_kept": ("its content was not kept", "其内容没有保留"),
        "dead_letter_more": ("… {count} more bytes; --raw writes all of them", "… 另有 {count} 字节；--raw 会全部写出"),
        "consistent": ("consistent: every message is in exactly one state", "一致：每条消息都恰好处于一个状态"),
        "republished": ("{count} files written from the store", "已从存储写出 {count} 个文件"),
        "gc_nothing": ("nothing to remove", "没有可清除的内容"),
        "gc_freed": ("{size} freed: {counts}", "已释放 {size}：{counts}"),
        "gc_dry_run": ("{size} would be freed: {counts}", "将释放 {size}：{counts}"),
        "disputed": ("{task}: {check} is disputed ({question})", "{task}：对 {check} 有异议（{question}）"),
        "disputed_until": (
            "a person decides; until then the check stays in force",
            "由人决定；在此之前该检查仍然有效",
        ),
        "letters_none": ("no letters", "没有信件"),
        "letters_more": ("for more: --before {number}", "更多：--before {number}"),
        "letter_sent": ("{letter} to {names}", "{letter} 发给 {names}"),
        "listening": ("{folder}: listening at {http} and {socket}", "{folder}：监听 {http} 和 {socket}"),
        "pages_link": ("Open the web pages (this link works once):", "打开网页（此链接只能用一次）："),
        "pages_login": (
            "To open the web pages, make a link with 'agenttalk login'",
            "要打开网页，请用 'agenttalk login' 生成链接",
        ),
    },
)
"""The results of commands with which an operator keeps up a root."""
SETUP: Final = make_table(
    "setup",
    {
        "tools": ("Coding agents: {names}.", "编程智能体：{names}。"),
        "no_tools": ("No coding agent was found here.", "这里没有找到编程智能体。"),
        "other_tools": ("--for adds others: {names}", "--for 可加入其他的：{names}"),
        "made": ("made", "已创建"),
        "added": ("extended", "已扩充"),
        "there": ("already there", "已存在"),
        "left": ("not changed", "未改动"),
        "to_make": ("new", "新建"),
        "to_add": ("to extend", "待扩充"),
        "to_leave": ("not to change", "不改动"),
        "removed": ("removed", "已删除"),
        "taken_out": ("the addition is out, the rest stays", "已去掉添加的内容，其余保留"),
        "gone": ("gone already", "早已不在"),
        "kept": ("left", "保留"),
        "not_removed": ("not removed", "未删除"),
        "new_token": (
            "lets it take its work; lies in your configuration folder",
            "凭它领取工作；保存在你的配置目录中",
        ),
        "write": ("Write this?", "写入这些内容吗？"),
        "remove": ("Remove this?", "删除这些内容吗？"),
        "nothing_written": ("nothing was written", "没有写入任何内容"),
        "by_hand": ("add this by hand:", "请手动添加："),
        "written": ("{count} written", "已写入 {count} 项"),
        "next_plan": (
            "Next: write your task into {file}, and have it done: agenttalk run",
            "下一步：把任务写入 {file}，然后运行：agenttalk run",
        ),
        "next_serve": ("Next: agenttalk serve --root {folder}", "下一步：agenttalk serve --root {folder}"),
        "made_by_init": ("made by init", "由 init 创建"),
        "extended_by_init": ("extended by init", "由 init 扩充"),
        "nothing_removed": ("nothing was removed", "没有删除任何内容"),
        "nothing_to_remove": (
            "nothing to remove: nothing is known that init added here",
            "没有可删除的内容：不知道 init 在这里添加过什么",
        ),
    },
)
"""What `agenttalk init` did, or would do."""
TOKEN_OF: Final = Template("setup.token_of", "token of {agent}", "{agent} 的令牌")
PURPOSES: Final = make_table(
    "setup_purpose",
    {
        "plan": ("a plan for this repository", "本仓库的计划"),
        "plan_with_check": (
            "a plan for this repository, which 'agenttalk run' carries out; its check: {check}",
            "本仓库的计划，由 'agenttalk run' 执行；其检查：{check}",
        ),
        "plan_without_check": (
            "a plan for this repository, which 'agenttalk run' carries out; no check was found: a person is asked",
            "本仓库的计划，由 'agenttalk run' 执行；没有找到检查：由人决定",
        ),
        "ignore": ("keeps the root out of git", "使根目录不进入 git"),
        "settings": (
            "the settings of the root, where the engine keeps its state",
            "根目录的设置；引擎在根目录中保存状态",
        ),
        "profile": ("{tool} as an agent that takes its work over MCP", "{tool}，通过 MCP 领取工作的智能体"),
        "guide": (
            "tells coding agents that are opened here about AgentTalk",
            "告诉在这里打开的编程智能体如何使用 AgentTalk",
        ),
        "server": ("AgentTalk's MCP tools for {tool}", "供 {tool} 使用的 AgentTalk 的 MCP 工具"),
        "claude": ("has Claude Code read AGENTS.md", "让 Claude Code 读取 AGENTS.md"),
        "skill": ("the skill {name}", "技能 {name}"),
    },
)
"""What an addition is for."""
OBSTACLES: Final = make_table(
    "setup_obstacle",
    {
        "no_repository": (
            "{why}; {hint}; then run 'agenttalk init' again",
            "{why}；{hint}；然后再次运行 'agenttalk init'",
        ),
        "top": ("it belongs to the top of the repository, {path}", "它应位于仓库的顶层 {path}"),
        "not_text": ("it is not UTF-8", "它不是 UTF-8"),
        "other_skill": (
            "it differs from ours; 'agenttalk skill install {name}' replaces it",
            "它与我们的不同；'agenttalk skill install {name}' 会替换它",
        ),
        "not_json": ("it is not plain JSON: {error}", "它不是普通的 JSON：{error}"),
        "not_object": ("it is not a JSON object", "它不是 JSON 对象"),
        "no_object_in_it": ("{key!r} is not an object in it", "其中的 {key!r} 不是对象"),
        "layout": ("rewriting it would change its layout", "重写会改变它的排版"),
        "not_toml": ("it is not TOML: {error}", "它不是 TOML：{error}"),
        "no_table": ("{key!r} cannot be added to it", "无法向其中添加 {key!r}"),
        "no_end": ("a table cannot be added at its end", "无法在它的末尾添加表"),
        "other_values": (
            "a table at its end would change its other values",
            "末尾的表会改变它的其他值",
        ),
        "entry_changed": ("its entry {key!r} was changed", "其中的条目 {key!r} 已被改动"),
        "piece_changed": ("what was added to it was changed", "添加的内容已被改动"),
        "piece_twice": ("it has the addition twice", "添加的内容出现了两次"),
        "changed": ("it was changed", "它已被改动"),
        "revoked": ("revoked", "已撤销"),
        "shared": ("{folder} uses it, too", "{folder} 也在使用它"),
        "running": ("an engine runs on it: end that, and repeat this", "有引擎在其上运行：请先结束引擎，再重复此命令"),
        "holds_more": (
            "it holds more than init made, such as {path}; if you need none of that, remove the folder yourself",
            "其中有 init 未创建的内容，例如 {path}；如果都不需要，请自行删除该目录",
        ),
        "file_changed": ("{file} in it was changed", "其中的 {file} 已被改动"),
        "other_tokens": ("it knows other tokens, such as that of {name}", "它还有其他令牌，例如 {name} 的令牌"),
    },
)
"""Why a file stays as it is, or what became of it."""
ERRORS: Final = make_table(
    "error",
    {
        "near": ("did you mean {name!r}?", "是否指 {name!r}？"),
        "no_plan": ("there is no plan {plan!r}", "没有计划 {plan!r}"),
        "no_plan_hint": ("'agenttalk status' lists all plans", "'agenttalk status' 可列出所有计划"),
        "task_name": ("invalid task {task!r}: expected PLAN/TASK", "任务 {task!r} 无效：应为 PLAN/TASK"),
        "task_name_hint": ("write e.g. shop/build", "例如 shop/build"),
        "no_root": ("no root found here", "这里没有找到根目录"),
        "no_root_hint": (
            "pass --root FOLDER or set AGENTTALK_ROOT, or run this in a folder that 'agenttalk init' has set up",
            "请给出 --root FOLDER 或设置 AGENTTALK_ROOT，或在 'agenttalk init' 设置过的目录中运行",
        ),
        "not_root": ("{folder} is not a root", "{folder} 不是根目录"),
        "not_root_hint": (
            "a root contains agents/ and system_runtime/; check --root and AGENTTALK_ROOT",
            "根目录包含 agents/ 和 system_runtime/；请检查 --root 和 AGENTTALK_ROOT",
        ),
        "no_plan_here": (
            "no plan was named, and there is no {plan} here",
            "没有指定计划，这里也没有 {plan}",
        ),
        "no_plan_in": (
            "no plan was named, and there is no {plan} here, and none at the top of the repository, {top}",
            "没有指定计划，这里没有 {plan}，仓库顶层 {top} 也没有",
        ),
        "no_plan_here_hint": (
            "name a plan file, or run 'agenttalk init', which writes one for this repository",
            "请指定计划文件，或运行 'agenttalk init'，它会为本仓库写一个",
        ),
        "plan_of_other": ("{path} belongs to another user", "{path} 属于另一个用户"),
        "plan_of_other_hint": ("name it: agenttalk run {path}", "请写出它：agenttalk run {path}"),
        "unreadable": ("cannot read {path}: {why}", "无法读取 {path}：{why}"),
        "unreadable_hint": ("check the path", "请检查路径"),
        "piped_hint": (
            "to pass JSON directly, pipe it in and write - for the file",
            "要直接传入 JSON，请用管道输入，并把文件写成 -",
        ),
        "no_repository_there": ("there is no repository {path}", "没有仓库 {path}"),
        "no_repository_there_hint": (
            "check workspace.repo in the plan, or create the repository first",
            "请检查计划中的 workspace.repo，或先创建该仓库",
        ),
        "no_input": ("there is no standard input", "没有标准输入"),
        "no_input_hint": ("name a file instead of -", "请用文件名代替 -"),
        "nothing_to_prove": (
            "there is nothing to prove: the work is the same as its base {base}",
            "没有可证明的内容：工作与其基准 {base} 相同",
        ),
        "nothing_to_prove_hint": (
            "name the commit that it started from: --base REF",
            "请指明它开始时的提交：--base REF",
        ),
        "empty_option": ("{option} is empty", "{option} 是空的"),
        "write_check": ("write e.g. --check 'pytest -q'", "例如 --check 'pytest -q'"),
        "no_check_anywhere": (
            "no check was found in this repository, neither at the base nor in the work",
            "在本仓库中没有找到检查，基准和工作中都没有",
        ),
        "no_check_anywhere_hint": (
            "name the command that checks it: --check 'pytest -q'",
            "请指明检查它的命令：--check 'pytest -q'",
        ),
        "race_prompt_hint": (
            "name one of them with its prompt, such as: -- claude -p 'Fix it'",
            "请写出其中一个及其提示，例如：-- claude -p 'Fix it'",
        ),
        "race_check": (
            "--race names the agents, and needs a check",
            "--race 指定智能体，并且需要一项检查",
        ),
        "race_agent": ("--race: there is no coding agent {name!r}", "--race：没有编程智能体 {name!r}"),
        "take_race": ("--take {take} needs --race", "--take {take} 需要 --race"),
        "take_race_hint": ("name the agents, such as --race claude,codex", "请指定智能体，例如 --race claude,codex"),
        "shell_hint": (
            "correct its quotes; in a shell, the whole check is one argument, such as 'pytest -q'",
            "请更正引号；在 shell 中整个检查是一个参数，例如 'pytest -q'",
        ),
        "race_prompt": ("--race needs the prompt for its agents", "--race 需要给智能体的提示"),
        "two_agents": ("--race needs two agents", "--race 需要两个智能体"),
        "two_agents_hint": ("write e.g. --race claude,codex", "例如 --race claude,codex"),
        "exclusive": ("{one} and {other} exclude each other", "{one} 和 {other} 不能同时使用"),
        "leave_out_one": ("leave out one", "请去掉其中之一"),
        "no_work_allowed": ("{option} {value:g} allows no work", "{option} {value:g} 不允许任何工作"),
        "no_work_allowed_hint": ("write e.g. {option} 5", "例如 {option} 5"),
        "not_given": ("--env: {name!r} cannot be handed over", "--env：不能传递 {name!r}"),
        "not_given_hint": (
            "write --env NAME; the value is that of your own environment",
            "请写 --env NAME；值取自你自己的环境",
        ),
        "unset": ("--env: {name!r} is not set", "--env：未设置 {name!r}"),
        "unset_hint": ("set it: export {name}=…", "请设置它：export {name}=…"),
        "shell_refuses": ("the shell cannot read the check: {why}", "shell 无法读取该检查：{why}"),
        "no_repository_in_plan": ("the plan works on no repository", "计划不在任何仓库上工作"),
        "no_take_uncommitted": ("leave out --take-uncommitted", "请去掉 --take-uncommitted"),
        "not_folder": ("{path} is not a folder", "{path} 不是目录"),
        "not_folder_hint": ("check --dir", "请检查 --dir"),
        "linked_root": (
            "{path} is a symbolic link that leads elsewhere",
            "{path} 是指向别处的符号链接",
        ),
        "linked_root_hint": ("name it, if it is right: --root FOLDER", "如果没有错，请写出来：--root FOLDER"),
        "root_in_way": (
            "cannot create {path}: a file of that name is in the way",
            "无法创建 {path}：已有同名文件",
        ),
        "cannot_create": ("cannot create {path}: {why}", "无法创建 {path}：{why}"),
        "named_twice": ("--for and --without both name {name}", "--for 和 --without 都写了 {name}"),
        "named_twice_hint": ("name it once", "请只写一次"),
        "agent_unknown_here": ("unknown coding agent {name!r}", "未知的编程智能体 {name!r}"),
        "options": ("there are: {names}", "可选：{names}"),
        "empty_check": ("the check is empty", "检查是空的"),
        "no_check_hint": ("name a command, such as 'pytest -q'", "请指定一个命令，例如 'pytest -q'"),
        "no_program": ("the program {program!r} was not found", "没有找到程序 {program!r}"),
        "no_program_hint": (
            "install it, or correct the command after --",
            "请安装它，或修正 -- 之后的命令",
        ),
        "install": ("install it: {how}", "安装方法：{how}"),
        "no_command": ("no command is named", "没有指定命令"),
        "no_command_hint": (
            "put it after --, such as: -- claude -p 'Fix it'",
            "请写在 -- 之后，例如：-- claude -p 'Fix it'",
        ),
        "no_agent": ("none of these is installed: {names}", "以下程序均未安装：{names}"),
        "agent_missing": ("{name} is not installed", "{name} 未安装"),
        "agent_unknown": ("there is no coding agent {name!r}", "没有编程智能体 {name!r}"),
        "agent_unknown_hint": (
            "there are: {names}; others: agenttalk until",
            "可选：{names}；其他程序：agenttalk until",
        ),
        "empty_goal": ("the goal is empty", "目标是空的"),
        "empty_goal_hint": ("say what is to be done", "请说明要做什么"),
        "merge_branch": (
            "--merge needs a branch, and none is checked out",
            "--merge 需要一个分支，而当前没有检出任何分支",
        ),
        "merge_branch_hint": ("switch to one: git switch NAME", "请切换到一个分支：git switch NAME"),
        "merge_clean": (
            "--merge needs a clean work tree, and this changed: {names}",
            "--merge 需要干净的工作区，而以下内容已改动：{names}",
        ),
        "merge_clean_hint": ("commit or stash it, or leave out --merge", "请提交或暂存（git stash），或去掉 --merge"),
        "no_check_found": ("no check was found in {folder}", "在 {folder} 中没有找到检查"),
        "no_check_found_hint": (
            "name it with --check, or decide yourself with --ask-me",
            "请用 --check 指定，或用 --ask-me 由你自己决定",
        ),
    },
)
"""Errors that many users meet first."""
_TABLES: Final = (
    *(COUNTS, TIMES, REMARKS, RUN, EXPLAIN, ROUNDS, STATUS),
    *(HONESTY, DAY, DECISIONS, INBOX, CHANGE, PROVE, STEER, OPERATE, SETUP, ERRORS),
)
_SINGLE: Final = (NO_PRICE, FAILED_TEST, AND_MORE, NOT_SERVED, OPEN_QUESTION, OPEN_QUESTIONS)
SENTENCES: Final[Mapping[str, Template]] = MappingProxyType(
    {sentence.id: sentence for sentence in (*_SINGLE, *(row for table in _TABLES for row in table.values()))}
)
"""Id → sentence. Commands name sentences by their ids, so that their help loads none of them."""
