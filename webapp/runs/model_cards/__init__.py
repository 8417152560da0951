"""Models as cards: size, licence, where they are installed, and which workers they fit."""
