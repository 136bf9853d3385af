"""``python -m specwatch`` is the ``specwatch`` command."""

from specwatch.cli import main

if __name__ == "__main__":
    main()
