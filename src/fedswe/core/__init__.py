"""The vocabulary: records, the definition of an algorithm, keyed randomness. It imports no other room."""
