"""Texts for agents. Pure: everything that stands in a text is handed in."""
