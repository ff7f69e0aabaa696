"""The base of all documents: ids, paths, hashes, times and versions, and the models `Part` and `Document`.

A `Part` is an object inside a document; a `Document` has a file of its own. Both are frozen, are read strictly (no
`"3"` for 3), keep unknown fields and write them back, and treat a null as a missing field.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, NewType, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    ValidationError,
    WithJsonSchema,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from agenttalk.contracts.core import canonical, quick_validation, wire
from agenttalk.contracts.core.large_documents import pause_collector
from agenttalk.contracts.core.problems import find_nearest, problems_of, without_fields
from agenttalk.contracts.errors import Code, ContractError, Problem

ID_PATTERN: Final = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$"
PATH_PATTERN: Final = r"^(?!(.*/)?\.{1,2}(/|$))[^/\\\x00-\x1f\x7f]+(/[^/\\\x00-\x1f\x7f]+)*$"
HASH_PATTERN: Final = r"^(sha256:)?[0-9a-f]{64}$"
TIME_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$"
VERSION_PATTERN: Final = r"^(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$"
READABLE_VERSION_PATTERN: Final = r"^1\.(0|[1-9]\d{0,5})$"
READS_MAJOR: Final = 1
"""The MAJOR version of documents that this release understands."""

_ID = re.compile(ID_PATTERN.replace("$", r"\Z"))
_HASH = re.compile(HASH_PATTERN.replace("$", r"\Z"))
_TIME = re.compile(TIME_PATTERN.replace("$", r"\Z"), re.ASCII)
_VERSION = re.compile(VERSION_PATTERN.replace("$", r"\Z"), re.ASCII)
_PATH = re.compile(PATH_PATTERN.replace("$", r"\Z"))


def is_id(text: str) -> bool:
    """Return whether a text is a valid id, and so a valid file name."""
    return len(text) <= 128 and _ID.match(text) is not None


def is_hash(text: str) -> bool:
    """Return whether a text is a sha256 in one of its two spellings."""
    return _HASH.match(text) is not None


def same_hash(left: str, right: str) -> bool:
    """Return whether two hashes are equal, with or without their prefix."""
    return left.removeprefix("sha256:") == right.removeprefix("sha256:")


def _check_id(text: str) -> str:
    if not is_id(text):
        raise PydanticCustomError(Code.ID_INVALID, "not an id: {text}", {"text": repr(text[:140])})
    return text


def _check_hash(text: str) -> str:
    if not is_hash(text):
        raise PydanticCustomError(Code.HASH_INVALID, "not a sha256 hash: {text}", {"text": repr(text[:80])})
    return text if text.startswith("sha256:") else f"sha256:{text}"


def is_path(text: str) -> bool:
    """Return whether a text is a path that stays in its folder, and that file systems accept."""
    # Only a long path can have a part that is too long for a file system, so short ones need no check.
    too_long = len(text) > 63 and (len(text) > 1024 or any(len(part.encode()) > 255 for part in text.split("/")))
    return not too_long and _PATH.match(text) is not None


def _check_path(text: str) -> str:
    if not is_path(text):
        raise PydanticCustomError(
            Code.PATH_OUTSIDE_FOLDER, "not a path inside the folder: {text}", {"text": repr(text[:140])}
        )
    return text


def _read_time(value: object) -> object:
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return value.astimezone(UTC)
    elif not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    elif _TIME.match(value):
        whole, _, fraction = value[:-1].partition(".")
        try:
            return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")
        except ValueError:
            pass  # a 31st of February or a 25th hour: reported below, like every other invalid time
    raise PydanticCustomError(Code.TIME_INVALID, "not a UTC time: {text}", {"text": repr(value)[:60]})


write_time = canonical.write_time


def format_instant(value: datetime) -> str:
    """Format a time as the store needs it: always with microseconds, so that texts sort like times."""
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """Parse a time that `format_instant` wrote."""
    return datetime.fromisoformat(text)


def _check_version(text: str) -> str:
    match = _VERSION.match(text)
    if not match:
        raise PydanticCustomError(Code.FIELD_VALUE, "a version is MAJOR.MINOR, not {text}", {"text": repr(text[:40])})
    if int(match[1]) != READS_MAJOR:
        raise PydanticCustomError(
            Code.SCHEMA_VERSION_UNSUPPORTED,
            "version {text} is not one that this release reads ({major}.x)",
            {"text": text, "major": READS_MAJOR},
        )
    return text


def _check_text(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError(Code.FIELD_VALUE, "must not be empty")
    return text


def _check_number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("float_type", "Input should be a valid number")
    if not -wire.MAX_INTEGER <= value <= wire.MAX_INTEGER:  # NaN and infinity too
        raise PydanticCustomError(Code.FIELD_VALUE, "must be a finite number with fewer digits")
    return value


def _unchanged(value: Any) -> Any:
    return value


def _check_score(value: object) -> int | float:
    score = _check_number(value)
    if not 0 <= score <= 100:
        raise PydanticCustomError(Code.FIELD_VALUE, "a score is a number from 0 to 100")
    return score


quick_validation.register_plain(_check_id, ID_PATTERN, 128)
quick_validation.register_plain(_check_path, "^[A-Za-z0-9_-][A-Za-z0-9_. -]*$", 63)
quick_validation.register_plain(_check_text, "[!-~]")

_ID_SCHEMA = WithJsonSchema({"type": "string", "pattern": ID_PATTERN, "minLength": 1, "maxLength": 128})
_PATH_SCHEMA = WithJsonSchema({"type": "string", "pattern": PATH_PATTERN, "minLength": 1, "maxLength": 1024})

PlanId = NewType("PlanId", str)
TaskId = NewType("TaskId", str)
AgentId = NewType("AgentId", str)
CommandId = NewType("CommandId", str)
MessageId = NewType("MessageId", str)

IdText = Annotated[str, AfterValidator(_check_id), _ID_SCHEMA]
"""An id of any kind. It becomes a file name, so an invalid one is refused, not escaped."""
PlanIdText = Annotated[PlanId, AfterValidator(_check_id), _ID_SCHEMA]
TaskIdText = Annotated[TaskId, AfterValidator(_check_id), _ID_SCHEMA]
AgentIdText = Annotated[AgentId, AfterValidator(_check_id), _ID_SCHEMA]
MessageIdText = Annotated[MessageId, AfterValidator(_check_id), _ID_SCHEMA]

RelativePath = Annotated[str, AfterValidator(_check_path), _PATH_SCHEMA]
"""A relative, normalised POSIX path that stays in its folder."""
InputPattern = Annotated[str, AfterValidator(_check_path), _PATH_SCHEMA]
"""A file name, path or glob, relative like a path."""
Sha256 = Annotated[str, AfterValidator(_check_hash), WithJsonSchema({"type": "string", "pattern": HASH_PATTERN})]
"""`sha256:<64 lowercase hex>`; bare hex is read and gets its prefix."""
Instant = Annotated[
    datetime,
    BeforeValidator(_read_time),
    PlainSerializer(write_time, when_used="always"),
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": TIME_PATTERN}),
]
"""A time in UTC. Digits beyond the microsecond are cut."""
Version = Annotated[
    str, AfterValidator(_check_version), WithJsonSchema({"type": "string", "pattern": READABLE_VERSION_PATTERN})
]
Text = Annotated[str, AfterValidator(_check_text), WithJsonSchema({"type": "string", "pattern": r"\S"})]
"""A text that is not empty, and not only white space."""
Count = Annotated[int, Field(ge=0, le=wire.MAX_INTEGER)]
Positive = Annotated[int, Field(ge=1, le=wire.MAX_INTEGER)]
Number = Annotated[
    float, PlainValidator(_check_number), PlainSerializer(_unchanged), WithJsonSchema({"type": "number"})
]
"""A finite number, kept as it was written: 85 does not become 85.0."""
Score = Annotated[
    float,
    PlainValidator(_check_score),
    PlainSerializer(_unchanged),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 100}),
]

_T = TypeVar("_T")
Many = Annotated[tuple[_T, ...], Field(strict=False)]
"""An array. Only its container is not strict, so that a list can become a tuple."""


_NO_MORE: Final[dict[str, Any]] = {}
_new = object.__new__
_SLOTS: Final = vars(BaseModel)
_put_values = _SLOTS["__dict__"].__set__
_put_given = _SLOTS["__pydantic_fields_set__"].__set__
_put_more = _SLOTS["__pydantic_extra__"].__set__
_put_private = _SLOTS["__pydantic_private__"].__set__
_M = TypeVar("_M", bound=BaseModel)


def make_part(kind: type[_M], values: dict[str, Any], given: set[str]) -> _M:
    """Make a part from valid values for all its fields, and the names of those that were given."""
    part = _new(kind)
    _put_values(part, values)
    _put_given(part, given)
    _put_more(part, _NO_MORE)
    _put_private(part, None)
    return part


class Part(BaseModel):
    """An object inside a document."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="allow",
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        protected_namespaces=(),
        defer_build=True,  # --help must not build validators
    )

    _spellings: ClassVar[frozenset[str]] = frozenset()
    """Every spelling under which a field is read. Computed once per class, like those below."""
    _aliases: ClassVar[dict[str, str]] = {}
    """Fields that have a second spelling, with it."""
    _omitted: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out when they are None, by name and by alias."""
    _template: ClassVar[dict[str, Any]] = {}
    """Every field in its order, with its default."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        aliases = {name: field.alias or name for name, field in cls.model_fields.items()}
        cls._spellings = frozenset(aliases.keys() | aliases.values())
        cls._aliases = {name: alias for name, alias in aliases.items() if alias != name}
        fields = cls.model_fields.items()
        cls._template = {name: None if field.is_required() else field.default for name, field in fields}
        optional = {name for name, field in cls.model_fields.items() if field.default is None}
        cls._omitted = frozenset(optional | {aliases[name] for name in optional})

    @classmethod
    def from_values(cls, **given: Any) -> Self:
        """Make a part from valid values, with defaults for the rest, without validation.

        The same as `model_construct`, in a tenth of its time: that copies every default.
        """
        return make_part(cls, {**cls._template, **given}, set(given))

    @classmethod
    def read(cls, data: object) -> Self:
        """Read a part from JSON values; a null counts as missing. Raises pydantic's ValidationError."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            # Optional fields accept a null by themselves. For others a second validation is enough, and
            # only documents with such nulls pay for it.
            nulls = [fault["loc"] for fault in error.errors(include_url=False) if fault["input"] is None]
            if not nulls:
                raise
            return cls.model_validate(without_fields(data, nulls))

    @model_serializer(mode="wrap")
    def _leave_absent_out(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = write(self)
        if None in data.values():
            return {name: value for name, value in data.items() if value is not None or name not in self._omitted}
        return data

    @classmethod
    def unknown_fields(cls, data: dict[str, Any]) -> dict[str, str]:
        """Return top-level keys that are probably misspelt fields → the field that they resemble."""
        strange = [key for key in data if key not in cls._spellings]
        return {key: near for key in strange if (near := find_nearest(key, cls._spellings)) is not None}

    def as_json(self) -> dict[str, Any]:
        """Return the document as JSON values, with aliases and unknown fields, and without absent fields."""
        return self.model_dump(mode="json")

    def as_text(self) -> str:
        """Return the canonical form as text. Values that JSON cannot contain are found when it becomes bytes."""
        return canonical.to_text(self)


class Document(Part):
    """A document with a file of its own."""

    size_limit: ClassVar[int] = wire.DOCUMENT_LIMIT

    schema_version: Version = "1.0"
    """Version of this document's format. A higher MINOR is read, a higher MAJOR is refused."""

    @classmethod
    def lift(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Convert an older form of the document to the current one. The argument is not changed."""
        return data

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read the document from JSON values; raises ContractError with every problem, or JsonError."""
        wire.require_json(data)
        return cls._from_json(data)

    @classmethod
    def _from_json(cls, data: object) -> Self:
        if not isinstance(data, dict):
            problem = Problem(code=Code.FIELD_TYPE, field="", message="a document must be a JSON object")
            raise _refusal(cls, (problem,))
        try:
            with pause_collector():
                return cls.read(cls.lift(data))
        except ValidationError as error:
            raise _refusal(cls, problems_of(error)) from error

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the document from the bytes of its file; raises JsonError or ContractError."""
        return cls._from_json(wire.read(data, limit=cls.size_limit))

    def to_bytes(self) -> bytes:
        """Return the document as the bytes of its file, in canonical form."""
        try:
            return self.as_text().encode()
        except UnicodeEncodeError:
            return wire.write(self.as_json())  # raises the error


def _refusal(kind: type[Document], problems: tuple[Problem, ...]) -> ContractError:
    # Other problems of a document in an unknown version mean nothing.
    problems = tuple(p for p in problems if p.code is Code.SCHEMA_VERSION_UNSUPPORTED) or problems
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    where = f"{first.field}: " if first.field else ""
    return ContractError(
        first.code, f"not a valid {kind.__name__}: {where}{first.message}{more}", problems, hint=first.hint
    )
