"""One block of the network: layers, optimiser, samples, and what each action does to them."""
