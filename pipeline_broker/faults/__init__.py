"""Fault rules: requests, file operations and store requests of a broker that fail on purpose.

A rule has a condition that requests match, a choice of the matches that it strikes, and an effect.

Rules of the package:

* Conditions and effects are values and do nothing. `apis/faulty_requests.py`, `disk.py` and `store_faults.py` carry
  effects out.
* Code here does no I/O, receives the time as an argument, and runs on the event loop. The exceptions are
  `thread_rules.py` with its subclasses, and `rule_file.py`.
* A broker without rules pays at most one flag test per request, write, sync or store request. The rest is imported
  with the first rule.
* An invalid rule raises FaultError with one line that names the valid choices.
"""
