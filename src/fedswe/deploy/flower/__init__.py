"""The endpoints on Flower: a ClientApp and a ServerApp for every algorithm, and a trial of them on one machine."""

from fedswe.deploy.flower.client_app import client_app
from fedswe.deploy.flower.server_app import server_app

__all__ = ["client_app", "server_app"]
