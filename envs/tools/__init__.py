"""Tools that an agent calls: definitions, calls as text, execution, and environments that are solved with them."""
