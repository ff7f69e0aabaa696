"""Workers: how they enrol, what a sync does, and the process that runs agents on another machine."""
