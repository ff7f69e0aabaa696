"""A developer who has nothing to deliver today."""

print('{"result": "it is not ready yet"}')
