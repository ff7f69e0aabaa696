"""The engine's questions to people: titles, questions and options, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template, make_table

OPTIONS: Final = make_table(
    "option",
    {
        "abort": ("abort", "中止"),
        "accept": ("accept", "按现状接受"),
        "access given": ("access given", "已授予访问权限"),
        "approve": ("begin anyway", "仍然开始"),
        "call off": ("call it off", "取消"),
        "dismissed": ("the check is right", "检查是对的"),
        "give up": ("give up", "放弃"),
        "grant 1": ("grant 1", "再给 1 轮"),
        "grant 2": ("grant 2", "再给 2 轮"),
        "grant 3": ("grant 3", "再给 3 轮"),
        "deleted": ("deleted", "已删除"),
        "drop": ("drop", "丢弃"),
        "allow": ("allow it once", "允许一次"),
        "override": ("override", "放行"),
        "post": ("post", "发布"),
        "refuse": ("refuse it", "拒绝"),
        "replan": ("replan", "重新规划"),
        "retry": ("retry", "重试"),
        "run": ("run", "照样运行"),
        "seen": ("seen", "已知悉"),
        "skip": ("skip", "跳过"),
        "upheld": ("the check is wrong", "检查有误"),
    },
)
"""What an option means, where that is not its key."""
WHICH_INPUT: Final = Template(
    "question.which_input", "Which one is the input {name!r} of {task}?", "{task} 的输入 {name!r} 是哪一个？"
)
RUN_ANYWAY: Final = Template("question.run_anyway", "{why}: should {task} run anyway?", "{why}：{task} 仍要运行吗？")
NEEDS: Final = Template("question.needs", "{task} needs {names}", "{task} 需要 {names}")
OTHER_PLAN: Final = Template(
    "question.other_plan",
    "{failed} failed, and {task} needs another plan",
    "{failed} 失败，{task} 需要另一个计划",
)
AWAITS_PLAN: Final = Template(
    "question.awaits_plan",
    "{task} waits for another plan: 'agenttalk plan apply FILE' puts it in force",
    "{task} 等待另一个计划：'agenttalk plan apply FILE' 使其生效",
)
HOLDS_UP: Final = Template(
    "question.holds_up", "{checkpoint} does not let {task} start: {why}", "{checkpoint} 拦下了 {task}：{why}"
)
STILL_HELD: Final = Template("question.still_held", "{task} is still held up: {why}", "{task} 仍被拦下：{why}")
NO_ROUND: Final = Template(
    "question.no_round",
    "{task} has no round of rework left. Grant more rounds, accept it as it is, or abort?",
    "{task} 没有返工轮次了。再给几轮、按现状接受还是中止？",
)
UNCHANGED: Final = Template(
    "question.unchanged",
    "{task} came back with the same issues unchanged. Grant more rounds, accept it as it is, or abort?",
    "{task} 返工后问题依旧。再给几轮、按现状接受还是中止？",
)
ANSWER_FAILED: Final = Template(
    "question.answer_failed",
    "{title} (the last answer could not be carried out: {why})",
    "{title}（上次的回答无法执行：{why}）",
)
DAG_NOT_APPROVED: Final = Template(
    "question.dag_not_approved",
    "The DAG of {plan} is not approved. Should it begin anyway?",
    "{plan} 的 DAG 未获批准。仍要开始吗？",
)
DAG_RULING: Final = Template(
    "question.dag_ruling",
    "{decision} by {by}:\n- {reasons}\nThe DAG has the hash {hash}.",
    "{by} 的裁定 {decision}：\n- {reasons}\nDAG 的哈希是 {hash}。",
    ("\n- ", "\n- "),
)
DAG_REVIEW: Final = make_table(
    "question.dag_review",
    {
        "low": (
            "{reviewer} gives {score:g}; at least {least:g} is required",
            "{reviewer} 打了 {score:g} 分，而最低要求是 {least:g} 分",
        ),
        "vote": ("{reviewer} says {decision}: {issue}", "{reviewer} 的结论是 {decision}：{issue}"),
        "absent": ("{reviewer} gave no review: {why}", "没有 {reviewer} 的意见：{why}"),
        "default": ("as reviews are missing, the decision is {decision}", "意见不全时以 {decision} 为准"),
        "approved": ("approved by {by}", "由 {by} 批准"),
        "silent": ("it said nothing", "没有任何输出"),
        "no_issue": ("it names no issue", "没有指出问题"),
        "no_object": ("it is not a JSON object", "不是 JSON 对象"),
        "other_dag": ("it is about another DAG", "针对的是另一个 DAG"),
        "other_author": ("it was written for {agent}", "它代表的是 {agent}"),
        "no_decision": ("its decision is not one of {decisions}", "其结论不是 {decisions} 之一"),
        "task_state": ("its task is {state}", "其任务的状态是 {state}"),
        "task_gone": ("its task is gone", "其任务已不存在"),
        "not_delivered": ("it delivered no {name}", "没有交付 {name}"),
    },
)
"""Why a DAG was approved or not."""
CHECK_IS_WRONG: Final = Template(
    "question.check_is_wrong",
    "{agent} says that the check {check!r} of {task} is wrong",
    "{agent} 认为 {task} 的检查 {check!r} 有误",
)
UPHELD_MEANS: Final = Template(
    "question.upheld_means",
    "it stays in force until you change the plan: agenttalk plan apply FILE",
    "在你修改计划之前它仍然有效：agenttalk plan apply FILE",
)
DISMISSED_MEANS: Final = Template(
    "question.dismissed_means",
    "the agent gets this with your note when it continues",
    "智能体继续时会收到这个结论和你的备注",
)
WORK: Final = Template(
    "question.work",
    "{question}\n(task {task}; what is judged has the hash {hash})",
    "{question}\n（任务 {task}；所评判内容的哈希是 {hash}）",
)
INPUT_GOOD: Final = Template(
    "question.input_good",
    "Is the input {name!r} of {task} good enough to work with?",
    "{task} 的输入 {name!r} 足够好、可以使用吗？",
)
INPUT_MEETS: Final = Template(
    "question.input_meets",
    "Is the input {name!r} of {task} good enough to work with: {criteria}?",
    "{task} 的输入 {name!r} 足够好、可以使用吗：{criteria}？",
)
NO_JUDGEMENT: Final = Template(
    "question.no_judgement",
    "{question} {agent} was asked {count} times and gave no judgement that can be read.",
    "{question} {agent} 被问了 {count} 次，没有给出可读的评判。",
)
STEP: Final = Template("question.step", "step {step}: {reason}", "步骤 {step}：{reason}")
STEPS_APPLY: Final = Template(
    "question.steps_apply",
    "Do these steps of {title!r} not apply? {steps}. Seen: {seen}",
    "{title!r} 的这些步骤不适用吗？{steps}。所见：{seen}",
)
LEAD_STEPS_APPLY: Final = Template(
    "question.lead_steps_apply",
    "{lead}: do these steps of {title!r} not apply? {steps}. Seen: {seen}",
    "{lead}：{title!r} 的这些步骤不适用吗？{steps}。所见：{seen}",
)
DISPUTED: Final = Template(
    "question.disputed",
    "{agent} says that the check {check!r} of {task} is wrong.\n"
    "The check stays as it is until you change the plan, and the task continues meanwhile.\n\n"
    "Its reason, in its own words:\n{reason}\n\nThe check ({kind}): {described}\n{last}",
    "{agent} 认为 {task} 的检查 {check!r} 有误。\n"
    "在你修改计划之前检查保持不变，任务同时继续。\n\n"
    "它的理由（原话）：\n{reason}\n\n检查（{kind}）：{described}\n{last}",
)
NOT_CHECKED_YET: Final = Template(
    "question.not_checked_yet", "This task has not been checked by it yet.", "还没有对该任务做过这项检查。"
)
LAST_TIME: Final = make_table(
    "question.last_time",
    {
        "passed": ("Last time it passed", "上次通过了"),
        "failed": ("Last time it did not pass", "上次没有通过"),
    },
)
IT_PRINTED: Final = Template("question.it_printed", "It printed:\n{output}", "它的输出：\n{output}")
MAY: Final = Template(
    "question.may", "May {agent} do this for {task}: {line}", "{agent} 可以为 {task} 做这件事吗：{line}"
)
MISSING_INPUTS: Final = Template(
    "question.missing_inputs", "{task}: {count} missing input(s)", "{task}：缺少 {count} 个输入"
)
NOT_FIT: Final = Template("question.not_fit", "{agent} is not fit for {task}", "{agent} 不适合做 {task}")
WHO_SHALL: Final = Template(
    "question.who_shall",
    "{why}\nWho shall do it? Send another command.",
    "{why}\n该由谁来做？请另发一条命令。",
)
NO_HASH: Final = Template("question.no_hash", "a file has no hash", "有一个文件没有哈希")
NOTHING_TO_COMPARE: Final = make_table(
    "question.nothing_to_compare",
    {
        "latest_by_delivered_at": ("there is no delivery time to choose by", "没有可供比较的送达时间"),
        "first_seen": ("there is no delivery time to choose by", "没有可供比较的送达时间"),
        "highest_score": ("there is no score to choose by", "没有可供比较的分数"),
    },
)
"""Why a policy cannot choose, by policy; the others compare nothing."""
EQUAL: Final = Template(
    "question.equal", "{count} artifacts are equal by {policy}", "按 {policy} 比较，有 {count} 个工件相同"
)
SEVERAL_FILES: Final = Template(
    "question.several_files", "the artifact has several files of that name", "该工件中有多个同名文件"
)
TWO_CONTENTS: Final = Template(
    "question.two_contents", "there are two contents of {path!r}", "{path!r} 有两种不同的内容"
)
UNNAMEABLE: Final = Template(
    "question.unnameable",
    "a command cannot name its files: a path is missing, too long or malformed",
    "命令无法写出它的文件：有路径缺失、过长或格式错误",
)


def label_option(key: str) -> str:
    """Return what an option means; an option without a meaning of its own means its key."""
    return OPTIONS[key]() if key in OPTIONS else key
