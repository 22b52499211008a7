"""The parts of an audit. Each compares one kind of thing with the ledger; ``fedswe.deploy.audit`` puts them together."""
