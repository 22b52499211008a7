"""What the SuperLink's SuperExec runs."""

from pathlib import Path

from fedswe.deploy.flower import server_app

app = server_app(Path(__file__).parents[1])
