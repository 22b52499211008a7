"""An experiment as one value, its configuration file, and running it."""
