"""`python -m bootstrap COMMAND`: checks the Python version, then runs a command of `make`.

This file is valid for every Python since 2.7, so that old versions can still print what is needed.
"""

import sys

NEEDED = (3, 11)


def outdated_message(version, command):
    """Return the message for a Python that is too old."""
    return (
        "Echoscope needs Python 3.11 or newer; this is %s (%s).\n"
        "Install a newer one (Debian, Ubuntu: apt-get install python3.12 python3.12-venv; macOS: brew install "
        "python@3.12; anywhere: https://www.python.org/downloads/)\nand run `make %s PYTHON=python3.12`."
        % (".".join(str(part) for part in version[:3]), sys.executable, command)
    )


if __name__ == "__main__":
    if sys.version_info < NEEDED:
        sys.exit(outdated_message(sys.version_info, sys.argv[1] if sys.argv[1:] else "help"))
    from bootstrap.commands import COMMANDS, run

    sys.exit(run(COMMANDS, sys.argv[1:]))
