"""The parts of an audit. Each compares one kind of thing with the ledger; ``audit`` puts them together."""
