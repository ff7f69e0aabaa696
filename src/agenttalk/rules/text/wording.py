"""Texts that rules put into documents, per locale."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Locale = Literal["en", "zh"]


class CommandWording(NamedTuple):
    """Default texts of a command."""

    rubric: str
    completed: str
    completed_with_score: str
    failed: str


COMMANDS: Final[dict[Locale, CommandWording]] = {
    "en": CommandWording(
        rubric=(
            "Score from 0 to 100 by completeness, clarity and testability: "
            "90-100 nothing is missing and every point can be tested; 70-89 small gaps; "
            "50-69 clear gaps; 0-49 cannot be used as it is."
        ),
        completed="Completed: {result}",
        completed_with_score="Completed with score {score}: {result}",
        failed="Failed: {error}",
    ),
    "zh": CommandWording(
        rubric=(
            "按完整性、清晰度和可测试性打分，范围 0-100："
            "90-100 没有遗漏且每一点都可测试；70-89 有小缺口；50-69 有明显缺口；0-49 无法直接使用。"
        ),
        completed="已完成：{result}",
        completed_with_score="已完成，得分 {score}：{result}",
        failed="执行失败：{error}",
    ),
}
