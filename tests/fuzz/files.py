"""The files of a data directory, damaged, replaced and added to, at a start and under `inspect`."""

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.fuzz import _places
from tests.fuzz._places import KINDS, changes, run_one
from tests.fuzz.watchdog import FUZZED

__all__ = ["CORPUS", "fuzz", "run_one"]

NAMES = st.sampled_from(
    [
        b"stray",
        b"x.segment",
        b"-1.segment",
        b"9.segment",
        "\uff15.segment".encode(),
        b"0000000000000000000a.segment",
        b"999999999999999999999.segment",
        b"\xff\xfe.segment",
        b"new\nline",
        b"\x1b[31m",
        b"manifest.bak",
        b"00000000000000000000.log.bak",
        b"a" * 255,
        b"events-0.bak",
    ]
)
EACH = range(7)
CORPUS = {
    f"{mutation[0]} {number} {mutation[1]} of {kind}": (kind, [(mutation[0], number, mutation[1])])
    for number in EACH
    for kind, mutation in (
        *((kind, ("extend", _places.SPARSE_BYTES)) for kind in KINDS),
        ("stopped", ("replace", "fifo")),
        ("killed", ("replace", "device")),
        ("killed", ("replace", "/etc/passwd")),
    )
} | {
    "strays everywhere": (
        "killed",
        [("add", n, name, "garbage") for n in range(8) for name in (b"x.segment", b"9.segment", b"\xff")],
    ),
    "names of strangers' folders": ("stopped", [("add", n, b"events-7", "directory") for n in range(8)]),
}


@examples(FUZZED, max_examples=15)
@given(
    st.sampled_from(KINDS),
    st.lists(changes, min_size=1, max_size=3) | st.lists(_places.stray(NAMES), min_size=1, max_size=4),
)
def fuzz(kind, mutations):
    """Damage a directory anyhow, or only add to it."""
    run_one((kind, mutations))
