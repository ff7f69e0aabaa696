"""Accepts values of options and arguments that are plainly valid, without pydantic.

Typer has pydantic validate every value, and loading pydantic takes longer than a request to an engine. A text needs no
validation, nor do most paths. Typer validates all other values as usual.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_LOOK: Final = "get_runtime_param"
"""The attribute of typer's parameters that returns the validator. Without it, typer validates everything."""


def accept_plain_values(command: Any) -> None:
    """Have a command accept plainly valid values without validation."""
    listed = command.get_params

    def get_params(ctx: Any) -> Any:
        params = listed(ctx)  # includes --help, which typer creates in this call
        for param in params:
            _accept_plain_values_of(param)
        return params

    command.get_params = get_params


def _accept_plain_values_of(param: Any) -> None:
    described, look = getattr(param, "type_descriptor", None), getattr(param, _LOOK, None)
    taken_before = _LOOK in vars(param)
    if described is not None and look is not None and not taken_before and described.parameter_info.parser is None:
        setattr(param, _LOOK, _PlainValueCoercer(described.annotation, look).get_coercer)


class _PlainValueCoercer:
    """Replaces the validator of one parameter."""

    def __init__(self, kind: object, look: Callable[[], Any]) -> None:
        self._kind = kind
        self._look = look

    def get_coercer(self) -> _PlainValueCoercer:
        """Return the validator."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the command gets it. Raises what typer raises."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        right = _coerce_plain(self._kind, value)
        return self._look().coerce(value, param=param, ctx=ctx) if right is None else right


def _coerce_plain(kind: object, value: Any) -> Any:
    """Return a plainly valid value; None where typer must validate it."""
    if type(value) is kind:  # a text, or a default
        return value
    if kind is Path and isinstance(value, str) and (os.access(value, os.R_OK) or not Path(value).exists()):
        return Path(value)
    if kind == list[str] and isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return list(value)
    return None
