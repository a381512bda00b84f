"""How much of a test runs: a part of it in the ordinary run, all of it where AT_LENGTH=1, as `make faults` sets it.

Rules of this file: what is left out of the ordinary run is a variation of something that stays in it, never a case.
"""

import os

AT_LENGTH = os.environ.get("AT_LENGTH") == "1"


def drawn(*values, count=1):
    """All values at length, otherwise the first ones only."""
    return list(values) if AT_LENGTH else list(values[:count])


def examples(count):
    """Return the number of examples of a property: all at length, otherwise a third, which kill as many mutants."""
    return count if AT_LENGTH else -(-count // 3)
