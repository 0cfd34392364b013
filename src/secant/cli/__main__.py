"""`python -m secant.cli`."""

import sys

from secant.cli import main

sys.exit(main())
