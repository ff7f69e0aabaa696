"""What runs inside a check's own interpreter or runner, and reports over the engine's channel. Nothing imports it."""
