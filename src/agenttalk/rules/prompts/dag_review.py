"""The prompts that ask agents to review a DAG, and to decide on the reviews."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final, NamedTuple

from agenttalk.rules.prompts.wording import Locale


class ReviewWording(NamedTuple):
    """What the prompts of a review say."""

    review: str
    criteria: str
    threshold: str
    answer: str
    decide: str
    decision: str


REVIEW: Final[dict[Locale, ReviewWording]] = {
    "en": ReviewWording(
        review=(
            "Review the plan in the input task_dag before the work begins. Look for tasks that are missing or not "
            "needed, wrong order, inputs that no task makes, work given to the wrong agent, and tasks whose promise "
            "would not show that they are done."
        ),
        criteria="Measure it by this: {text}",
        threshold="Less than {score} of 100 points sends it back.",
        answer=(
            'Write the output as one JSON object: {"score": 0, "decision": "APPROVE, REVISE or REJECT", '
            '"issues": [{"severity": "HIGH, MEDIUM or LOW", "description": "what is wrong", "location": "task", '
            '"suggestion": "what would mend it"}]}'
        ),
        decide=(
            "Decide whether the plan in the input task_dag may be worked on. The input reviews holds what its "
            "reviewers say; weigh it."
        ),
        decision=(
            'Write the output as one JSON object: {"decision": "APPROVE, REVISE or REJECT", "reason": "why"}. '
            "Nothing of the plan begins unless you approve."
        ),
    ),
    "zh": ReviewWording(
        review=(
            "在任何人开始执行之前，评审输入 task_dag 中的计划。检查是否有缺失或多余的任务、顺序错误、没有来源的输入、"
            "分配给不合适智能体的工作，以及承诺不足以证明完成的任务。"
        ),
        criteria="评审标准：{text}",
        threshold="低于 {score} 分（满分 100）将被退回。",
        answer=(
            '将输出写成一个 JSON 对象：{"score": 0, "decision": "APPROVE、REVISE 或 REJECT", '
            '"issues": [{"severity": "HIGH、MEDIUM 或 LOW", "description": "问题", "location": "任务", '
            '"suggestion": "如何改进"}]}'
        ),
        decide="决定输入 task_dag 中的计划是否可以执行。输入 reviews 是评审者的意见，请加以权衡。",
        decision=(
            '将输出写成一个 JSON 对象：{"decision": "APPROVE、REVISE 或 REJECT", "reason": "理由"}。'
            "只有批准后，计划中的任务才会开始。"
        ),
    ),
}


def render_review_prompt(criteria: str | None, min_score: float, *, locale: Locale = "en") -> str:
    """Render the prompt of a reviewer."""
    words = REVIEW[locale]
    lines = [words.review, *([words.criteria.format(text=criteria)] if criteria else [])]
    return "\n".join([*lines, words.threshold.format(score=f"{min_score:g}"), words.answer])


def render_coordination_prompt(*, locale: Locale = "en") -> str:
    """Render the prompt of a coordinator."""
    words = REVIEW[locale]
    return f"{words.decide}\n{words.decision}"
