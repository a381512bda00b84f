"""The broker: partition logs, the state machines of `state`, and the coordinators that append their changes.

Rules of this package:

* Everything is synchronous and runs on the thread of the event loop. Callers pass in the time.
* A change is decided by a state machine, appended to a log, and applied once it is durable. Clients never see a change
  that is not durable.
* An appended entry must be committed: a method that returns entries leaves that to its caller.
* Coordinators, security and fault rules are imported on first use, so that a broker without them starts faster and
  takes less memory.
"""
