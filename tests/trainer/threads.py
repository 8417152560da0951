"""Threads of PyTorch in the trainer's tests: one, because test processes share few cores, unless set otherwise."""

import os

THREADS = int(os.environ.get("ECHOSCOPE_TEST_THREADS", "1"))
