"""The broker as a process: startup and shutdown, listeners, and the tasks around its server on Trio.

Rules of this package:

* It does I/O and runs tasks. `broker` and `state` make the decisions.
* A failed startup raises a StartError with one line for the user. It raises a StartBlockedError if another attempt may
  succeed: another process has the ports or the journal, or the object store does not respond.
* Blocking work runs in threads.
* Optional features are imported only if they are configured, because imports take most of the time of a startup.
"""
