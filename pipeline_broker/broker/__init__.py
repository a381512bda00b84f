"""One broker's state at work: what appends to the logs what `state` decides.

Rules of this wing: synchronous, on the event loop's thread, time passed in. A change of state is decided, appended, and
applied when it is durable; what is not durable is not shown.
"""
