"""python -m echoscope: see cli.py."""

from echoscope.cli import main

raise SystemExit(main())
