"""One process per block: launched, watched, checkpointed, ended together."""
