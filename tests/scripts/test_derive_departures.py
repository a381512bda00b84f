import csv
import gzip
import hashlib
import importlib.util
import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data" / "departures-2013.csv.gz"


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("derive_departures", ROOT / "scripts/derive_departures.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_file_matches_its_description():
    text = gzip.decompress(DATA.read_bytes())
    assert re.search(r"`([0-9a-f]{64})`", (ROOT / "data/README.md").read_text())[1] == hashlib.sha256(text).hexdigest()
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    times = [int(row["time"]) for row in rows]
    assert len(rows) == 336_776
    assert times == sorted(times)
    assert sum(not row["tail_number"] for row in rows) == 2_512
    assert sum(not row["delay_minutes"] for row in rows) == 8_255
    assert DATA.stat().st_size <= 4_000_000


def test_a_departure_is_derived_from_a_row_of_the_source(script, tmp_path):
    flights = (
        "year,month,day,dep_time,sched_dep_time,dep_delay,carrier,flight,tailnum,origin,dest,hour,minute,time_hour\n"
        "2013,1,1,517,515,-2,UA,1545,N14228,EWR,IAH,5,15,2013-01-01T10:00:00Z\n"
        "2013,7,1,NA,2359,NA,B6,745,NA,JFK,PSE,23,59,2013-07-02T03:00:00Z\n"
    )
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("flights.csv", flights)
    sdist = tmp_path / "sdist.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        member = tarfile.TarInfo(script.MEMBER)
        member.size = len(inner.getvalue())
        archive.addfile(member, io.BytesIO(inner.getvalue()))
    rows = list(script.derive(script.read_flights(sdist)))
    assert rows == [
        (1357035300, "UA", "1545", "N14228", "EWR", "IAH", "-2"),
        (1372737540, "B6", "745", "", "JFK", "PSE", ""),
    ]
    assert gzip.decompress(script.pack(rows[:1])).decode().splitlines() == [
        "time,carrier,flight,tail_number,origin,destination,delay_minutes",
        "1357035300,UA,1545,N14228,EWR,IAH,-2",
    ]
