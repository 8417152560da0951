"""Publication of policies and trajectories: model cards, dataset cards, upload to the Hugging Face Hub."""
