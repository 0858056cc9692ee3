"""Lets `python -m antiphon` do what `antiphon` does."""

import sys

from antiphon.cli import main

sys.exit(main())
