"""A JSON file with the latest metrics that each client pushed (KIP-714).

The file has this form:

    {"clients": {instance id: {"client_id", "software_name", "software_version", "host", "received_ms", "ended",
                               "metrics": [{"name", "value", "attributes"}]}}}
"""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline_broker.base import owner_only
from pipeline_broker.log.archive.pace import Pace
from pipeline_broker.records.decompression import decompress
from pipeline_broker.telemetry.pushed_metrics import read_metrics

__all__ = ["CLIENTS_MAX", "POINTS_MAX", "ClientMetricsFile"]

CLIENTS_MAX = 100
"""Clients in the file of pushed metrics."""
POINTS_MAX = 500
"""Points of one push that are kept."""
CLIENT_BYTES_MAX = 256 * 1024
"""Memory of one client in the file of pushed metrics."""
TEXT_CHARACTERS_MAX = 256
"""Characters of a client's id, software name or another of its texts; a longer text is truncated."""
# A small compressed push could otherwise expand to any size (CVE-2026-111073).
UNPACKED_FACTOR = 10


class ClientMetricsFile:
    """The file of pushed metrics.

    It holds the last CLIENTS_MAX clients, and of each client the first POINTS_MAX metrics that fit in CLIENT_BYTES_MAX.

    Args:
        path: the file; None keeps nothing, and only checks that pushes can be decompressed.
        push_bytes_max: largest size of a compressed push.

    Attributes:
        unpacked_bytes_max: largest size of a decompressed push.
    """

    def __init__(self, path: Path | None, push_bytes_max: int) -> None:
        self._path = path
        self.unpacked_bytes_max = push_bytes_max * UNPACKED_FACTOR
        self._clients: OrderedDict[str, str] = OrderedDict()  # JSON by instance id
        self._lock = threading.Lock()

    def keep(
        self,
        instance_id: str,
        client: Mapping[str, Any],
        codec: int,
        data: bytes,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """Replace the metrics of a client, and write the file. Call it in a thread.

        Args:
            instance_id: the client's instance id.
            client: attributes of the client, under the names in the file.
            codec: compression codec of `data`.
            data: metrics as OpenTelemetry protocol buffers.
            check: called from time to time; may raise to end the work.

        Raises:
            RecordError: the data cannot be decompressed, or are too large decompressed.
            MalformedMetricsError: the decompressed data are not metrics.
            OSError: the file cannot be written.
        """
        unpacked = decompress(codec, data, self.unpacked_bytes_max)
        if self._path is None:
            return
        metrics = read_metrics(unpacked, POINTS_MAX, Pace(check))
        identity = {name: _cut(value) for name, value in client.items()}
        entry = f'{json.dumps(identity)[:-1]}, "metrics": [\n{",".join(_first(metrics))}]}}'
        # Pushes of several clients are written by several threads.
        with self._lock:
            self._clients[instance_id] = entry
            self._clients.move_to_end(instance_id)
            if len(self._clients) > CLIENTS_MAX:
                self._clients.popitem(last=False)
            self._write(self._path)

    def _write(self, path: Path) -> None:
        new_path = path.with_name(path.name + ".new")
        with open(new_path, "w", encoding="utf-8", opener=owner_only.opener) as file:
            separator = '{"clients": {\n'
            for instance_id, entry in self._clients.items():
                file.write(f"{separator}{json.dumps(instance_id)}: {entry}")
                separator = ",\n"
            file.write("}}\n")
        new_path.replace(path)  # atomically: a reader never sees half a file


def _cut(value: Any) -> Any:
    return value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) else value


def _first(metrics: list[dict[str, Any]]) -> Iterator[str]:
    """Yield metrics as lines of JSON until the next one would exceed CLIENT_BYTES_MAX. NaN and infinity become null."""
    left = CLIENT_BYTES_MAX
    for metric in metrics:
        line = json.dumps(_in_json(metric))
        left -= len(line)
        if left < 0:
            return
        yield line + "\n"


def _in_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_json(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
