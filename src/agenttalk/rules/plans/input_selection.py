"""Which artifacts fill the inputs of a task, or why nothing can be picked yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import ValidationError

from agenttalk.contracts.command import ResolvedInput
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.core.base import is_hash, is_path, same_hash
from agenttalk.contracts.dag import ByMessageType, ByValue, Input, Node, PickPolicy
from agenttalk.rules.core.artifacts import ArtifactFile, normalize_files
from agenttalk.rules.core.globs import match_names
from agenttalk.rules.text import question_words

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class InputCandidate:
    """An artifact that reached the task's agent and was not rejected."""

    message_id: str
    task_id: str
    """The task that made it."""
    output_name: str
    subtype: str | None
    paths: tuple[tuple[str, str], ...]
    """Path and sha256 of each of its files."""
    delivered_at: str | None
    score: float | None
    seq: int
    """Number of the command that it was made for."""
    command_id: str | None


@dataclass(frozen=True, slots=True)
class PickedInputs:
    """Every required input is filled."""

    inputs: tuple[ResolvedInput, ...]
    """What the command's `resolved_inputs` hold."""
    sources: Mapping[str, tuple[InputCandidate, ...]]
    """Name of the input → the artifacts that fill it."""
    absent: tuple[str, ...] = ()
    """Optional inputs that nothing fills."""


@dataclass(frozen=True, slots=True)
class MissingInputs:
    """Required inputs that nothing fills."""

    names: tuple[str, ...]
    waiting: bool
    """Whether a task that could fill them has not finished."""


@dataclass(frozen=True, slots=True)
class AmbiguousInput:
    """Something would fill an input, but it is not certain what: a person chooses."""

    name: str
    candidates: tuple[InputCandidate, ...]
    why: str


@dataclass(frozen=True, slots=True)
class _Match:
    """A candidate with those of its files that are meant."""

    candidate: InputCandidate
    files: tuple[ArtifactFile, ...]
    whole: bool = True
    """Whether the artifact as such was meant, and not single files of it."""


_Choice = tuple[_Match, ...] | AmbiguousInput | None


def pick_inputs(
    node: Node, candidates: Sequence[InputCandidate], *, final: Collection[str], producers: Collection[str] = ()
) -> PickedInputs | MissingInputs | AmbiguousInput:
    """Fill the inputs of a task.

    `final` are the tasks that have ended. `producers` are tasks that could fill an input although the task does
    not depend on them. Of each output only the artifacts of the newest command count. While a required input is
    missing doubts are not reported, because outputs that are still to come may end them.
    """
    if len(candidates) == 1 and len(node.needs) == 1 and (only := _pick_only(node, node.needs[0], candidates[0])):
        return only
    if not candidates and not node.needs:
        return PickedInputs((), {}, ())
    node = adapt_to_given_files(node, candidates)
    unfinished = {*node.depends_on, *producers}.difference(final)
    current = _newest(candidates)
    choices = [(need, _choose(need, _matches(node, need, current), unfinished)) for need in node.needs]
    missing = dict.fromkeys(need.name for need, choice in choices if choice is None and need.required)
    if missing:
        return MissingInputs(tuple(missing), waiting=bool(unfinished))
    inputs: list[ResolvedInput] = []
    sources: dict[str, tuple[InputCandidate, ...]] = {}
    for need, choice in choices:
        if choice is None:
            continue
        resolved = choice if isinstance(choice, AmbiguousInput) else _resolved(need, choice)
        if isinstance(resolved, AmbiguousInput):
            return resolved
        chosen, filled = resolved
        inputs.append(filled)
        sources[need.name] = (*sources.get(need.name, ()), *chosen)
    absent = dict.fromkeys(need.name for need, choice in choices if choice is None)
    return PickedInputs(tuple(inputs), sources, tuple(absent))


def _pick_only(node: Node, need: Input, only: InputCandidate) -> PickedInputs | None:
    """Pick at once in the usual case: one output for one input that wants the latest. None in other cases."""
    selector = need.selector
    if (
        selector.type != "by_output_name"
        or selector.value != only.output_name
        or (only.task_id == node.task_id and not need.external)
        or need.policy != "latest_by_delivered_at"
        or (need.min_count or 1) > 1
        or _microseconds(only.delivered_at) is None
    ):
        return None
    folder = f"{only.task_id}/{root_layout.path_segment(only.output_name)}"
    prefix = f"{only.message_id}/"
    paths = tuple([f"{folder}/{path.removeprefix(prefix)}" for path, _ in only.paths])
    if len(paths) != 1 or not paths[0].isascii() or not is_path(paths[0]) or not is_hash(only.paths[0][1]):
        return None
    filled = ResolvedInput.from_values(input_name=need.name, required=need.required, paths=paths)
    return PickedInputs((filled,), {need.name: (only,)})


def pick_available(
    node: Node, candidates: Sequence[InputCandidate], *, final: Collection[str]
) -> PickedInputs | MissingInputs | AmbiguousInput:
    """Fill what can be filled; what tasks before it should have made is done without, and what people have is not."""
    found = pick_inputs(node, candidates, final=final)
    external = {need.name for need in node.needs if need.external}
    while isinstance(found, MissingInputs) and not external.issuperset(found.names):
        node = _with_inputs(node, set(found.names) - external, lambda _: {"required": False})
        found = pick_inputs(node, candidates, final=final)
    return found


def adapt_to_given_files(node: Node, candidates: Sequence[InputCandidate]) -> Node:
    """Change the inputs for which people gave files: each then selects the file of its name."""
    given = {each.output_name for each in candidates if _is_given(node, each)}
    return _with_inputs(node, given, _change_to_given) if given else node


def _change_to_given(need: Input) -> dict[str, object]:
    """Change an input to one that a person gave. Only a required hash still holds."""
    selector = ByValue(type="by_output_name", value=need.name, allowed_hashes=need.selector.allowed_hashes)
    policy = "by_sha256" if need.policy == "by_sha256" else "latest_by_delivered_at"
    return {"selector": selector, "external": True, "min_count": None, "pick_policy": policy}


def _is_given(node: Node, candidate: InputCandidate) -> bool:
    """Whether a person gave it to the task. What a task makes itself is made for a command."""
    return candidate.task_id == node.task_id and candidate.command_id is None


def apply_choices(candidates: Sequence[InputCandidate], answers: Sequence[str]) -> list[InputCandidate]:
    """Keep the candidates that a person chose among several of the same name."""
    named = [each for each in candidates if any(each.message_id in answer for answer in answers)]
    names = {each.output_name for each in named}
    return [each for each in candidates if each.output_name not in names or each in named]


def _with_inputs(node: Node, names: Collection[str], change: Callable[[Input], dict[str, object]]) -> Node:
    inputs = tuple(need.model_copy(update=change(need)) if need.name in names else need for need in node.needs)
    return node.model_copy(update={"inputs": inputs})


def _newest(candidates: Sequence[InputCandidate]) -> list[InputCandidate]:
    """Without artifacts that a later command of the same task has replaced; each once, in an order of their own."""
    newest: dict[tuple[str, str], int] = {}
    for each in candidates:
        key = (each.task_id, each.output_name)
        newest[key] = max(each.seq, newest.get(key, each.seq))
    current = {each for each in candidates if each.seq == newest[each.task_id, each.output_name]}
    return sorted(current, key=lambda each: (each.task_id, each.output_name, each.message_id))


def _matches(node: Node, need: Input, candidates: list[InputCandidate]) -> list[_Match]:
    """Find the artifacts that an input selects. A task does not feed itself, but any agent may bring external ones."""
    others = [each for each in candidates if need.external or each.task_id != node.task_id]
    selector = need.selector
    if isinstance(selector, ByMessageType):
        wanted = selector.subtype_value
        meant = selector.type_value == "artifact"
        return [_Match(each, _files(each)) for each in others if meant and wanted in {None, each.subtype}]
    if selector.type == "by_output_name":
        return [_Match(each, _files(each)) for each in others if each.output_name == selector.value]
    if selector.type == "by_file_name":
        return list(_by_file_name(selector.value, others))
    return list(_by_glob(selector.value, others))


def _by_file_name(wanted: str, candidates: list[InputCandidate]) -> Iterator[_Match]:
    """Artifacts with such a file, or, where no file has the name, artifacts that are called like it."""
    for each in candidates:
        files = _files(each)
        exact = tuple(file for file in files if wanted in _spellings(each, file))
        found = exact or tuple(file for file in files if _stored_at(each, file).endswith(f"/{wanted}"))
        if found:
            yield _Match(each, found, whole=False)
        elif each.output_name == wanted:
            yield _Match(each, files)


def _by_glob(glob: str, candidates: list[InputCandidate]) -> Iterator[_Match]:
    """Find matches by globs. Without a slash only the last part of a path is compared."""
    spelled = [(each, [(file, _glob_names(glob, each, file)) for file in _files(each)]) for each in candidates]
    names = {name for _, files in spelled for _, known in files for name in known}
    matched = set(match_names(glob, names | {each.output_name for each in candidates}))
    for each, files in spelled:
        found = tuple(file for file, known in files if not matched.isdisjoint(known))
        if found:
            yield _Match(each, found, whole=False)
        elif each.output_name in matched:
            yield _Match(each, tuple(file for file, _ in files))


def _glob_names(glob: str, candidate: InputCandidate, file: ArtifactFile) -> tuple[str, ...]:
    return _spellings(candidate, file) if "/" in glob else (file.path.rpartition("/")[2],)


def _files(candidate: InputCandidate) -> tuple[ArtifactFile, ...]:
    """List the files of an artifact as its receivers keep them."""
    return tuple(normalize_files(candidate.message_id, (ArtifactFile(*each) for each in candidate.paths)))


def _stored_at(candidate: InputCandidate, file: ArtifactFile) -> str:
    """Return the path where a receiver keeps a file, below its inputs."""
    return f"{candidate.task_id}/{root_layout.path_segment(candidate.output_name)}/{file.path}"


def _spellings(candidate: InputCandidate, file: ArtifactFile) -> tuple[str, ...]:
    """List the ways to write the path of a file: alone, inside its output, and inside the folder of inputs."""
    return file.path, f"{candidate.output_name}/{file.path}", _stored_at(candidate, file)


def _choose(need: Input, matches: list[_Match], unfinished: AbstractSet[str]) -> _Choice:
    """Choose the matches that an input takes; None while there are too few."""
    unknown = _candidates(each for each in matches if not all(is_hash(file.sha256) for file in each.files))
    if need.policy == "by_sha256" and not unknown:
        allowed = need.selector.allowed_hashes or ()
        matches = [each for each in matches if all(_allowed(file, allowed) for file in each.files)]
    single = need.selector.type in {"by_file_name", "by_glob"}
    count = sum(len(each.files) for each in matches) if single else len(matches)
    if count < (need.min_count or 1):
        return None
    if unknown:
        return AmbiguousInput(need.name, unknown, question_words.NO_HASH())
    if need.policy != "all":
        return _choose_one(need, matches)
    delivered = {each.candidate.task_id for each in matches}
    waits = need.required and not need.external and unfinished - delivered
    return None if waits else tuple(matches)


def _allowed(file: ArtifactFile, allowed: Sequence[str]) -> bool:
    return any(same_hash(file.sha256, each) for each in allowed)


def _choose_one(need: Input, matches: list[_Match]) -> _Choice:
    """Choose the one match that the policy prefers. The compared value must be known of all of them."""
    ranked = [(_rank(need.policy, each.candidate), each) for each in matches]
    unknown = _candidates(each for rank, each in ranked if rank is None)
    if unknown:
        return AmbiguousInput(need.name, unknown, question_words.NOTHING_TO_COMPARE[need.policy]())
    best = max(rank for rank, _ in ranked if rank is not None)
    first = [each for rank, each in ranked if rank == best]
    if len(first) > 1:
        why = question_words.EQUAL(count=len(first), policy=need.policy)
        return AmbiguousInput(need.name, _candidates(first), why)
    if need.selector.type == "by_file_name" and not first[0].whole and len(first[0].files) > 1:
        return AmbiguousInput(need.name, _candidates(first), question_words.SEVERAL_FILES())
    return (first[0],)


def _candidates(matches: Iterator[_Match] | list[_Match]) -> tuple[InputCandidate, ...]:
    return tuple(each.candidate for each in matches)


def _rank(policy: PickPolicy, candidate: InputCandidate) -> float | None:
    """Return the value that a policy compares, the highest first; None when it is unknown."""
    if policy == "by_sha256":
        return 0
    if policy == "highest_score":
        score = candidate.score
        return score if score is not None and -math.inf < score < math.inf else None
    delivered = _microseconds(candidate.delivered_at)
    if delivered is None:
        return None
    return -delivered if policy == "first_seen" else delivered


def _microseconds(text: str | None) -> int | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return None if moment.tzinfo is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _resolved(
    need: Input, matches: tuple[_Match, ...]
) -> tuple[tuple[InputCandidate, ...], ResolvedInput] | AmbiguousInput:
    """Return an input as a command has it: each file once, and only one content under a name."""
    chosen = _candidates(list(matches))
    hashes: dict[str, str] = {}
    for each in matches:
        for file in each.files:
            path = _stored_at(each.candidate, file)
            if not same_hash(hashes.setdefault(path, file.sha256), file.sha256):
                return AmbiguousInput(need.name, chosen, question_words.TWO_CONTENTS(path=path))
    try:
        filled = ResolvedInput.read({"input_name": need.name, "required": need.required, "paths": list(hashes)})
    except ValidationError:
        return AmbiguousInput(need.name, chosen, question_words.UNNAMEABLE())
    return chosen, filled
