"""The marker `@pytest.mark.kafka`: its arguments, and their check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["MARKER", "MODES", "WrongMarkerError", "marker_arguments"]

MODES = ("classic", "pipelined")
MARKER = (
    "kafka(mode=..., settings={...}, partitions=1): the broker of a test with kafka_broker or kafka_topic; "
    "mode is 'classic', 'pipelined' or a list of both, which runs the test twice; settings are broker properties; "
    "partitions is the number of partitions of kafka_topic"
)
MARKER_ARGUMENTS = frozenset({"mode", "settings", "partitions"})


class WrongMarkerError(Exception):
    pass


def marker_arguments(node: Any) -> dict[str, Any]:
    """Merge the markers of a test or other node; the closest one wins. `mode` is a list, empty without a mode.

    Raises:
        WrongMarkerError: a marker is invalid.
    """
    arguments: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("kafka"))):
        unknown = marker.kwargs.keys() - MARKER_ARGUMENTS
        if marker.args or unknown:
            wrong = ", ".join([*map(repr, marker.args), *sorted(unknown)])
            raise WrongMarkerError(f"takes {MARKER.split(':', maxsplit=1)[0][6:-1]}, not {wrong}")
        of_marker = marker.kwargs.get("settings", {})
        if not isinstance(of_marker, Mapping):
            raise WrongMarkerError(f"takes settings={{NAME: VALUE}}, not {of_marker!r}")
        # pytest compares parameters by their hash, which a list lacks.
        settings |= {str(name): tuple(value) if isinstance(value, list) else value for name, value in of_marker.items()}
        arguments |= marker.kwargs
    return arguments | {
        "settings": settings,
        "mode": _modes(arguments.get("mode", [])),
        "partitions": _partitions(arguments),
    }


def _modes(arguments: object) -> list[str]:
    modes = arguments if isinstance(arguments, list | tuple) else [arguments]
    for mode in modes:
        if mode not in MODES:
            raise WrongMarkerError(f"takes {' or '.join(MODES)} as mode, not {mode!r}")
    return list(modes)


def _partitions(arguments: Mapping[str, object]) -> int | None:
    partitions = arguments.get("partitions")
    if partitions is not None and (type(partitions) is not int or partitions < 1):
        raise WrongMarkerError(f"takes at least 1 partition, not {partitions!r}")
    return partitions
