"""Deployments on Flower: a ClientApp and a ServerApp for every algorithm, and a trial of them on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedswe.deploy.flower.apps import client_app, server_app

__all__ = ["client_app", "server_app"]


def __getattr__(name: str) -> object:  # imported when first used: the programs of a node do not need torch
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fedswe.deploy.flower import apps

    return getattr(apps, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
