"""The tour: scenes that make something happen with the real code, and the teams that play in them."""
