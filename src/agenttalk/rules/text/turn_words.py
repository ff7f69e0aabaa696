"""How a turn ended that left nothing to judge, and what budgets and accounts allow, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template, make_table

EXIT: Final = Template("turn.exit", "exit code {code}", "退出码 {code}")
EXIT_BY_SIGNAL: Final = Template(
    "turn.exit_by_signal", "exit code {code} (ended by {signal})", "退出码 {code}（被 {signal} 终止）"
)
ENDED_BY: Final = Template("turn.ended_by", "ended by {signal}", "被 {signal} 终止")
NO_WORD: Final = Template("turn.no_word", "it said nothing", "没有任何输出")
OVER_BUDGET: Final = Template(
    "turn.over_budget",
    "it was ended because {why}; have it use less, or raise the limit in the agent's profile",
    "已被终止，因为{why}；请让它少用一些，或在智能体配置中提高限额",
)
PRINTED: Final = Template("turn.printed", "it printed more than {size}", "输出超过 {size}")
TOO_MANY: Final = Template(
    "turn.too_many", "it had more than {count:,} processes and threads", "进程和线程超过 {count:,} 个"
)
MEMORY: Final = Template(
    "turn.memory", "its processes took more than {size} of memory together", "其进程合计占用内存超过 {size}"
)
LATE: Final = Template(
    "turn.late",
    "it was ended after {seconds:g} seconds; give it more time or less to do",
    "{seconds:g} 秒后被终止；请给它更多时间，或减少要做的事",
)
LATE_ELSEWHERE: Final = Template(
    "turn.late_elsewhere", "it was ended after {seconds:g} seconds", "{seconds:g} 秒后被终止"
)
LOST: Final = Template(
    "turn.lost", "{agent} was silent for {seconds:g} seconds", "已有 {seconds:g} 秒没有 {agent} 的消息"
)
LOST_BY_WORKER: Final = Template(
    "turn.lost_by_worker", "the worker {worker} lost the attempt", "工作机 {worker} 丢失了这次尝试"
)
LOG_HOLE: Final = Template(
    "turn.log_hole", "the last {bytes:,} bytes of this log did not arrive", "此日志的最后 {bytes:,} 字节没有送达"
)
WORKER_FAILS: Final = Template(
    "turn.worker_fails",
    "it failed {count:,} times in a row by itself; repair it, then 'agenttalk worker resume'",
    "它自身连续失败 {count:,} 次；请先修复，再运行 'agenttalk worker resume'",
)
VERIFIER_FORGES: Final = Template(
    "turn.verifier_forges",
    "it sent a result whose signature or machine is not its own; enrol it anew if that was a mistake",
    "它发来的结果，其签名或机器与它不符；如属误会，请重新登记",
)
VERIFIER_LIES: Final = Template(
    "turn.verifier_lies",
    "it answered wrongly what the engine knew ({found}): it lies, or checks do not run there; repair it, "
    "then 'agenttalk worker resume'",
    "对引擎已知答案的检查，它给出了错误结果（{found}）：它在说谎，或检查在那里无法运行；请先修复，"
    "再运行 'agenttalk worker resume'",
)
EVIDENCE_DISTRUSTED: Final = Template(
    "turn.evidence_distrusted",
    "the verifier {worker} is not trusted any more ({why}); what it checked since it was last tried is stale: {tasks}",
    "不再信任验证机 {worker}（{why}）；自上次检验以来它检查过的内容已过期：{tasks}",
)
NO_REPOSITORY: Final = Template(
    "turn.no_repository",
    "this engine serves no repository to a remote agent; have it make outputs",
    "此引擎不向远程智能体提供仓库；请让它产出输出",
)
UNSUPPORTED: Final = make_table(
    "turn.unsupported",
    {
        "driver": ("the driver {driver!r} is not supported here", "此处不支持驱动 {driver!r}"),
        "checks": ("checks and repositories are not supported here", "此处不支持检查和仓库"),
        "programs": (
            "programs run on Linux only, where all their processes can be tracked",
            "程序只能在 Linux 上运行，那里可以跟踪它们的所有进程",
        ),
        "sandbox": (
            "the driver {driver!r} does not support a sandbox; leave out sandbox and network, or use script",
            "驱动 {driver!r} 没有沙箱；请去掉 sandbox 和 network，或使用 script",
        ),
        "isolation": (
            "isolation is required, and the driver {driver!r} runs inside the engine; use script",
            "要求隔离，而驱动 {driver!r} 在引擎内运行；请使用 script",
        ),
    },
)
"""What is not there for a turn."""
KEEPER: Final = make_table(
    "turn.keeper",
    {
        "ended": (
            "its keeper ended before it was started: {output}",
            "看护进程在它启动之前就结束了：{output}",
        ),
        "killed": ("its keeper was killed, and then its processes", "看护进程被杀死，随后它的进程也被终止"),
        "sandbox": (
            "the sandbox or the program in it cannot be started: {output}",
            "沙箱或其中的程序无法启动：{output}",
        ),
        "machine": (
            "the machine cannot start another process: {error}; try again later",
            "机器无法再启动进程：{error}；请稍后再试",
        ),
    },
)
"""What happened to the process that watches a program."""
NOT_STARTED: Final = make_table(
    "turn.not_started",
    {
        "sandbox": (
            "the program could not be confined ({error}), so it was not started",
            "无法限制该程序（{error}），所以没有启动它",
        ),
        "cwd": (
            "the working directory {path!r} cannot be entered ({error}); make it a folder",
            "无法进入工作目录 {path!r}（{error}）；请把它建成文件夹",
        ),
        "missing": (
            "{program!r} was not found, or the interpreter in its first line was not; install it or correct argv",
            "找不到 {program!r}，或找不到其首行所写的程序；请安装它或更正 argv",
        ),
        "not_executable": (
            "{program!r} may not be executed; make it executable (chmod +x) or name its interpreter in argv",
            "{program!r} 不可执行；请加上执行权限（chmod +x），或在 argv 中写明其解释器",
        ),
        "no_program": (
            "{program!r} is not a program; begin it with a #! line or name its interpreter in argv",
            "{program!r} 不是程序；请以 #! 行开头，或在 argv 中写明其解释器",
        ),
        "too_long": (
            "the arguments and the environment of {program!r} are too long; hand over large texts as files",
            "{program!r} 的参数和环境变量过长；请用文件传递大段文本",
        ),
        "other": ("{program!r} cannot be started: {error}", "{program!r} 无法启动：{error}"),
    },
)
"""Why a program was not started, and what to do about it."""
AGENT_FAILED: Final = Template("turn.agent_failed", "the agent failed: {error}", "智能体失败：{error}")
NO_LOGIN: Final = Template(
    "turn.no_login", "no key is set and there is no login: {remedy}", "没有设置密钥，也没有登录：{remedy}"
)
NOT_ANSWERED: Final = Template("turn.not_answered", "it had not answered {method}", "它没有回答 {method}")
PERSON_SILENT: Final = Template(
    "turn.person_silent", "a person had not answered {question!r}", "还没有人回答 {question!r}"
)
NO_END: Final = Template("turn.no_end", "its program ended without an answer", "它的程序结束了，却没有给出回答")
NO_FUNCTION: Final = Template(
    "turn.no_function", "no function is registered for the agent {agent!r}", "没有为智能体 {agent!r} 注册函数"
)
NO_SCORE: Final = Template(
    "turn.no_score", "the answer has no score, and one is required", "回答没有分数，而分数是必需的"
)
BAD_SCORE: Final = Template(
    "turn.bad_score",
    "the score {score!r} is not a number from 0 to 100",
    "分数 {score!r} 不是 0 到 100 之间的数",
)
NO_MODEL_KEY: Final = Template(
    "turn.no_model_key",
    "the variable {name}, which holds the key of its service, is not set where the engine runs",
    "引擎运行处没有设置变量 {name}，其中应有该服务的密钥",
)
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
