"""Plans in the store: submission, task transitions, commands, inputs, control."""
