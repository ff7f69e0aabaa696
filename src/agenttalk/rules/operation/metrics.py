"""Writes metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

PREFIX: Final = "agenttalk_"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Sample(NamedTuple):
    """One number with its labels."""

    labels: tuple[tuple[str, str], ...]
    value: float


class Metric(NamedTuple):
    """A metric with its samples."""

    name: str
    text: str
    kind: Literal["gauge", "counter"]
    samples: tuple[Sample, ...]


def render_metrics(metrics: Iterable[Metric]) -> str:
    """Write all metrics as one text. A metric without samples gets only its header."""
    lines: list[str] = []
    for each in metrics:
        name = f"{PREFIX}{each.name}"
        lines += [f"# HELP {name} {each.text}", f"# TYPE {name} {each.kind}"]
        lines += [f"{name}{_labels(sample)} {_number(sample.value)}" for sample in each.samples]
    return "\n".join(lines) + "\n"


def _labels(sample: Sample) -> str:
    told = ",".join(f'{name}="{_text(value)}"' for name, value in sample.labels)
    return f"{{{told}}}" if told else ""


def _text(value: str) -> str:
    # Half characters cannot be written as UTF-8.
    return value.encode("utf-8", "backslashreplace").decode().translate(_ESCAPED)


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
