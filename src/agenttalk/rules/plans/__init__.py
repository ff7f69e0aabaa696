"""What follows from a DAG: its validity, the choice of inputs, failures, schedules."""
