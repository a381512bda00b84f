"""Why nothing can be inspected.

Rules of this file: it imports nothing; the text of an error is one line for a user.
"""

__all__ = ["NoDataDirectoryError"]


class NoDataDirectoryError(Exception):
    """There is nothing to inspect, or it may not be read."""
