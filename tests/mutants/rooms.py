"""Which tests must kill the mutants of which sources, and how many of them at least."""

from pathlib import Path

import attrs

NOT_ITS_OWN = "not clients and not faults and not spark and not browser and not simulation"
"""Tests that work on processes of their own run no line here, and others are of no one room."""


@attrs.frozen
class Room:
    """Sources and the tests of their own level.

    Attributes:
        sources: files, or folders, which stand for all within.
        tests: files and folders.
        floor: the share of the mutants that are not equivalent which these tests kill at least; a little less than
            was killed when it was measured: of fresh samples of stages, log and state, 312 of 320, 412 of 420 and 738
            of 760, of all mutants of the others.
        left_out: files within the folders that belong to no room here.
    """

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    floor: float
    left_out: tuple[str, ...] = ()

    def source_paths(self, root: Path) -> list[str]:
        found = []
        for source in self.sources:
            path = root / source
            files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            found += [it.relative_to(root).as_posix() for it in files]
        return [it for it in found if not it.startswith(self.left_out) and not it.endswith("__init__.py")]


APIS = "pipeline_broker/apis"
METRICS = ("tests/telemetry/test_topic_metrics.py", "tests/telemetry/test_broker_metrics.py")
"""Of what handlers count."""
DECIDING = (
    "breakdown",
    "capacity",
    "decision",
    "effects",
    "gaps",
    "interval",
    "multiplicity",
    "offered",
    "run_quality",
)
"""What of the analysis decides without Spark, whose virtual machine does not survive a fork."""
ROOMS = {
    room.name: room
    for room in (
        Room("stages", ("stages",), ("tests/stages",), 0.95, left_out=("stages/testing/",)),
        Room("log", ("pipeline_broker/log",), ("tests/log",), 0.95),
        Room("state", ("pipeline_broker/state",), ("tests/state",), 0.95),
        Room(
            "produce",
            (
                f"{APIS}/data/produce.py",
                f"{APIS}/data/long_batches.py",
                f"{APIS}/data/internal_topics.py",
                f"{APIS}/produce_template.py",
                f"{APIS}/transactions/transactional_produce.py",
            ),
            ("tests/apis", *METRICS),
            0.98,
        ),
        Room("fetch", (f"{APIS}/data/fetch.py",), ("tests/apis", *METRICS), 0.99),
        Room(
            "offsets",
            tuple(f"{APIS}/data/{name}.py" for name in ("delete_records", "list_offsets", "offset_for_leader_epoch")),
            ("tests/apis",),
            0.99,
        ),
        Room("security", ("pipeline_broker/security",), ("tests/security",), 0.98),
        Room(
            "quotas",
            ("pipeline_broker/quotas",),
            (
                "tests/quotas",
                "tests/apis/test_throttling.py",
                "tests/apis/test_mutation_quota.py",
                "tests/apis/configs/test_client_quotas.py",
            ),
            0.97,
        ),
        Room(
            "spark_analysis",
            tuple(f"spark_analysis/{name}.py" for name in DECIDING),
            tuple(f"tests/spark_analysis/test_{name}.py" for name in DECIDING),
            0.95,
        ),
    )
}
