"""Records, the algorithm interface, transforms, random numbers. Imports only fedswe.errors."""
