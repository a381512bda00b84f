"""Compressed records with every feature of their formats, and the outcome in Apache Kafka.

`tests/differential` sends each entry to Kafka, `tests/records` to our reader. The data of an entry holds DATA unless
its name says otherwise.

Longer than most files: one table, with the writers of its entries.
"""

import random
import struct
import zlib
from enum import Enum

import cramjam

from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, assembled, build_batch, read_header
from pipeline_broker.records.compression import Compression

TIMESTAMP = 1_700_000_000_000
BATCH = build_batch([NewRecord(b"value " * 300, b"key", TIMESTAMP), NewRecord(b"v" * 200, None, TIMESTAMP)])
LARGE_BATCH = build_batch([NewRecord(random.Random(1).randbytes(133_000), b"key", TIMESTAMP)])
DATA, LARGE_DATA = BATCH[HEADER_SIZE:], LARGE_BATCH[HEADER_SIZE:]
HALVES = DATA[:700], DATA[700:]
WORD = 0xFFFFFFFF


class Outcome(Enum):
    READ = 0
    UNREADABLE = -1
    INVALID = 87
    REFUSED = "by both, with one code or the other: Kafka reports the first error"
    LOST = "Kafka's broker takes it, and no Java consumer can read it"


def batch_with(codec, data, batch=BATCH):
    """Return a batch that declares this data to be its records."""
    return bytes(assembled(read_header(batch)._replace(attributes=codec), data)[1])


# gzip


def gz(data=DATA, flags=0, fields=b"", *, method=8, crc_xor=0, size_add=0, header_crc_xor=None, level=6):
    """Return a gzip member; arguments that end in `_xor` damage a checksum."""
    head = b"\x1f\x8b" + bytes([method, flags]) + bytes(6) + fields
    if header_crc_xor is not None:
        head += struct.pack("<H", zlib.crc32(head) & 0xFFFF ^ header_crc_xor)
    packer = zlib.compressobj(level, wbits=-15)
    body = packer.compress(data) + packer.flush()
    return head + body + struct.pack("<II", zlib.crc32(data) ^ crc_xor, len(data) + size_add)


GZIP = {
    Outcome.READ: {
        "plain": gz(),
        "stored": gz(level=0),
        "a byte after": gz() + b"x",
        "100 bytes after": gz() + b"x" * 100,
        "10,000 bytes after": gz() + b"x" * 10_000,
        "zero bytes after": gz() + bytes(100),
        "concatenated": gz(HALVES[0]) + gz(HALVES[1]),
        "concatenated, empty last": gz() + gz(b""),
        "concatenated, empty first": gz(b"") + gz(),
        "concatenated thrice": gz(DATA[:10]) + gz(DATA[10:20]) + gz(DATA[20:]),
        "concatenated, small last": gz(DATA[:-1]) + gz(DATA[-1:]),
        "concatenated, bytes after": gz(HALVES[0]) + gz(HALVES[1]) + b"xyz",
        "a member cut off within its first bytes after": gz() + gz(b"x")[:18],
        "a damaged header after": gz() + b"\x1f\x8b\x08" + b"x" * 40,
        "a header of another method after": gz() + gz(method=7),
        "a wrong header checksum after": gz() + gz(flags=2, header_crc_xor=1),
        "a name": gz(flags=8, fields=b"name\0"),
        "a comment": gz(flags=16, fields=b"comment\0"),
        "an extra field": gz(flags=4, fields=b"\3\0abc"),
        "an empty extra field": gz(flags=4, fields=b"\0\0"),
        "all fields": gz(flags=31, fields=b"\3\0abcname\0comment\0", header_crc_xor=0),
        "text flag": gz(flags=1),
        "reserved flags": gz(flags=0xE0),
        "a header checksum": gz(flags=2, header_crc_xor=0),
    },
    Outcome.UNREADABLE: {
        "nothing": b"",
        "concatenated, damaged last": gz(HALVES[0]) + gz(HALVES[1], crc_xor=1),
        "an empty damaged member after": gz() + gz(b"", crc_xor=1) + bytes(20),
        "a wrong checksum": gz(crc_xor=1),
        "a wrong size": gz(size_add=1),
        "no trailer": gz()[:-8],
        "cut trailer": gz()[:-1],
        "cut data": gz()[:-30],
        "a wrong header checksum": gz(flags=2, header_crc_xor=1),
        "an extra field that is cut off": gz(flags=4, fields=b"\xff\xff")[:40],
        "a name that does not end": gz(flags=8)[:10] + b"name",
        "another method": gz(method=7),
        "zlib": zlib.compress(DATA),
        "deflate": gz()[10:-8],
    },
    Outcome.INVALID: {
        "the records twice": gz() + gz(),
        "a byte too many": gz(DATA + b"x"),
        "a byte too few": gz(DATA[:-1]),
    },
    Outcome.REFUSED: {"a cut member with a byte after": gz() + gz(b"x")[:-2], "a cut member after": gz() + gz()[:-9]},
}


# Snappy

XERIAL_MAGIC = b"\x82SNAPPY\0"


def raw_snappy(data=DATA):
    return bytes(cramjam.snappy.compress_raw(data))


def xerial(*pieces, version=1, compatible=1):
    frame = XERIAL_MAGIC + struct.pack(">ii", version, compatible)
    for piece in pieces or (DATA,):
        block = raw_snappy(piece)
        frame += struct.pack(">i", len(block)) + block
    return frame


XERIAL_HEADER = xerial()[:16]
SNAPPY = {
    Outcome.READ: {
        "plain": xerial(),
        "raw": raw_snappy(),
        "blocks": xerial(*HALVES),
        "an empty block first": xerial(b"", DATA),
        "an empty block between": xerial(HALVES[0], b"", HALVES[1]),
        "an empty block last": xerial(DATA, b""),
        "a byte after": xerial() + b"x",
        "3 bytes after": xerial() + b"xyz",
        "concatenated": xerial(HALVES[0]) + xerial(HALVES[1]),
        "a header after": xerial() + XERIAL_HEADER,
        "two headers": XERIAL_HEADER + xerial(),
        "concatenated, another version": xerial(HALVES[0]) + xerial(HALVES[1], version=7, compatible=0),
        "version 2": xerial(version=2, compatible=2),
        "version 0": xerial(version=0, compatible=0),
    },
    Outcome.UNREADABLE: {
        "nothing": b"",
        "raw, a byte after": raw_snappy() + b"x",
        "raw, cut": raw_snappy()[:-1],
        "a block of no bytes after": xerial() + bytes(4),
        "a block of no bytes first": XERIAL_HEADER + bytes(4) + xerial()[16:],
        "a negative block": xerial() + struct.pack(">i", -1) + b"xxxx",
        "a length after": xerial() + b"\0\0\0\5",
        "a cut block after": xerial() + b"\0\0\0\5abc",
        "bytes that are not a block after": xerial() + b"\0\0\0\5abcde",
        "a cut header after": xerial() + XERIAL_HEADER[:10],
        "a cut header": XERIAL_HEADER[:12],
        "snappy's own framing": bytes(cramjam.snappy.compress(DATA)),
    },
    Outcome.INVALID: {
        "the records twice": xerial() + xerial(),
        "the start of a header after": xerial() + b"\x82SNAPPX\0" + xerial()[8:],
        "a header only": XERIAL_HEADER,
        "raw nothing": raw_snappy(b""),
        "a byte too many": xerial(DATA + b"x"),
        "a byte too few": xerial(DATA[:-1]),
    },
}


# LZ4

LZ4_MAGIC, LEGACY_MAGIC = struct.pack("<I", 0x184D2204), struct.pack("<I", 0x184C2102)
SKIPPABLE = struct.pack("<II", 0x184D2A50, 5) + b"skip!"
INDEPENDENT, BLOCK_SUM, SIZE, CONTENT_SUM, DICTIONARY = 0x20, 0x10, 0x08, 0x04, 0x01
ALL_FEATURES = INDEPENDENT | CONTENT_SUM | SIZE | BLOCK_SUM
PRIMES = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def rotated(value, bits):
    value &= WORD
    return (value << bits | value >> (32 - bits)) & WORD


def xxh32(data):
    one, two, three, four, five = PRIMES
    lanes = [(one + two) & WORD, two, 0, -one & WORD]
    at = 0
    while len(data) - at >= 16:
        for lane, word in enumerate(struct.unpack_from("<4I", data, at)):
            lanes[lane] = rotated(lanes[lane] + word * two, 13) * one & WORD
        at += 16
    found = len(data) + (sum(map(rotated, lanes, (1, 7, 12, 18))) if at else five)
    while len(data) - at >= 4:
        found = rotated(found + struct.unpack_from("<I", data, at)[0] * three, 17) * four
        at += 4
    for byte in data[at:]:
        found = rotated(found + byte * five, 11) * one
    found &= WORD
    found = (found ^ found >> 15) * two & WORD
    found = (found ^ found >> 13) * three & WORD
    return found ^ found >> 16


def lz4_block(data=DATA):
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def lz4_head(flags=INDEPENDENT, descriptor=0x40, *, version=1, size=0, after=b"", sum_xor=0):
    """Return the header of a frame; `after` is the id of a dictionary."""
    head = bytes([version << 6 | flags, descriptor]) + (struct.pack("<Q", size) if flags & SIZE else b"") + after
    return LZ4_MAGIC + head + bytes([(xxh32(head) >> 8 & 255) ^ sum_xor])


def lz4(*pieces, flags=INDEPENDENT, head=None, block_xor=0, sum_xor=0, stored=False, end=bytes(4)):
    """Return a frame; `head` replaces the header that the flags give, and arguments that end in `_xor` damage a
    checksum.
    """
    pieces = pieces or (DATA,)
    content = b"".join(pieces)
    frame = lz4_head(flags, size=len(content)) if head is None else head
    for piece in pieces:
        packed = piece if stored else lz4_block(piece)
        frame += struct.pack("<I", len(packed) | stored << 31) + packed
        frame += struct.pack("<I", xxh32(packed) ^ block_xor) if flags & BLOCK_SUM else b""
    return frame + end + (struct.pack("<I", xxh32(content) ^ sum_xor) if flags & CONTENT_SUM else b"")


def linked_lz4():
    """Return a frame with linked blocks, as librdkafka wrote once and most tools write."""
    compressor = cramjam.lz4.Compressor(level=4, content_checksum=False, block_linked=True)
    compressor.compress(DATA)
    return bytes(compressor.finish())


LZ4 = {
    Outcome.READ: {
        "plain": lz4(),
        "blocks": lz4(*HALVES),
        "stored blocks": lz4(*HALVES, stored=True),
        "an empty block last": lz4(DATA, b""),
        "two empty blocks last": lz4(DATA, b"", b""),
        "an empty block before others": lz4(DATA, b"", b"junk"),
        "an empty block and no end": lz4(DATA, b"", end=b""),
        "an empty block and no block": lz4(DATA, b"", end=b"\xff\xff\xff\x7f"),
        "a stored empty block before others": lz4(end=b"") + b"\0\0\0\x80" + b"xyz",
        **{
            f"blocks up to {8 << 2 * code} KiB": lz4(head=lz4_head(descriptor=(code + 2) << 4)) for code in (2, 3, 4, 5)
        },
        "block checksums": lz4(*HALVES, flags=INDEPENDENT | BLOCK_SUM),
        "block checksums, stored": lz4(*HALVES, flags=INDEPENDENT | BLOCK_SUM, stored=True),
        "a size": lz4(flags=INDEPENDENT | SIZE),
        "a wrong size": lz4(head=lz4_head(INDEPENDENT | SIZE, size=1)),
        "a size beyond all": lz4(head=lz4_head(INDEPENDENT | SIZE, size=1 << 60)),
        "a content checksum": lz4(flags=INDEPENDENT | CONTENT_SUM),
        "a wrong content checksum": lz4(flags=INDEPENDENT | CONTENT_SUM, sum_xor=1),
        "a content checksum, bytes after": lz4(flags=INDEPENDENT | CONTENT_SUM) + b"xx",
        "all features": lz4(*HALVES, flags=ALL_FEATURES),
        "all features, bytes after": lz4(*HALVES, flags=ALL_FEATURES) + b"x" * 9,
        "a byte after": lz4() + b"x",
        "zero bytes after": lz4() + bytes(100),
        "100 bytes after": lz4() + b"x" * 100,
        "the records twice": lz4() + lz4(),
        "an empty frame after": lz4() + lz4(b""),
        "a skippable frame after": lz4() + SKIPPABLE,
        "a legacy frame after": lz4() + LEGACY_MAGIC + struct.pack("<I", len(lz4_block())) + lz4_block(),
    },
    Outcome.UNREADABLE: {
        "nothing": b"",
        "dependent blocks": linked_lz4(),
        "dependent blocks, only one": lz4(flags=0),
        "dependent blocks, two": lz4(*HALVES, flags=0),
        "dependent blocks and checksums": lz4(*HALVES, flags=BLOCK_SUM | CONTENT_SUM),
        **{f"block size code {code}": lz4(head=lz4_head(descriptor=code << 4)) for code in (0, 1, 2, 3, 12)},
        "a wrong block checksum": lz4(flags=INDEPENDENT | BLOCK_SUM, block_xor=1),
        "no content checksum": lz4(flags=INDEPENDENT | CONTENT_SUM)[:-4],
        "a cut content checksum": lz4(flags=INDEPENDENT | CONTENT_SUM)[:-1],
        "a dictionary": lz4(head=lz4_head(INDEPENDENT | DICTIONARY, after=b"\1\0\0\0")),
        "a reserved flag": lz4(head=lz4_head(INDEPENDENT | 2)),
        "a reserved bit": lz4(head=lz4_head(descriptor=0x41)),
        "version 0": lz4(head=lz4_head(version=0)),
        "version 2": lz4(head=lz4_head(version=2)),
        "a wrong header checksum": lz4(head=lz4_head(sum_xor=1)),
        "a header checksum of Kafka 0.9": lz4(
            head=LZ4_MAGIC + b"\x60\x40" + bytes([xxh32(LZ4_MAGIC + b"\x60\x40") >> 8 & 255])
        ),
        "no end": lz4(end=b""),
        "a cut end": lz4(end=bytes(3)),
        "a cut block": lz4(end=b"")[:-1],
        "a header only": lz4_head(),
        "a cut header": lz4_head(INDEPENDENT | SIZE)[:12],
        "a skippable frame first": SKIPPABLE + lz4(),
        "a legacy frame": LEGACY_MAGIC + struct.pack("<I", len(lz4_block())) + lz4_block(),
        "a block": lz4_block(),
        "a stored block that is too large": lz4(DATA + b"v" * 70_000, stored=True),
        "a block that is unpacked to too much": lz4(DATA + bytes(70_000)),
        "a damaged block after": lz4(end=b"") + struct.pack("<I", 5) + b"\xff" * 5 + bytes(4),
    },
    Outcome.INVALID: {
        "a frame for each half": lz4(HALVES[0]) + lz4(HALVES[1]),
        "a stored empty block between": lz4(HALVES[0], end=b"") + b"\0\0\0\x80" + lz4(HALVES[1])[7:],
        "nothing in a frame": lz4(b""),
        "a byte too many": lz4(DATA + b"x"),
        "a byte too few": lz4(DATA[:-1]),
        "another block after": lz4(DATA, b"junk"),
    },
    Outcome.LOST: {
        "an empty block between": lz4(HALVES[0], b"", HALVES[1]),
        "an empty block first": lz4(b"", DATA),
    },
}


# Zstandard


def zstd(data=DATA, window_log=None, *, size=None, descriptor=0, dictionary=b"", blocks=None):
    """Return a frame with raw blocks, so that every field can be chosen; without a window it has one segment."""
    head = b"\x28\xb5\x2f\xfd" + bytes([descriptor | (0xA0 if window_log is None else 0x80 if size is not None else 0)])
    if window_log is not None:
        head += bytes([(window_log - 10) << 3])
    head += dictionary
    if window_log is None or size is not None:
        head += struct.pack("<I", len(data) if size is None else size)
    pieces = blocks or [data]
    for number, piece in enumerate(pieces):
        head += struct.pack("<I", (number == len(pieces) - 1) | len(piece) << 3)[:3] + piece
    return head


def padded_zstd(end):
    """Return a frame after skippable ones, so that it ends at the given position."""
    size = end - len(zstd()) - 8
    return struct.pack("<II", 0x184D2A50, size) + bytes(size) + zstd()


ZSTD_MAGIC = zstd()[:4]
SOURCE_BYTES = 131_075
"""Size of the reads of Kafka's library."""
ZSTD = {
    Outcome.READ: {
        "plain": bytes(cramjam.zstd.compress(DATA)),
        "one segment": zstd(),
        "many blocks": zstd(window_log=10, blocks=[DATA[at : at + 512] for at in range(0, len(DATA), 512)]),
        "an empty block": zstd(blocks=[DATA, b""]),
        **{f"window log {log}": zstd(window_log=log) for log in (17, 20, 26, 27)},
        "window log 31 for little": zstd(window_log=31, size=len(DATA)),
        "window log 31 for little after": zstd(HALVES[0]) + zstd(HALVES[1], window_log=31, size=len(HALVES[1])),
        "dictionary 0": zstd(descriptor=1, dictionary=b"\0"),
        "unused bit": zstd(descriptor=16),
        "skippable first": SKIPPABLE + zstd(),
        "skippable last": zstd() + SKIPPABLE,
        "skippable between": zstd(HALVES[0]) + SKIPPABLE + zstd(HALVES[1]),
        "skippable cut": zstd() + SKIPPABLE[:-1],
        "concatenated": zstd(HALVES[0]) + zstd(HALVES[1]),
        "concatenated, empty between": zstd(HALVES[0]) + zstd(b"") + zstd(HALVES[1]),
        "concatenated, empty last": zstd() + zstd(b""),
        "a frame without its content after": zstd() + zstd(b"x")[:-1],
        "a magic after": zstd() + ZSTD_MAGIC,
        "a part of a magic after": zstd() + ZSTD_MAGIC[:3],
        **{f"a cut frame {at} bytes after a part": padded_zstd(SOURCE_BYTES + at) + ZSTD_MAGIC[:3] for at in (-3, 1)},
    },
    Outcome.UNREADABLE: {
        "window log 10 for more": zstd(window_log=10),
        **{f"window log {log}": zstd(window_log=log) for log in (28, 29, 31)},
        **{f"window log {log} after": zstd(HALVES[0]) + zstd(HALVES[1], window_log=log) for log in (28, 31)},
        "window log 31 for nothing after": zstd() + zstd(b"", window_log=31),
        "a segment of 1 GiB": zstd(size=1 << 30),
        "too small a size": zstd(size=10),
        "too large a size": zstd(size=len(DATA) + 1),
        "a wrong size": zstd(window_log=20, size=len(DATA) + 1),
        "a wrong checksum": zstd(descriptor=4) + bytes(4),
        "no checksum": zstd(descriptor=4),
        "a dictionary": zstd(descriptor=1, dictionary=b"\7"),
        "a reserved bit": zstd(descriptor=8),
        "a skippable frame of 4 GiB first": struct.pack("<II", 0x184D2A5F, WORD) + zstd(),
        "a byte after": zstd() + b"x",
        "4 bytes after": zstd() + b"xxxx",
        "100 bytes after": zstd() + b"x" * 100,
        "zero bytes after": zstd() + bytes(100),
        "a damaged frame after": zstd() + zstd(b"")[:9] + b"\xff\xff\xff",
        "cut": zstd()[:-1],
        "a header only": zstd()[:9],
        "a magic only": ZSTD_MAGIC,
        "no last block": zstd(blocks=HALVES)[: -len(HALVES[1]) - 3],
        "a legacy frame": b"\x27" + zstd()[1:],
        "a reserved block": zstd()[:9] + struct.pack("<I", 7 | 5 << 3)[:3] + b"xxxxx",
        **{f"a cut frame {at} bytes after a part": padded_zstd(SOURCE_BYTES + at) + ZSTD_MAGIC[:3] for at in (-2, 0)},
    },
    Outcome.INVALID: {
        "nothing": b"",
        "skippable only": SKIPPABLE,
        "the records twice": zstd() + zstd(),
        "a byte too many": zstd(DATA + b"x"),
        "a byte too few": zstd(DATA[:-1]),
    },
    Outcome.REFUSED: {
        "a block of a cut frame after": zstd() + zstd(blocks=[b"abc", b"def"])[:-2],
        "half a stored block after": zstd() + zstd(b"abc")[:-1],
    },
}

TABLE = {Compression.GZIP: GZIP, Compression.SNAPPY: SNAPPY, Compression.LZ4: LZ4, Compression.ZSTD: ZSTD}
ROWS = {
    f"{codec.name.lower()}: {name}": (outcome, batch_with(codec, data))
    for codec, outcomes in TABLE.items()
    for outcome, entries in outcomes.items()
    for name, data in entries.items()
} | {
    f"gzip: a member that ends {at} bytes after 8 KiB": (
        Outcome.READ,
        batch_with(Compression.GZIP, gz(LARGE_DATA[: 8187 + at], level=0) + gz(LARGE_DATA[8187 + at :]), LARGE_BATCH),
    )
    for at in range(-40, 12, 4)
}
"""Name -> outcome of a batch. Java reads gzip in parts of 8 KiB."""
