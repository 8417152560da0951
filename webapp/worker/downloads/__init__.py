"""Downloads of models into the worker's models folder, alongside its runs."""
