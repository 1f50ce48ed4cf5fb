"""`python -m dolphin`."""

import sys

from dolphin_tasks.cli import main

if __name__ == "__main__":
    sys.exit(main())
