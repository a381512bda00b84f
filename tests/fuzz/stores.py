"""A store that a broker has its archive and its journal in: strangers' objects, and objects damaged or replaced."""

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.fuzz import _places
from tests.fuzz._places import changes, run_one
from tests.fuzz.watchdog import FUZZED

__all__ = ["CORPUS", "fuzz", "run_one"]

HUGE = b"9" * 20
NAMES = st.sampled_from(
    [
        b"stray",
        b"a b",
        b"\xff",
        b"new\nline",
        HUGE,
        b"18446744073709551615",
        b"0" * 19,
        b"lease.bak",
        b"~",
        b"a" * 255,
        b"+x",
        b"\xd9\xa3",
    ]
)
CORPUS = {
    f"{mutation} {number} {given}": ("store", [(mutation, number, given)])
    for number in (2, 6, 8, 10)  # the lock of a writer, a slot and the boundary of the archive, a slot of the journal
    for mutation, given in (("extend", _places.SPARSE_BYTES), ("replace", "fifo"))
} | {
    "a control character in the address of the store": ("store", [("flip", 1, 4, 5)]),
    "strangers of any name": (
        "store",
        [("add", n, name, "garbage") for n in range(8) for name in (b"a b", HUGE, b"\xff", b"stray")],
    ),
    "a stranger in front of the journal": ("store", [("add", 24, b"0" * 19, "sparse")]),
    "strangers without content": (
        "store",
        [("add", n, name, kind) for n in range(8) for name, kind in ((b"x", "empty"), (b"y", "fifo"))],
    ),
}


@examples(FUZZED, max_examples=15)
@given(st.lists(changes, min_size=1, max_size=2) | st.lists(_places.stray(NAMES), min_size=1, max_size=4))
def fuzz(mutations):
    """Damage a store anyhow, or only add to it."""
    run_one(("store", mutations))
