"""What requests and their results say of themselves, in logs and in tests that fail."""

from stages.request import Close, Send


def test_a_result_says_what_it_is():
    assert repr(Close("enough")) == "Close('enough')"
    assert repr(Send(b"12", b"345")) == "Send(5 bytes)"
