"""Finds the secrets that agents were given in texts that are stored, and redacts them.

It searches for a secret as it is, quoted, and encoded as base64, hexadecimal digits, part of an address, HTML or JSON.
It cannot find other disguises: a program that has a secret can always encode it in an unknown way.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from agenttalk.rules.text.message import Message, Parameter

SHORTEST: Final = 6
"""The least characters of a secret. Shorter values appear in too many texts by chance."""
_CORE: Final = 8
"""Characters of base64 that are enough to recognise a secret within a longer text."""
_ORDINARY: Final = re.compile(
    r"""
    (?: PATH | HOME | LANG | LANGUAGE | LC_.* | TZ | TERM | SHELL | USER | LOGNAME | PWD | TMPDIR | EDITOR | CI )
    | .*_(?: HOME | PATH | DIR | FILE | LOCALE | REGION | MODEL | ENV | VERSION | HOST | PORT | LEVEL )
    | .*_(?: URL | ENDPOINT | PROXY )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Names of variables for places, languages and options, whose values are not secret."""
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable is a secret. An address that contains a password is one."""
    if len(value) < SHORTEST:
        return False
    return _ORDINARY.fullmatch(name) is None or ("://" in value and "@" in value)


@dataclass(frozen=True, slots=True)
class Secrets:
    """Values that must not be stored, by the names of their variables."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    _names: Mapping[str, str] = field(init=False, repr=False, default_factory=dict)
    _raw: Mapping[bytes, str] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Compute every spelling of the values once."""
        names = {spelling: name for name, value in self.values.items() for spelling in _spellings(value)}
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_raw", {_encoded(spelling): name for spelling, name in names.items()})

    def __bool__(self) -> bool:
        return bool(self._names)

    @property
    def longest(self) -> int:
        """Bytes of the longest spelling. A caller that reads piece by piece must overlap the pieces by this much."""
        return max(map(len, self._raw), default=0)

    def redact(self, text: str) -> str:
        """Replace the secrets in a text by marks. A message stays one, with its parameters redacted."""
        if isinstance(text, Message):
            params = {name: self._redact_parameter(value) for name, value in text.params.items()}
            text = text if params == text.params else Message(text.template, params)
        present = [spelling for spelling in self._names if spelling in text]  # cheap, and most texts have none
        if not present:
            return text
        pattern = "|".join(map(re.escape, sorted(present, key=len, reverse=True)))
        return re.sub(pattern, lambda match: _mark(self._names[match[0]]), text)

    def _redact_parameter(self, value: Parameter) -> Parameter:
        if isinstance(value, tuple):
            return tuple(self.redact(part) for part in value)
        return self.redact(value) if isinstance(value, str) else value

    def redact_bytes(self, data: bytes) -> bytes:
        """Replace the secrets in bytes by marks."""
        present = [spelling for spelling in self._raw if spelling in data]
        if not present:
            return data
        pattern = b"|".join(map(re.escape, sorted(present, key=len, reverse=True)))
        return re.sub(pattern, lambda match: _mark(self._raw[match[0]]).encode(), data)

    def mask_bytes(self, data: bytes) -> bytes:
        """Replace the secrets in bytes by as many asterisks, so that offsets stay what they are."""
        for spelling in sorted((each for each in self._raw if each in data), key=len, reverse=True):
            data = data.replace(spelling, b"*" * len(spelling))
        return data

    def redact_json(self, value: Any) -> Any:
        """Replace the secrets in a JSON value by marks, in names of fields too."""
        if not self:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact(str(key)): self.redact_json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.redact_json(item) for item in value)
        return value

    def find_name(self, data: bytes) -> str | None:
        """Return the name of a secret that the bytes contain, or None."""
        return next((name for spelling, name in self._raw.items() if spelling in data), None)


NO_SECRETS: Final = Secrets()


def collect_secrets(handed: Mapping[str, str]) -> Secrets:
    """Select the secrets among the variables that an agent gets."""
    return Secrets({name: value for name, value in handed.items() if is_secret(name, value)})


def extract_secret_part(token: str) -> str:
    """Return the random part of a token. The part before it is public."""
    return token.rpartition(".")[2]


def _mark(name: str) -> str:
    return f"[redacted {name}]"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@lru_cache(maxsize=256)
def _spellings(value: str) -> tuple[str, ...]:
    """Return the spellings in which a value may appear in a text."""
    return tuple(dict.fromkeys(_spelled(value)))


def _spelled(value: str) -> Iterator[str]:
    data = _encoded(value)
    yield value
    for escaped in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
    yield value.replace("\\", "\\\\").replace("'", "\\'")  # in single quotes, of most languages and of a shell
    yield value.replace("'", "'\\''")
    yield value.replace("'", "'\"'\"'")
    yield html.escape(value)
    yield html.escape(value, quote=False)
    for also in (b"", b"/", b":/?#[]@!$&'()*+,;="):
        quoted = "".join(chr(byte) if byte in _UNRESERVED or byte in also else f"%{byte:02X}" for byte in data)
        yield quoted
        yield re.sub("%..", lambda match: match[0].lower(), quoted)
        yield quoted.replace("%20", "+")
    yield data.hex()
    yield data.hex().upper()
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + data).decode()
        core = whole[(0, 2, 3)[shift] : (shift + len(data)) * 8 // 6]
        if len(core) >= _CORE:
            yield core
            yield core.replace("+", "-").replace("/", "_")
