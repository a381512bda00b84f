"""A small interface to the file system, with implementations for disks and memory.

Rules of this package:

* It knows nothing about logs or Trio. All calls block, so callers use threads.
* Every file of the broker is opened through this package, which opens regular files only.
  `tests/repository/test_opened_files.py` lists the exceptions.
* Errors are OSError, with `SyncError`, `Obstacle` and `UnfitFileError` for failures that callers treat differently.
"""
