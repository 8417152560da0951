"""Pages and actions of the models in the stores of the workers."""
