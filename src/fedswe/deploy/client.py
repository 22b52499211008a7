"""The client's end: it trains when asked, and keeps the last reply it was given."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedswe.core.algorithm import Done, Job
from fedswe.core.records import Model, Vector
from fedswe.deploy.codec import decode, digest, encode
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.durable_files import keep, kept
from fedswe.deploy.packet import Header, Packet
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.engine.work import Work, train_one
from fedswe.errors import FedsweError, require
from fedswe.results.files import aside_of
from fedswe.tasks.problem import Problem

log = logging.getLogger("fedswe.deploy")


@dataclass(frozen=True)
class Base:
    """What a client starts from: the reply to its last merged report, or x^0. Its digest is its name."""

    run: str
    merged: int
    arrays: dict[str, torch.Tensor]
    digest: str


class ClientEndpoint:
    def __init__(self, path: Path, protocol: RunProtocol, client: int, problem: Problem) -> None:
        self.client, self._path = client, path
        self._protocol, self._problem = protocol, problem
        self._base = self._kept_base()

    @classmethod
    def open(cls, directory: Path | str, deployment: Deployment, client: int, problem: Problem) -> ClientEndpoint:
        """Client number `client`, with whatever it kept in `directory`."""
        require(0 <= client < problem.m, f"there is no client {client}: the task has {problem.m}, counted from 0")
        folder = Path(directory)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FedsweError(f"cannot make {folder}: {error.strerror}; choose another directory") from None
        return cls(folder / f"client-{client}.safetensors", RunProtocol(deployment, problem), client, problem)

    def handle(self, packet: Packet | bytes) -> Packet:
        """The answer to a message of the server; one that cannot be used is declined with the reason."""
        try:
            if isinstance(packet, bytes):
                packet = Packet.from_bytes(packet)
            if packet.kind == "delivery":
                return self._delivered(packet)
            require(packet.kind == "job", f"a client does not understand {packet.kind[:40]!a}")
            return self._job(packet)
        except FedsweError as error:
            log.warning("client %d declines: %s", self.client, error)
            header = packet.header if isinstance(packet, Packet) else {}
            return self._answer("decline", header, {"reason": str(error)[:200]})

    # a job ---------------------------------------------------------------------------------------------
    def _job(self, packet: Packet) -> Packet:
        protocol, header = self._protocol, packet.header
        _check(header, run=str, epoch=str, round=int, client=int, merged=int, base=str, plan=str)
        require(header["client"] == self.client, f"this is client {self.client}, the job is for {header['client']}")
        require(
            header["plan"] == protocol.plan,
            "the server has another algorithm, local training, seed, dtype or version of fedswe: "
            "give both ends the same deployment",
        )
        t, merged = int(header["round"]), int(header["merged"])
        require(NEVER <= merged < t, f"the job of round {t} claims a merge in round {merged}")
        rounds = protocol.deployment.experiment.rounds
        require(t < rounds, f"the job is of round {t}, the deployment has {rounds} rounds: raise rounds here too")
        if not protocol.present(self.client, t):
            return self._answer("decline", header, {"reason": "absent"})
        if protocol.home == "server":
            done = self._trained(self._given(packet), t)
            return self._answer("report", header, {}, encode("trained", Model(done.end)))
        down = decode("down", packet.arrays, protocol.down)
        base = self._base_for(packet)
        if base is None:
            return self._answer("need_state", header, {})
        start = base.arrays.get("start", protocol.start)
        reply = None if merged == NEVER or not protocol.rebuilds else decode("reply", base.arrays, protocol.reply)
        state = protocol.settled(start, merged, reply) if protocol.rebuilds else protocol.client
        if protocol.algorithm.trains_while_absent:  # it catches up now: the same steps, from the same batches
            for missed in range(merged + 1, t):
                state = self._round(state, down, missed)[0]
        report = self._round(state, down, t)[1]
        return self._answer("report", header, {}, encode("report", report))

    def _round(self, state: Any, down: Any, t: int) -> tuple[Any, Any]:
        algorithm, at = self._protocol.algorithm, self._protocol.at_client(self.client, t)
        job = algorithm.plan(state, down, at)
        return algorithm.report(state, down, job, self._trained(job, t), at)

    def _trained(self, job: Job, t: int) -> Done:
        return train_one(Work(self._problem, job, np.array([self.client]), t, self._protocol.local))

    def _given(self, packet: Packet) -> Job:
        """The job as the server planned it."""
        start, drift = packet.arrays.get("job.start"), packet.arrays.get("job.drift")
        require(start is not None and packet.arrays.keys() <= {"job.start", "job.drift"}, "the job lacks its start")
        for vector in packet.arrays.values():
            like = self._protocol.start
            require(vector.shape == like.shape and vector.dtype == like.dtype, "the job is for another model")
        assert start is not None
        device = self._protocol.start.device
        return Job(start.to(device), None if drift is None else drift.to(device))

    # the base ------------------------------------------------------------------------------------------
    def _base_for(self, packet: Packet) -> Base | None:
        """The base that the job names: attached, kept, or x^0; None if this client does not have it."""
        header, protocol = packet.header, self._protocol
        run, merged, name = str(header["run"]), int(header["merged"]), str(header["base"])
        if not protocol.rebuilds:
            return Base(run, merged, {}, "")
        attached = self._attached(packet, merged)
        if attached:
            require(digest(attached) == name, "the attached base is not what its name says")
            base = Base(run, merged, attached, name)
            if protocol.deployment.delivery == "eager":  # lazily, the server attaches it every time
                self._commit(base)
            return base
        if self._base is not None and (self._base.merged, self._base.digest) == (merged, name):
            return self._base
        own = merged == NEVER and name == protocol.start_digest
        return Base(run, NEVER, {"start": protocol.start}, name) if own else None

    def _attached(self, packet: Packet, merged: int) -> dict[str, torch.Tensor]:
        if merged == NEVER:
            start: Vector | None = packet.arrays.get("start")
            if start is None:
                return {}
            like = self._protocol.start
            require(start.shape == like.shape and start.dtype == like.dtype, "the start is of another model")
            return {"start": start.to(like.device)}
        attached = {name: value for name, value in packet.arrays.items() if name.startswith("reply.")}
        return encode("reply", decode("reply", attached, self._protocol.reply)) if attached else {}

    def _delivered(self, packet: Packet) -> Packet:
        """The reply to a merged report: proof of the merge, so it is committed. Repeated or old ones change nothing."""
        header = packet.header
        _check(header, run=str, round=int, base=str, plan=str)
        require(header["plan"] == self._protocol.plan, "a delivery of another deployment")
        require(int(header["round"]) >= 0, "a delivery of no round")
        arrays = self._attached(packet, int(header["round"]))
        require(arrays and digest(arrays) == header["base"], "the delivery is not what its name says")
        base = Base(str(header["run"]), int(header["round"]), arrays, str(header["base"]))
        if self._base is None or self._base.run != base.run or self._base.merged < base.merged:
            self._commit(base)
        return self._answer("ack", header, {})

    def _commit(self, base: Base) -> None:
        held = self._base
        if held is not None and (held.run, held.merged, held.digest) == (base.run, base.merged, base.digest):
            return
        try:
            keep(self._path, Packet("base", {"run": base.run, "merged": base.merged}, base.arrays))
        except FedsweError as error:  # a full or read-only disk costs a model with the next job, not the client
            log.warning("client %d keeps no state: %s", self.client, error)
        else:
            self._base = base

    def _kept_base(self) -> Base | None:
        with suppress(OSError):  # a read-only disk refuses even to remove nothing
            aside_of(self._path).unlink()
        packet = kept(self._path, "base")
        if packet is None:
            return None
        try:
            _check(packet.header, run=str, merged=int)
            merged = int(packet.header["merged"])
            arrays = self._attached(packet, merged)
        except FedsweError:
            return None  # of another model; the server will send the right one
        return Base(str(packet.header["run"]), merged, arrays, digest(arrays)) if arrays else None

    def _answer(self, kind: str, to: Header, more: Header, arrays: dict[str, torch.Tensor] | None = None) -> Packet:
        """The envelope repeats what the message was about, and names the base this client holds on disk."""
        about: Header = {key: to[key] for key in ("run", "epoch", "round", "merged", "base") if key in to}
        ours = self._base is not None and self._base.run == to.get("run")
        holds = self._base.digest if ours and self._base is not None else self._protocol.start_digest
        return Packet(kind, {**about, "client": self.client, "holds": holds, **more}, arrays or {})


def _check(header: Header, **wanted: type) -> None:
    for name, kind in wanted.items():
        require(type(header.get(name)) is kind, f"the header lacks {name}")
