"""Metric families as text of the Prometheus format 0.0.4.

Rules of this file: text only; names and labels are ours and valid, label values are anybody's and are escaped. Written
out here, because it is less code than filling the collectors of a client library would be.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import attrs

from pipeline_broker.telemetry.histogram import DecayingHistogram

__all__ = ["CONTENT_TYPE", "Family", "Labels", "Sample", "counter", "gauge", "render", "summary_samples"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
QUANTILE_LABELS = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""As the JMX exporter writes Kafka's percentiles: `0.` and the digits of their names."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Labels = tuple[tuple[str, str], ...]


@attrs.frozen
class Sample:
    """One line: a value under the family's name and a suffix."""

    value: float
    labels: Labels = ()
    suffix: str = ""


@attrs.frozen
class Family:
    """All lines of one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    explanation: str
    samples: Sequence[Sample]


def gauge(name: str, explanation: str, *samples: Sample) -> Family:
    """A family of values that go up and down."""
    return Family(name, "gauge", explanation, samples)


def counter(name: str, explanation: str, *samples: Sample) -> Family:
    """A family of values that only grow; the name ends in `_total`."""
    return Family(name, "counter", explanation, samples)


def summary_samples(histogram: DecayingHistogram, labels: Labels = (), total_scale: float = 1.0) -> list[Sample]:
    """Quantiles, count and sum; `total_scale` turns the histogram's total into the unit of its values."""
    quantiles = histogram.quantiles(QUANTILES) or ()
    samples = [
        Sample(value, (*labels, ("quantile", label)))
        for label, value in zip(QUANTILE_LABELS, quantiles, strict=False)  # none of an empty histogram
    ]
    samples.append(Sample(histogram.count, labels, "_count"))
    samples.append(Sample(histogram.total * total_scale, labels, "_sum"))
    return samples


def render(families: Iterable[Family]) -> str:
    """All families that have samples."""
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {family.explanation}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for sample in family.samples:
            labels = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sample.labels)
            braced = f"{{{labels}}}" if labels else ""
            lines.append(f"{family.name}{sample.suffix}{braced} {sample.value!r}")
    lines.append("")
    return "\n".join(lines)
