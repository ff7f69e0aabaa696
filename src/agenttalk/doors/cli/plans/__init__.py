"""Commands about plans and their tasks."""
