"""What the engine needs of the world, as protocols. Their docstrings are the specification; adapters implement them.

Import a name from the module that defines it: a module that needs a store then does not load agents and proof.
"""
