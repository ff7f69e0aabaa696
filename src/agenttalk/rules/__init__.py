"""What follows: pure, total functions from what is known to what is decided."""
