"""When a letter is answered."""
