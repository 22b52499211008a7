"""Deployments on Flower: a ClientApp and a ServerApp for every algorithm, and a trial of them on one machine."""

from fedswe.deploy.flower.apps import client_app, server_app

__all__ = ["client_app", "server_app"]
