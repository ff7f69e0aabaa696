"""The context of a prompt, which every kind of task gives to the makers of its prompt."""

from __future__ import annotations

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.ports.kinds import KindTask
from agenttalk.rules.prompts.context import PromptContext


def make_prompt_context(board: str, task: KindTask, *, fence: str, locale: Locale) -> PromptContext:
    """Collect what the prompt of a board's task needs; a kind adds its own parts."""
    return PromptContext(
        board=board,
        task_id=task.task_id,
        agent_id=task.agent_id,
        title=task.title,
        description=task.description,
        event_type=task.action_type,
        action_type=task.action_type,
        event_data=task.context,
        sender=task.sender,
        fence=fence,
        locale=locale,
    )
