"""The repr of requests and results, for logs and failing tests."""

from stages.request import Close, Send


def test_results_have_a_readable_repr():
    assert repr(Close("enough")) == "Close('enough')"
    assert repr(Send(b"12", b"345")) == "Send(5 bytes)"
