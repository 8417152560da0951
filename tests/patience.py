"""How long tests wait for what must come, all of them: a machine with much else to do is no failure.

A wait ends as soon as what it waits for is there. A long one costs nothing where all is well.
"""

SECONDS = 300.0
MILLISECONDS = 300_000  # as Playwright counts
