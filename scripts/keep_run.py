"""Copy the part of an experiment that its numbers can be recomputed from, small enough for git.

    python scripts/keep_run.py OUT FOLDER [--without-rows]

FOLDER gets `summary.json`, `derived/latency_by_round` and the traces `runs`, `client` and `requests`, each as
one file with the columns that `examples/kept_run/recompute.py` reads. Without rows (a long run has ten million) it gets
`runs` alone: ratios and intervals can still be recomputed, percentiles over all runs of a cell cannot.
"""

import argparse
import shutil
from pathlib import Path

import pyarrow.parquet as pq

ROWS = {
    "client": ["run", "intended_ns", "sent_ns", "answered_ns", "measured"],
    "requests": [
        "run", "api", "received_ns", "dequeued_ns", "decided_ns", "submitted_ns", "durable_ns", "completed_ns",
        "released_ns", "send_started_ns", "sent_ns",
    ],
}  # fmt: skip


def keep(out: Path, folder: Path, *, with_rows: bool) -> None:
    """Copy the summary and the tables."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(out / "summary.json", folder)
    wanted: dict[str, list[str] | None] = {"traces/runs": None, "derived/latency_by_round": None}
    if with_rows:
        wanted |= {f"traces/{name}": columns for name, columns in ROWS.items()}
    for name, columns in wanted.items():
        # Spark would read the columns that its own metadata names, not those that are left.
        table = pq.read_table(out / name, columns=columns).replace_schema_metadata(None)
        (folder / name).mkdir(parents=True)
        encoded = [column for column in table.column_names if column.endswith("_ns")]
        pq.write_table(
            table,
            folder / name / "part-0.parquet",
            compression="zstd",
            compression_level=19,
            use_dictionary=[column for column in table.column_names if column not in encoded],
            column_encoding=dict.fromkeys(encoded, "DELTA_BINARY_PACKED"),
        )


def main() -> None:
    """Keep the run that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without-rows", action="store_true")
    options = parser.parse_args()
    keep(options.out, options.folder, with_rows=not options.without_rows)


if __name__ == "__main__":
    main()
