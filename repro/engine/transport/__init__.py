"""Messages between blocks: envelopes, first-in-first-out channels, the group of processes."""
