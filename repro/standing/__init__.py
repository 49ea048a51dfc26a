"""How far every seed is: read from files alone, and from the queue of a cluster where there is one."""
