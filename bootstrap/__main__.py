"""`python -m bootstrap COMMAND`: checks the Python version, then runs a command of `make`.

This file is valid for every Python since 2.7, so that old versions can still print what is needed.
"""

import os
import subprocess
import sys

NEEDED = (3, 11)
NEWER = ["python3.%d" % minor for minor in (12, 13, 11, 14)]


def outdated_message(version, command):
    """Message for a Python that is too old."""
    return (
        "Echoscope needs Python 3.11 or newer; this is %s (%s).\n"
        "Install a newer one (Debian, Ubuntu: apt-get install python3.12 python3.12-venv; macOS: brew install "
        "python@3.12; anywhere: https://www.python.org/downloads/)\nand run `make %s PYTHON=python3.12`."
        % (".".join(str(part) for part in version[:3]), sys.executable, command)
    )


def find_newer():
    """Command of a sufficiently new Python on the PATH; None if there is none. Versions are checked by running it."""
    for name in NEWER:
        try:
            argv = [name, "-c", "import sys; sys.exit(sys.version_info < %r)" % (NEEDED,)]
            process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.communicate()
            if process.returncode == 0:
                return name
        except OSError:
            continue
    return None


def main(arguments):
    """Run the command, with a newer Python if this one is too old."""
    if sys.version_info >= NEEDED:
        from bootstrap.commands import run

        return run(arguments)
    newer = find_newer()
    if newer is None:
        sys.stderr.write(outdated_message(sys.version_info, arguments[0] if arguments else "help") + "\n")
        return 1
    sys.stdout.write("This Python is %d.%d, too old for Echoscope; using %s.\n" % (sys.version_info[:2] + (newer,)))
    sys.stdout.flush()
    os.execvp(newer, [newer, "-m", "bootstrap"] + arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
