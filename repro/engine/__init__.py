"""The engine: a block, the transport between blocks, and the processes that run them."""
