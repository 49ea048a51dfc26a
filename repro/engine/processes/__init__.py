"""The processes of a run, one per block or one for all: launched, watched, checkpointed, ended together."""
