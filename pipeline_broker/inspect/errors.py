"""Errors of inspection, with a text of one line for the user."""

__all__ = ["NoDataDirectoryError", "RecordsGoneError", "StoredDataError"]


class NoDataDirectoryError(Exception):
    """The directory or object store cannot be read, or lacks a broker's data or a named topic."""


class StoredDataError(Exception):
    """Stored data is damaged, so records could be missing."""


class RecordsGoneError(Exception):
    """Requested records do not exist: they were deleted, or their offset is outside the log."""
