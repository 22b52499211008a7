"""Federated learning when clients come and go."""
