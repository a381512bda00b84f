"""Metrics of several brokers as one text, with the label `broker`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pipeline_broker.base.steps import Steps

__all__ = ["merge_metrics"]

BROKER = "broker"
SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LINES_PER_STEP = 500


def merge_metrics(texts: Mapping[int, str]) -> Steps[bytes]:
    """Merge scrapes, in steps: each family once, with the samples of all brokers.

    Args:
        texts: by the id of the broker; in the Prometheus format 0.0.4, each sample after the lines of its family.
    """
    families: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    done = 0
    for node_id, text in sorted(texts.items()):
        for family, head, sample in _lines(text):
            if head is not None and head not in families.setdefault(family, []):
                families[family].append(head)
            if sample is not None:
                samples.setdefault(family, []).append(_labelled(sample, node_id))
            done += 1
            if done % LINES_PER_STEP == 0:
                yield
    lines = [line for family, heads in families.items() for line in (*heads, *samples.get(family, ()))]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(text: str) -> Iterator[tuple[str, str | None, str | None]]:
    family = ""
    for line in text.splitlines():
        if line.startswith("# "):
            family = line.split(" ", 3)[2]
            yield family, line, None
        elif line:
            yield family, None, line


def _labelled(sample: str, node_id: int) -> str:
    found = SAMPLE.fullmatch(sample)
    assert found is not None, f"not a sample: {sample}"
    labels = f",{found['labels']}" if found["labels"] else ""
    return f'{found["name"]}{{{BROKER}="{node_id}"{labels}}} {found["value"]}'
