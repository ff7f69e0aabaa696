"""Another process decides: the judge runs the tests, a worker runs the work, and only plain values pass between them."""
