"""A federation of clients that come and go."""
