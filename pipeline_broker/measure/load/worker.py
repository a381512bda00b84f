"""One of several processes of a load. Its parent, `processes`, controls it by JSON lines on stdin and stdout."""

import functools
import json
import sys
from typing import Any

import trio

from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.client import drive, run_to_end
from pipeline_broker.measure.load.measurement import measured
from pipeline_broker.measure.load.options import Arrivals, LoadOptions
from pipeline_broker.measure.load.recorders import HistogramRecorder
from pipeline_broker.measure.load.requests import Requests


def main() -> None:
    try:
        part: dict[str, Any] = json.loads(sys.stdin.readline())
        part["arrivals"] = Arrivals(part["arrivals"])
        part["security"] = tuple((name, value) for name, value in part["security"])
        options = LoadOptions(**part)
        driven = run_to_end(functools.partial(drive, record=recorder_of, wait_for_start=_common_start), options)
        _send(measured(options, driven).encode())
    except ClientError as error:
        _send({"failed": str(error)})
    except KeyboardInterrupt:
        _send({"failed": "interrupted"})


def recorder_of(requests: Requests) -> HistogramRecorder:
    return HistogramRecorder(requests.kinds)


async def _common_start() -> int:
    _send({"ready": True})
    return int(json.loads(await trio.to_thread.run_sync(sys.stdin.readline)))


def _send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
