"""How a plan file becomes a DAG, and every problem that it can have."""
