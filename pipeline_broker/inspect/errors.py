"""Why nothing can be inspected, or read.

Rules of this file: it imports nothing; the text of an error is one line for a user.
"""

__all__ = ["NoDataDirectoryError", "RecordsGoneError", "StoredDataError"]


class NoDataDirectoryError(Exception):
    """There is nothing to inspect, or it may not be read."""


class StoredDataError(Exception):
    """What is stored is damaged, and records could be missing."""


class RecordsGoneError(Exception):
    """Records that were to be read are not there any more: deleted by retention, by a client, or with their topic."""
