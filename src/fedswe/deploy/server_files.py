"""The server's files besides the ledger, each named by the round that wrote it and removed once nothing refers to it.

start.safetensors             x^0
state/T.safetensors           the server's state before round T
versions/T.safetensors        the reply of round T and the model its clients received, while somebody was last there
rows/CLIENT-T.safetensors     the state of a client last merged in round T, where the server is its home
trail/T.safetensors           the server model after T rounds, if asked for
model.safetensors             both models at the end
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedswe.core.records import Vector
from fedswe.deploy.codec import decode, encode
from fedswe.deploy.durable_files import keep, kept
from fedswe.deploy.packet import Packet
from fedswe.errors import FedsweError


class ServerFiles:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create(self) -> None:
        for folder in ("state", "versions", "rows", "trail"):
            (self._directory / folder).mkdir(parents=True, exist_ok=True)

    # x^0 -----------------------------------------------------------------------------------------------
    def save_start(self, x: Vector) -> None:
        keep(self._path("start"), Packet("start", {}, {"start": x}))

    def start(self, like: Vector) -> Vector:
        return self._load("start", "start").arrays["start"].to(like.device)

    # the server's state --------------------------------------------------------------------------------
    def save_state(self, t: int, state: Any) -> None:
        keep(self._path(f"state/{t}"), Packet("state", {}, encode("server", state)))

    def state(self, t: int, like: Any) -> Any:
        return decode("server", self._load(f"state/{t}", "state").arrays, like)

    # replies and the models that clients received ------------------------------------------------------
    def save_version(self, t: int, reply: Any, received: Vector) -> None:
        arrays = encode("reply", reply)
        # The same vector under two names is written once.
        name = next((name for name, value in arrays.items() if value is received), "received")
        keep(self._path(f"versions/{t}"), Packet("version", {"received": name}, {**arrays, name: received}))

    def reply(self, t: int, like: Any) -> Any:
        return decode("reply", self._load(f"versions/{t}", "version").arrays, like)

    def received(self, t: int) -> Vector:
        packet = self._load(f"versions/{t}", "version")
        return packet.arrays[str(packet.header["received"])]

    # client states at the server -----------------------------------------------------------------------
    def save_row(self, client: int, t: int, state: Any) -> None:
        keep(self._path(f"rows/{client}-{t}"), Packet("row", {}, encode("client", state)))

    def row(self, client: int, t: int, like: Any) -> Any:
        return decode("client", self._load(f"rows/{client}-{t}", "row").arrays, like)

    # ---------------------------------------------------------------------------------------------------
    def save_trail(self, t: int, x: Vector) -> None:
        keep(self._path(f"trail/{t}"), Packet("model", {}, {"x": x}))

    def trail(self, t: int) -> Vector | None:
        """The server model after t rounds, if a copy was kept."""
        packet = kept(self._path(f"trail/{t}"), "model")
        return None if packet is None else packet.arrays["x"]

    def save_models(self, models: Mapping[str, Vector]) -> None:
        keep(self._path("model"), Packet("models", {}, dict(models)))

    def sweep(self, t: int, last: Mapping[int, int]) -> None:
        """Remove what neither the next round t nor any client's last merge refers to, and what a crash left aside."""
        wanted = {self._path(f"state/{t}")}
        for client, merged in last.items():
            wanted |= {self._path(f"versions/{merged}"), self._path(f"rows/{client}-{merged}")}
        for folder in ("state", "versions", "rows"):
            for path in (self._directory / folder).iterdir():
                if path not in wanted:
                    path.unlink()
        for leftover in (*self._directory.glob(".*.part"), *self._directory.glob("trail/.*.part")):
            leftover.unlink()

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.safetensors"

    def _load(self, name: str, kind: str) -> Packet:
        packet = kept(self._path(name), kind)
        if packet is None:
            raise FedsweError(f"{self._path(name)} is missing or damaged: restore the directory from a backup")
        return packet
