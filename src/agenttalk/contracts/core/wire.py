"""JSON as bytes: read strictly, written in one canonical form, and hashed.

Reading refuses everything that two programs could read differently: NaN and Infinity (also by
overflow), a key twice in one object, half characters, a byte order mark, nesting deeper than
`MAX_DEPTH`, and documents over their size limit. Writing sorts keys by code point, uses no
white space and keeps every character as it is (UTF-8), so equal documents have equal bytes.
"""

from __future__ import annotations

import hashlib
import json.encoder
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Final, NoReturn, TypeAlias

from agenttalk.contracts.core.large_documents import pause_collector
from agenttalk.contracts.errors import Code, JsonError

JsonValue: TypeAlias = "dict[str, Any] | list[Any] | str | int | float | bool | None"
"""Any JSON value. The inner values are `Any` because callers narrow them at once."""
JsonObject: TypeAlias = dict[str, Any]
"""A JSON object whose fields are defined elsewhere, or nowhere."""

MAX_DEPTH: Final = 64
MAX_INTEGER: Final = 2**53 - 1
"""Larger integers do not survive every JSON reader."""
ENVELOPE_LIMIT: Final = 1024 * 1024
"""Size limit of a message envelope, and of a command on its own, in bytes."""
DOCUMENT_LIMIT: Final = 256 * 1024 * 1024
"""Size limit of every other document (a DAG of 100,000 tasks has some 50 MB)."""

_LARGE: Final = 64 * 1024
"""Texts with more characters are searched for duplicate keys in all objects at once."""
_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_NO_MARKS: Final = bytes(each for each in range(256) if each not in b'"[]{}')
_KEY_END = re.compile(r'"[ \t\n\r]*:')
_MAX_DIGITS = 4000
_INTEGER_LIMIT: Final = 10**_MAX_DIGITS


def read(data: bytes, *, limit: int = ENVELOPE_LIMIT) -> JsonValue:
    """Parse bytes strictly. Raises JsonError and nothing else."""
    if len(data) > limit:
        raise JsonError(
            Code.JSON_TOO_LARGE,
            f"the document has {len(data):,} bytes; the limit is {limit:,}",
            hint="pass large content as a payload file and refer to it by path",
        )
    if data.startswith(_BOM):
        raise JsonError(
            Code.JSON_SYNTAX,
            "the document begins with a byte order mark",
            hint="save the file as UTF-8 without BOM",
        )
    with pause_collector():
        value = _parse(data)
        # Most documents cannot be too deep or contain half characters; only the others are walked.
        if _SURROGATE_ESCAPE.search(data):
            require_json(value)
        elif len(data) > 2 * MAX_DEPTH and not _is_plainly_shallow(data):
            _require_depth(value)
    return value


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _encoder() -> Callable[[Any], str]:
    """Make the encoder's own `encode` once. A value that contains itself is too deep, so cycles need no check."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _ENCODER.encode
    parts = make(None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(parts(value, 0))


_canonical = _encoder()


def write(value: object) -> bytes:
    """Return the canonical form: sorted keys, no white space, UTF-8. Raises JsonError if JSON cannot contain it."""
    try:
        return _canonical(value).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise _unwritable(error) from error


quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring
"""Return a text as the canonical form has it."""


def to_text(value: object) -> str:
    """Return the canonical form as text, to be put into a larger one."""
    try:
        return _canonical(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise _unwritable(error) from error


def object_of(texts: Mapping[str, str]) -> str:
    """Return the canonical form of an object whose values are in canonical form already."""
    return f"{{{','.join([f'{quoted(name)}:{texts[name]}' for name in sorted(texts)])}}}"


def encode(canonical: str) -> bytes:
    """Encode a canonical form that was put together. Raises JsonError for half characters."""
    try:
        return canonical.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _unwritable(error) from error


def _unwritable(error: Exception) -> JsonError:
    return JsonError(Code.JSON_VALUE, f"this value cannot be written as JSON: {error}")


def sha256(data: bytes) -> str:
    """Return the hash of bytes as documents write it: `sha256:<64 lowercase hex digits>`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def require_json(value: object, *, depth: int = 0) -> None:
    """Raise JsonError unless a Python value could have come out of `read` (a tuple counts as an array)."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise JsonError(Code.JSON_VALUE, f"a key is {type(key).__name__}, not text")
            if not key.isascii():
                _require_text(key)
        items: Iterable[object] = value.values()
    elif isinstance(value, list | tuple):
        items = value
    else:
        _require_scalar(value)
        return
    if depth == MAX_DEPTH:
        raise _too_deep()
    for item in items:
        # Plain text and flags are by far the most frequent, so they save a call.
        if type(item) is str and item.isascii():
            continue
        if item is not None and type(item) is not bool:
            require_json(item, depth=depth + 1)


def _is_plainly_shallow(data: bytes) -> bool:
    """Return whether the brackets alone show that JSON is not too deep, without parsing values.

    If no quote is escaped, removing all characters but quotes and brackets leaves quotes in pairs. A pair with a
    bracket inside is a text, which this function does not handle. Each round then removes the innermost brackets, at
    most two levels at a time.
    """
    if len(data) < _LARGE and data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return True
    if b'\\"' in data:
        return False
    marks = data.translate(None, _NO_MARKS).replace(b'""', b"")
    for _ in range(MAX_DEPTH // 2):
        marks = marks.replace(b"{}", b"").replace(b"[]", b"")
    return not marks


def _require_depth(value: object) -> None:
    """Refuse a value that is nested too deep, level by level, which is quick even for very large values."""
    containers = (dict, list)
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = (item.values() if type(item) is dict else item for item in level)
        level = [child for children in inner for child in children if type(child) in containers]
        if not level:
            return
    raise _too_deep()


def _require_text(text: str) -> None:
    if _SURROGATE.search(text):
        raise JsonError(Code.JSON_TEXT, "a text contains a lone surrogate, which is half a character")


def _require_scalar(value: object) -> None:
    if isinstance(value, str):
        _require_text(value)
    elif isinstance(value, float):
        if not isfinite(value):
            raise JsonError(Code.JSON_NUMBER, "a number is NaN or infinite")
    elif isinstance(value, int):
        if not -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
            raise JsonError(Code.JSON_NUMBER, f"a number has more than {_MAX_DIGITS} digits")
    elif value is not None:
        raise JsonError(Code.JSON_VALUE, f"{type(value).__name__} is not a JSON value")


def _parse(data: bytes) -> JsonValue:
    try:
        text = data.decode("utf-8")
        if len(text) > _LARGE:
            sizes: list[int] = []

            def noted(value: dict[str, Any]) -> dict[str, Any]:
                sizes.append(len(value))
                return value

            value: JsonValue = json.loads(text, object_hook=noted, **_NUMBERS)
            if sum(sizes) == _key_ends(text):
                return value
        value = _STRICT.decode(text)
    except UnicodeDecodeError as error:
        raise JsonError(Code.JSON_SYNTAX, f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise JsonError(
            Code.JSON_SYNTAX, f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    return value


def _key_ends(text: str) -> int:
    """Return an upper bound of the number of keys in a text: texts that begin with a colon count, too.

    So a key is duplicate only if this is more than the number of keys in the objects.
    """
    if any(f"{blank}:" in text for blank in " \t\n\r"):
        return len(_KEY_END.findall(text))
    return text.count('":')


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise JsonError(Code.JSON_DUPLICATE_KEY, f"the key {twice[:80]!r} is twice in one object")
    return result


def _refuse_constant(text: str) -> NoReturn:
    raise JsonError(Code.JSON_NUMBER, f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise JsonError(Code.JSON_NUMBER, f"the number {text[:40]} is too large")
    return value


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise JsonError(Code.JSON_NUMBER, f"a number has {len(text):,} digits")
    return int(text)


_NUMBERS: Final[dict[str, Any]] = {"parse_constant": _refuse_constant, "parse_float": _finite, "parse_int": _integer}
_STRICT: Final = json.JSONDecoder(object_pairs_hook=_object, **_NUMBERS)


def _too_deep() -> JsonError:
    return JsonError(Code.JSON_TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels")
