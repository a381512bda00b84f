"""The file that keeps the last metrics that each client has pushed.

Rules of this file: it is written in a thread, whole and at once, so that a reader never sees half of it; of the clients
the last `CLIENTS_MAX` are kept, of the metrics of each the first `POINTS_MAX`. What a client pushes is unpacked no
further than `UNPACKED_FACTOR` times the largest push, whatever it claims to be (CVE-2026-111073).

    {"clients": {instance id: {"client_id", "software_name", "software_version", "host", "received_ms", "ended",
                               "metrics": [{"name", "value", "attributes"}]}}}
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline_broker import owner_only
from pipeline_broker.records.decompression import decompress
from pipeline_broker.telemetry.pushed_metrics import read_metrics

__all__ = ["CLIENTS_MAX", "POINTS_MAX", "ClientMetricsFile"]

CLIENTS_MAX = 100
POINTS_MAX = 500
UNPACKED_FACTOR = 10


class ClientMetricsFile:
    """See above.

    Args:
        path: of the file; None keeps nothing, and only looks whether what is pushed can be decompressed.
        push_bytes_max: largest push.
    """

    def __init__(self, path: Path | None, push_bytes_max: int) -> None:
        self._path = path
        self._unpacked_bytes_max = push_bytes_max * UNPACKED_FACTOR
        self._clients: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, instance_id: str, client: Mapping[str, Any], codec: int, data: bytes) -> None:
        """Keep what a client has pushed; in a thread.

        Args:
            instance_id: whose it is.
            client: what is known of it.
            codec: how the data are compressed.
            data: metrics in OpenTelemetry's protocol buffers.

        Raises:
            RecordError: they cannot be decompressed, or are too large then.
            MalformedMetricsError: they are no metrics.
            OSError: the file cannot be written.
        """
        unpacked = decompress(codec, data, self._unpacked_bytes_max)
        if self._path is None:
            return
        metrics = read_metrics(unpacked, POINTS_MAX)
        with self._lock:
            self._clients[instance_id] = {**client, "metrics": metrics}
            self._clients.move_to_end(instance_id)
            if len(self._clients) > CLIENTS_MAX:
                self._clients.popitem(last=False)
            self._write(self._path)

    def _write(self, path: Path) -> None:
        coming = path.with_name(path.name + ".new")
        with open(coming, "w", encoding="utf-8", opener=owner_only.opener) as file:
            json.dump({"clients": self._clients}, file, indent=1)
        coming.replace(path)
