"""What all commands share: output, the choice of a root, the client of a running engine."""
