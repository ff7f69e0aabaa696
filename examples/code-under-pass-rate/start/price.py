"""What things cost."""


def price(count):
    """What so many pieces cost, in cents."""
    return 0
