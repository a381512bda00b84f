"""Offline inspection of stored data: verification for `pipeline-broker inspect`, and readers for Spark's source.

The data is in a data directory, in an object store, or in both (`stored_place`).

Rules of this package:

* It only reads, takes no lock and fences nothing, so the broker may keep running.
* A running broker appends, archives, compacts and deletes at any time. So before something is reported as damage, the
  manifest is read again. If the broker has replaced the file, the finding is `Superseded`.
* Data is judged like at a startup: data that a startup refuses is damage; data that it truncates or ignores is not.
* Memory stays bounded, whatever the files hold: segments are read in windows, and lists of foreign files are cut.
"""
