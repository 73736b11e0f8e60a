"""`python -m knowhub` is the `knowhub` command."""

from knowhub.cli.main import run

if __name__ == "__main__":
    run()
