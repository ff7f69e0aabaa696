"""The documents: one frozen model each, strict JSON, errors. No I/O, no clock."""
