"""Metric families as text in the Prometheus format 0.0.4.

The format is written here, because that takes less code than filling the collectors of a client library.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Literal, TypeAlias

import attrs

from pipeline_broker.base.steps import Steps
from pipeline_broker.telemetry.histogram import DecayingHistogram

__all__ = ["CONTENT_TYPE", "Families", "Family", "Labels", "Sample", "counter", "gauge", "render", "summary_samples"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
QUANTILE_LABELS = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
# The JMX exporter's spelling of Kafka's percentiles: 50thPercentile is 0.50.

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Labels = tuple[tuple[str, str], ...]

SAMPLES_PER_STEP = 64
LABEL_CHARACTERS_MAX = 256  # topic names have at most 249
"""Characters of a label in a scrape."""


@attrs.frozen
class Sample:
    """One line of a family: its value, labels, and a suffix of the name such as `_count`."""

    value: float
    labels: Labels = ()
    suffix: str = ""


@attrs.frozen
class Family:
    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    explanation: str
    samples: Sequence[Sample]


Families: TypeAlias = Generator["Family | None", None, None]
"""Yields families, and None where other tasks may run."""


def gauge(name: str, explanation: str, *samples: Sample) -> Family:
    return Family(name, "gauge", explanation, samples)


def counter(name: str, explanation: str, *samples: Sample) -> Family:
    """Return a family of values that only rise; its name must end in `_total`."""
    return Family(name, "counter", explanation, samples)


def summary_samples(histogram: DecayingHistogram, labels: Labels = (), total_scale: float = 1.0) -> list[Sample]:
    """Return the quantiles, the count and the sum of a histogram; an empty histogram has no quantiles.

    Args:
        histogram: the values.
        labels: the labels of each sample.
        total_scale: converts the histogram's total to the unit of its values.
    """
    quantiles = histogram.quantiles(QUANTILES) or ()
    samples = [
        Sample(value, (*labels, ("quantile", label)))
        for label, value in zip(QUANTILE_LABELS, quantiles, strict=False)  # no quantiles if the histogram is empty
    ]
    samples.append(Sample(histogram.count, labels, "_count"))
    samples.append(Sample(histogram.total * total_scale, labels, "_sum"))
    return samples


def render(families: Iterable[Family | None]) -> Steps[bytes]:
    """Return the text of all families that have samples; yields where other tasks may run."""
    parts: list[bytes] = []
    for family in families:
        yield
        if family is None or not family.samples:
            continue
        parts.append(f"# HELP {family.name} {family.explanation}\n# TYPE {family.name} {family.kind}\n".encode())
        for begin in range(0, len(family.samples), SAMPLES_PER_STEP):
            lines = [_line(family, sample) for sample in family.samples[begin : begin + SAMPLES_PER_STEP]]
            parts.append("".join(lines).encode())
            yield
    return b"".join(parts)


def _line(family: Family, sample: Sample) -> str:
    labels = ",".join([f'{name}="{_label(value)}"' for name, value in sample.labels])
    braced = f"{{{labels}}}" if labels else ""
    return f"{family.name}{sample.suffix}{braced} {sample.value!r}\n"


def _label(value: str) -> str:
    """Escape and truncate a label value: clients choose names of up to 32 KB."""
    shown = value if len(value) <= LABEL_CHARACTERS_MAX else f"{value[: LABEL_CHARACTERS_MAX - 1]}…"
    return shown.translate(_ESCAPES)
