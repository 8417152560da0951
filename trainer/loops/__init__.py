"""Main loop of each kind of run: train, SFT, evaluate."""
