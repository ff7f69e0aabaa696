"""Another process decides: the judge runs the tests, a worker runs the work; only plain values pass between them."""
