"""A store that is asked once: what it refuses is not tried again."""


def give_up(seconds, error):
    """The pause of a `SettledStore` that makes one try."""
    raise error
