"""The checksum is the package's C function, and the rest of the package is not imported."""

import subprocess
import sys

from pipeline_broker.records import checksum

CHECK = 0xE3069283
"""Of the nine digits, as catalogues of checksums have it (CRC-32/ISCSI)."""


def test_it_is_the_checksum_of_any_buffer_in_pieces_too():
    assert checksum.crc32c(b"123456789") == CHECK
    assert checksum.crc32c(memoryview(b"56789"), checksum.crc32c(bytearray(b"1234"))) == CHECK


def test_the_packages_command_line_and_metadata_are_not_imported():
    program = "import sys, pipeline_broker.records.checksum; print(*{'argparse', 'email', 'crc32c'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_a_package_without_the_c_module_is_imported_as_it_is(monkeypatch):
    monkeypatch.setattr(checksum, "EXTENSION", "crc32c.no_such_module")
    whole = checksum._extension()
    assert whole.__name__ == "crc32c"
    assert whole.crc32c(b"123456789") == CHECK
