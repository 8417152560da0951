"""Django middleware: the content security policy, and the refusal of NUL characters."""
