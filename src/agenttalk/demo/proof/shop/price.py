def price(items):
    return 0
