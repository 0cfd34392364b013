"""`python -m secant.cli`."""

import sys

from secant.cli.entry import main

sys.exit(main())
