"""Kinds of tasks: what sets those of one board apart from those of another. See `ports.TaskKind`."""
