"""Operations of the API, one module per resource. webapp/api/root.py puts them together."""
