"""Downloads of models into the worker's models folder, beside its runs."""
