"""The files of the archive: segments, their indexes, and the store that keeps them; knows records, not wire."""
