"""The `sparsefinder` command, and `python -m sparsefinder`: the command line of the lab, if it is installed."""

import sys

from .extras import MissingExtraError

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say in a sentence what is missing for it."""
    try:
        from .lab import cli
    except MissingExtraError as error:
        sys.exit(f"error: {error}")
    cli.main()


if __name__ == "__main__":
    main()
