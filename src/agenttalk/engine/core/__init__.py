"""The shared parts of all use cases: dependencies, access, boards, records, loops, slots."""
