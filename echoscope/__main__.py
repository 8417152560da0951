"""Entry point of `python -m echoscope`."""

from echoscope.cli import main

raise SystemExit(main())
