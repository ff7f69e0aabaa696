"""What is said: every document as a frozen model. No I/O, no clock."""
