"""The engine: one process per block, and the one-process oracle of the same update rule."""
