"""The plan file: its model, its reader, and the YAML that it is written in."""
