"""The file that keeps the last metrics that each client has pushed.

Rules of this file: it is written in a thread, whole and at once, so that a reader never sees half of it; of the clients
the last `CLIENTS_MAX` are kept, of the metrics of each the first `POINTS_MAX` that `CLIENT_BYTES_MAX` have room for.
What a client pushes is unpacked no further than `UNPACKED_FACTOR` times the largest push, whatever it claims to be
(CVE-2026-111073).

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

from pipeline_broker import owner_only
from pipeline_broker.log.archive.pace import Pace
from pipeline_broker.records.decompression import decompress
from pipeline_broker.telemetry.pushed_metrics import read_metrics

__all__ = ["CLIENTS_MAX", "POINTS_MAX", "ClientMetricsFile"]

CLIENTS_MAX = 100
POINTS_MAX = 500
CLIENT_BYTES_MAX = 256 * 1024
TEXT_CHARACTERS_MAX = 256
"""Of what a client says of itself; longer texts are cut."""
UNPACKED_FACTOR = 10


class ClientMetricsFile:
    """See above.

    Args:
        path: of the file; None keeps nothing, and only looks whether what is pushed can be decompressed.
        push_bytes_max: largest push.

    Attributes:
        unpacked_bytes_max: of one push, while it is read.
    """

    def __init__(self, path: Path | None, push_bytes_max: int) -> None:
        self._path = path
        self.unpacked_bytes_max = push_bytes_max * UNPACKED_FACTOR
        self._clients: OrderedDict[str, str] = OrderedDict()  # as JSON
        self._lock = threading.Lock()

    def keep(
        self,
        instance_id: str,
        client: Mapping[str, Any],
        codec: int,
        data: bytes,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """Keep what a client has pushed; in a thread.

        Args:
            instance_id: whose it is.
            client: what is known of it.
            codec: how the data are compressed.
            data: metrics in OpenTelemetry's protocol buffers.
            check: called now and then; it may raise to end the work.

        Raises:
            RecordError: they cannot be decompressed, or are too large then.
            MalformedMetricsError: they are no metrics.
            OSError: the file cannot be written.
        """
        unpacked = decompress(codec, data, self.unpacked_bytes_max)
        if self._path is None:
            return
        metrics = read_metrics(unpacked, POINTS_MAX, Pace(check))
        told = {name: _cut(value) for name, value in client.items()}
        shown = f'{json.dumps(told)[:-1]}, "metrics": [\n{",".join(_first(metrics))}]}}'
        with self._lock:
            self._clients[instance_id] = shown
            self._clients.move_to_end(instance_id)
            if len(self._clients) > CLIENTS_MAX:
                self._clients.popitem(last=False)
            self._write(self._path)

    def _write(self, path: Path) -> None:
        coming = path.with_name(path.name + ".new")
        with open(coming, "w", encoding="utf-8", opener=owner_only.opener) as file:
            separator = '{"clients": {\n'
            for instance_id, shown in self._clients.items():
                file.write(f"{separator}{json.dumps(instance_id)}: {shown}")
                separator = ",\n"
            file.write("}}\n")
        coming.replace(path)


def _cut(value: Any) -> Any:
    return value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) else value


def _first(metrics: list[dict[str, Any]]) -> Iterator[str]:
    """Encode the first metrics that fit, each as JSON; NaN and infinity become null."""
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
