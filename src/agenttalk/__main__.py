"""`python -m agenttalk` is the command line."""

from agenttalk.doors.cli.main import run

if __name__ == "__main__":
    run()
