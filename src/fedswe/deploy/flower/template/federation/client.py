"""What a SuperNode runs for every message."""

from pathlib import Path

from fedswe.deploy.flower import client_app

app = client_app(Path(__file__).parents[1])
