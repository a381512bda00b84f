"""Slot objects: encoded slots are decoded, as a whole and from the end, and no changed byte goes unnoticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.objects.slot import (
    FENCE_SIZE,
    HEADER_SIZE,
    JOIN_BELOW_BYTES,
    TRAILER_SIZE,
    DamagedSlotError,
    EncodedSlot,
    SlotEntry,
    SlotHeader,
    SlotKind,
    check_group,
    encode_slot,
    read_header,
    read_index,
    read_slot,
    tail_size,
)

HEADER = SlotHeader(SlotKind.DATA, 3, 7, 1 << 40, b"0123456789abcdef")

headers = st.builds(
    SlotHeader,
    st.sampled_from([SlotKind.DATA, SlotKind.SNAPSHOT]),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 64) - 1),
    st.binary(min_size=16, max_size=16),
)


@st.composite
def slot_entries(draw: st.DrawFn) -> SlotEntry:
    """Draw an entry with any bytes as its body, some large enough not to be copied."""
    parts = tuple(draw(st.lists(st.binary(max_size=40), max_size=3)))
    if draw(st.integers(0, 19)) == 0:
        parts += (bytes([len(parts)]) * JOIN_BELOW_BYTES,)
    key = draw(st.sampled_from([b"", b"a", b"bb", b"topic and partition 20"]))
    return SlotEntry(key, draw(st.binary(max_size=61)), parts, sum(map(len, parts)))


def entry(key: bytes, body: bytes, head: bytes = b"") -> SlotEntry:
    return SlotEntry(key, head, (body,), len(body))


def joined(slot: EncodedSlot) -> bytes:
    data = b"".join(slot.parts)
    assert len(data) == slot.size_bytes
    return data


@given(headers, st.lists(slot_entries(), min_size=1, max_size=12))
def test_encoded_slots_are_decoded(header: SlotHeader, entries: list[SlotEntry]) -> None:
    """Entries are decoded in the order of the commit, at the positions that the encoder returned."""
    encoded = encode_slot(header, entries)
    data = joined(encoded)
    index = read_slot(data)
    assert index.header == header == read_header(data[:HEADER_SIZE])
    assert [(found.key, found.head) for found in index.entries] == [(one.key, one.head) for one in entries]
    assert [found.position for found in index.entries] == encoded.positions
    for found, one in zip(index.entries, entries, strict=True):
        assert data[found.position : found.position + found.size_bytes] == b"".join(one.parts)


@given(headers, st.lists(slot_entries(), min_size=1, max_size=8), st.integers(0, 200))
def test_the_end_of_an_object_is_enough_for_its_index(
    header: SlotHeader, entries: list[SlotEntry], more_bytes: int
) -> None:
    """More bytes before it make no difference, and with one byte less it is refused."""
    data = joined(encode_slot(header, entries))
    size = tail_size(data[-TRAILER_SIZE:])
    assert read_index(data[-min(size + more_bytes, len(data)) :]) == read_slot(data)
    with pytest.raises(DamagedSlotError):
        read_index(data[-size + 1 :])


@given(st.lists(slot_entries(), min_size=1, max_size=8), st.data())
def test_a_changed_byte_is_noticed_wherever_it_is(entries: list[SlotEntry], data: st.DataObject) -> None:
    """Any byte of the whole object, of its end, or of a group."""
    whole = joined(encode_slot(HEADER, entries))
    flipped = bytearray(whole)
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedSlotError):
        read_slot(flipped)
    size = tail_size(whole)
    if at >= len(whole) - size:
        with pytest.raises(DamagedSlotError):
            read_index(flipped[len(whole) - size :])
    elif at < HEADER_SIZE:
        with pytest.raises(DamagedSlotError):
            read_header(flipped[:HEADER_SIZE])
    else:
        (group,) = [one for one in read_index(whole).groups if 0 <= at - one.position < one.size_bytes]
        with pytest.raises(DamagedSlotError):
            check_group(group, flipped[group.position : group.position + group.size_bytes])


def test_every_byte_of_an_object_changed_in_every_bit_is_noticed() -> None:
    """All 8 bits of each byte of one object."""
    whole = joined(encode_slot(HEADER, [entry(b"a", b"one", b"1"), entry(b"b", b"two", b"2"), entry(b"a", b"three")]))
    unnoticed = []
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            read_slot(changed)
        except DamagedSlotError:
            continue
        unnoticed.append(bit)
    assert unnoticed == []


def test_an_object_cut_anywhere_or_with_trailing_bytes_is_refused() -> None:
    whole = joined(encode_slot(HEADER, [entry(b"a", b"one"), entry(b"b", b"two")]))
    for cut in [*(whole[:end] for end in range(len(whole))), *(whole[start:] for start in range(1, len(whole)))]:
        with pytest.raises(DamagedSlotError):
            read_slot(cut)
    for longer in (whole + b"\0", b"\0" + whole, whole + whole):
        with pytest.raises(DamagedSlotError):
            read_slot(longer)


def test_halves_of_two_objects_are_refused() -> None:
    """Both ends are intact, but of different slots."""
    one, other = (joined(encode_slot(HEADER._replace(slot=slot), [entry(b"a", b"x")])) for slot in (1, 2))
    with pytest.raises(DamagedSlotError, match="different objects"):
        read_slot(one[:-TRAILER_SIZE] + other[-TRAILER_SIZE:])


def test_a_fence_has_a_size_that_no_data_has() -> None:
    """Even the smallest entry makes an object larger than a fence."""
    fence = joined(encode_slot(HEADER._replace(kind=SlotKind.FENCE), []))
    assert len(fence) == FENCE_SIZE
    assert read_slot(fence).header.kind is SlotKind.FENCE
    assert encode_slot(HEADER, [entry(b"", b"")]).size_bytes > FENCE_SIZE


def test_large_parts_are_not_copied() -> None:
    """Small parts between them are joined."""
    large = bytes(JOIN_BELOW_BYTES)
    encoded = encode_slot(HEADER, [entry(b"a", b"1"), entry(b"a", b"2"), entry(b"a", large), entry(b"a", b"3")])
    assert [len(part) for part in encoded.parts[1:-1]] == [2, len(large), 1]
    assert any(part is large for part in encoded.parts)
