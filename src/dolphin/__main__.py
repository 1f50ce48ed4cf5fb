"""`python -m dolphin`."""

import sys

from dolphin.cli import main

if __name__ == "__main__":
    sys.exit(main())
