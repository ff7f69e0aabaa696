"""`python -m agenttalk` is the command line."""

from agenttalk.cli.main import run

if __name__ == "__main__":
    run()
