"""The receivers of notices, from the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agenttalk.adapters.store import operator_folder
from agenttalk.adapters.telemetry import notice_sender
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.notifications import NoticeResult, NotificationTarget, Notifier
from agenttalk.rules.core.http_addresses import read_allowed
from agenttalk.rules.operation import notices
from agenttalk.wiring.settings import Settings


def make_notifier(root: Path, deps: Deps, settings: Settings) -> Notifier | None:
    """Make the notifier; None without receivers. Raises UsageError when a variable is not set."""
    if not settings.notify:
        return None
    targets = [
        NotificationTarget(
            name,
            each.url or _variable(f"notify.{name}.url_env", each.url_env),
            each.kind,
            frozenset(each.events),
            _signing_secret(name, each.secret_env),
            each.allow,
        )
        for name, each in settings.notify.items()
    ]
    return Notifier(deps, targets, _post, source=f"urn:agenttalk:{operator_folder.root_name(root)}")


async def _post(target: NotificationTarget, headers: Mapping[str, str], body: bytes) -> NoticeResult:
    allowed = [read_allowed(each) for each in target.allow]
    return NoticeResult(*await notice_sender.send_notice(target.url, headers, body, allowed=allowed))


def _signing_secret(name: str, variable: str | None) -> str | None:
    """Read the secret that signs notices to a receiver. Raises UsageError when it is invalid."""
    if not variable:
        return None
    setting = f"notify.{name}.secret_env"
    secret = _variable(setting, variable)
    try:
        notices.decode_secret(secret)
    except UsageError as error:
        raise UsageError(error.code, f"{setting} ({variable}): {error.message}", hint=error.hint) from None
    return secret


def _variable(setting: str, name: str | None) -> str:
    """Read the variable that a setting names."""
    value = os.environ.get(name or "", "")
    if not value:
        raise UsageError(Code.FIELD_VALUE, f"{setting} names {name}, which is not set", hint=f"set {name}")
    return value
