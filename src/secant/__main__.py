"""`python -m secant`, which is `secant`."""

import sys

from secant.cli import main

sys.exit(main())
