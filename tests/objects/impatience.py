"""A pause for stores that are tried once."""


def give_up(seconds, error):
    """The pause of a `SettledStore` that makes one try."""
    raise error
