"""Changes that an agent of another tool made: how a repository is checked, and whether they are proven."""
