"""Copy the part of an experiment that is needed to recompute its numbers, small enough for Git.

    python scripts/keep_run.py OUT FOLDER [--without-rows]

FOLDER receives `summary.json`, `derived/latency_by_round`, and the traces `runs`, `client` and `requests`. Each is one
file with the columns that `examples/kept_run/recompute.py` reads. Without rows (a long run has ten million), `runs` is
the only trace. It still gives ratios and intervals, but no percentiles over all runs of a cell.
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
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(out / "summary.json", folder)
    wanted: dict[str, list[str] | None] = {"traces/runs": None, "derived/latency_by_round": None}
    if with_rows:
        wanted |= {f"traces/{name}": columns for name, columns in ROWS.items()}
    for name, columns in wanted.items():
        # Without this, Spark would look for the columns that its metadata names, some of which are removed.
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without-rows", action="store_true")
    options = parser.parse_args()
    keep(options.out, options.folder, with_rows=not options.without_rows)


if __name__ == "__main__":
    main()
