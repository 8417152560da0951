"""The machine a figure was measured on, in one line. No benchmark lives here, and the line itself is made elsewhere."""

from trainer.studies.machine import describe as describe
