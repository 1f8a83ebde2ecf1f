"""`python -m deltaic.cli` is the `deltaic` command."""

import sys

from deltaic.cli import main

sys.exit(main())
