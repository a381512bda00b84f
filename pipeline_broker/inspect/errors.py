"""Errors of inspection, with a text of one line for the user."""

__all__ = ["NoDataDirectoryError", "RecordsGoneError", "StoredDataError"]


class NoDataDirectoryError(Exception):
    """Nothing is stored at the place, or it cannot be read."""


class StoredDataError(Exception):
    """Stored data is damaged, so records could be missing."""


class RecordsGoneError(Exception):
    """Records were deleted while they were read: by retention, by a client, or with their topic."""
