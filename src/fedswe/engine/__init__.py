"""How a round is run: the loop engine is the definition, the batched engine the simulator."""
