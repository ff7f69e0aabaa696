"""What is checked when a toolchain task ends, in words."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agenttalk.rules.prompts.wording import Locale

PROMISE_LINES: Final[Mapping[Locale, Mapping[str, str]]] = {
    "en": {
        "read_back": "reading the forge: what the steps demand happened there, by your account, after this task came",
        "has_action_report": "your action report",
        "has_output": "an output that you handed in",
        "has_comment": "a comment of at least 20 characters on this task",
        "delivered": "the notice having been stored for you",
        "turn_ended": "the end of your turn",
    },
    "zh": {
        "read_back": "读取代码平台：步骤要求的事情确实由你的账号在任务下达之后完成",
        "has_action_report": "你的 action report",
        "has_output": "你提交的产出",
        "has_comment": "本任务上一条至少 20 个字符的评论",
        "delivered": "通知已为你保存",
        "turn_ended": "你的这一轮已经结束",
    },
}
