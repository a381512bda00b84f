"""The PLACE syntax of the command line."""

from datetime import datetime

import pytest

from pipeline_broker.client.offsets import BEGINNING, END, Place, read_place

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", BEGINNING),
        ("earliest", BEGINNING),
        ("end", END),
        ("latest", END),
        ("0", Place(offset=0)),
        ("42", Place(offset=42)),
        ("-10", Place(before_end=10)),
        ("@1785000000000", Place(time=1_785_000_000_000)),
        ("@0000000000000", Place(time=0)),
        ("@-5m", Place(time=NOW_MS - 300_000)),
        ("@-1.5h", Place(time=NOW_MS - 5_400_000)),
        ("@-999999999d", Place(time=0)),
        ("@2026-08-01T12:00Z", Place(time=1_785_585_600_000)),
        ("@2026-08-01T12:00:00.250+02:00", Place(time=1_785_578_400_250)),
        ("@20260801", Place(time=round(datetime(2026, 8, 1).astimezone().timestamp() * 1000))),
    ],
)
def test_places(text, place):
    assert read_place(text, NOW_MS) == place


@pytest.mark.parametrize("text", ["", "start", "1.5", "--5", "9" * 30, "@", "@yesterday", "@-5", "@-5y", "@2026-13-01"])
def test_an_invalid_place_is_rejected(text):
    with pytest.raises(ValueError, match=r"is not a (position|time): give "):
        read_place(text, NOW_MS)
