"""The client: it trains when the server asks it to, and stores the last reply it received."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedswe.core.algorithm import Done, Job
from fedswe.core.records import Model, parts
from fedswe.deploy import durable_files
from fedswe.deploy.client_trail import ClientTrail
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.log_file import log
from fedswe.deploy.packet import HEAD, Header, Packet, arrays_digest, decode, encode, read_header, size_limit
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.engine.work import Work, train_one
from fedswe.errors import FedsweError, first_line, printable, require
from fedswe.results.files import aside_of, write_whole
from fedswe.tasks.problem import Problem

_Arrays = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Base:
    """What a client starts from: the reply to its last merged report, or x^0. It is identified by its digest."""

    run: str
    merged: int
    digest: str


class ClientEndpoint:
    def __init__(self, path: Path, protocol: RunProtocol, client: int, problem: Problem) -> None:
        self.client, self._path = client, path
        self._protocol, self._problem = protocol, problem
        self._trail = ClientTrail(path.parent, client)
        self._base = self._stored_base()

    @classmethod
    def open(cls, directory: Path | str, deployment: Deployment, client: int, problem: Problem) -> ClientEndpoint:
        """Client number `client`, with the state it has stored in `directory`, if any."""
        return cls.of_run(directory, RunProtocol(deployment, problem), client, problem)

    @classmethod
    def of_run(cls, directory: Path | str, protocol: RunProtocol, client: int, problem: Problem) -> ClientEndpoint:
        """As `open`; clients in one process share the protocol, which holds a few models."""
        require(0 <= client < problem.m, f"there is no client {client}: the task has {problem.m}, counted from 0")
        folder = Path(directory)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise FedsweError(f"cannot make {folder}: {error.strerror}; choose another directory") from None
        return cls(folder / f"client-{client}.safetensors", protocol, client, problem)

    @property
    def largest_message(self) -> int:
        """Bytes of the largest message from the server; a transport need not read larger ones."""
        return size_limit(self._protocol.to_client)

    def handle(self, packet: Packet | bytes) -> Packet:
        """The answer to a message of the server. A message that cannot be used is declined with the reason."""
        try:
            if isinstance(packet, bytes):
                packet = Packet.from_bytes(packet, self._protocol.to_client)
            if packet.kind == "delivery":
                return self._delivery(packet)
            require(packet.kind == "job", f"a client does not understand {packet.kind[:40]!a}")
            return self._job(packet)
        except FedsweError as error:
            log.warning("client %d declines: %s", self.client, error)
            reason = str(error)
        except Exception as error:  # of the user's task, or set off by the message
            reason = first_line(error)
            log.warning("client %d declines: %s", self.client, reason, exc_info=True)
        header = packet.header if isinstance(packet, Packet) else {}
        return self._answer("decline", header, {"reason": printable(reason)[:200]})

    # jobs ----------------------------------------------------------------------------------------------
    def _job(self, packet: Packet) -> Packet:
        protocol, header = self._protocol, packet.header
        _check(header, run=str, epoch=str, round=int, client=int, merged=int, base=str, plan=str)
        require(header["client"] == self.client, f"this is client {self.client}, the job is for {header['client']}")
        require(
            header["plan"] == protocol.config_digest,
            "the server has another algorithm, local training, seed, dtype or version of fedswe: "
            "use the same deployment at server and clients",
        )
        t, merged = int(header["round"]), int(header["merged"])
        require(NEVER <= merged < t, f"the job of round {t} claims a merge in round {merged}")
        rounds = protocol.deployment.experiment.rounds
        require(t < rounds, f"the job is of round {t}, the deployment has {rounds} rounds: raise rounds here too")
        if not protocol.available([self.client], t):
            return self._answer("decline", header, {"reason": "absent"})
        if protocol.home == "server":
            done = self._train(self._planned_job(packet), t)
            return self._report(header, packet.arrays, encode("trained", Model(done.end)))
        down = decode("down", packet.arrays, protocol.down)
        base = self._base_for(packet)
        if base is None:
            return self._answer("need_state", header, {})
        state = self._state_from(merged, base)
        if protocol.algorithm.trains_while_absent:  # the missed rounds are trained now, with the same batches
            for missed in range(merged + 1, t):
                state = self._round(state, down, missed)[0]
        report = self._round(state, down, t)[1]
        return self._report(header, {**encode("down", down), **base}, encode("report", report))

    def _report(self, header: Header, inputs: _Arrays, report: _Arrays) -> Packet:
        if self._protocol.deployment.trail:
            self._trail.add_report(header, inputs, report)
        return self._answer("report", header, {}, report)

    def _state_from(self, merged: int, base: _Arrays) -> Any:
        protocol = self._protocol
        if not parts(protocol.client):
            return protocol.client
        reply = None if merged == NEVER else decode("reply", base, protocol.reply)
        return protocol.rebuilt_state(base.get("start", protocol.start), merged, reply)

    def _round(self, state: Any, down: Any, t: int) -> tuple[Any, Any]:
        algorithm, at = self._protocol.algorithm, self._protocol.at_client(self.client, t)
        job = algorithm.plan(state, down, at)
        return algorithm.report(state, down, job, self._train(job, t), at)

    def _train(self, job: Job, t: int) -> Done:
        return train_one(Work(self._problem, job, np.array([self.client]), t, self._protocol.local))

    def _planned_job(self, packet: Packet) -> Job:
        """The job in the packet, which the server has planned."""
        arrays = packet.arrays
        require("job.start" in arrays and arrays.keys() <= {"job.start", "job.drift"}, "the job lacks its start")
        vectors = {name: self._checked(vector, "the job") for name, vector in arrays.items()}
        return Job(vectors["job.start"], vectors.get("job.drift"))

    def _checked(self, vector: torch.Tensor, what: str) -> torch.Tensor:
        like = self._protocol.start
        require(vector.shape == like.shape and vector.dtype == like.dtype, f"{what} is for another model")
        return vector.to(like.device)

    # the base ------------------------------------------------------------------------------------------
    def _base_for(self, packet: Packet) -> _Arrays | None:
        """The base that the job names: attached, stored, or x^0. None if this client does not have it."""
        header, protocol = packet.header, self._protocol
        named = Base(str(header["run"]), int(header["merged"]), str(header["base"]))
        if not protocol.needs_base:
            return {}
        attached = self._base_arrays(packet, named.merged)
        if attached:
            require(arrays_digest(attached) == named.digest, "the attached base does not match its digest")
            if protocol.deployment.delivery == "eager":  # with lazy delivery the server attaches it every time
                self._store(named, attached)
            return attached
        if self._base is not None and (self._base.merged, self._base.digest) == (named.merged, named.digest):
            return self._stored_arrays(self._base)
        own = named.merged == NEVER and named.digest == protocol.start_digest
        return {"start": protocol.start} if own else None

    def _base_arrays(self, packet: Packet, merged: int) -> dict[str, torch.Tensor]:
        """The base in a packet; empty if there is none."""
        if merged == NEVER:
            start = packet.arrays.get("start")
            return {} if start is None else {"start": self._checked(start, "the start")}
        reply = {name: value for name, value in packet.arrays.items() if name.startswith("reply.")}
        return encode("reply", decode("reply", reply, self._protocol.reply)) if reply else {}

    def _delivery(self, packet: Packet) -> Packet:
        """The reply to a merged report proves the merge and is stored. Repeated and old replies change nothing."""
        header = packet.header
        _check(header, run=str, round=int, base=str, plan=str)
        require(header["plan"] == self._protocol.config_digest, "the delivery is of another deployment")
        require(int(header["round"]) >= 0, "the delivery has a negative round")
        arrays = self._base_arrays(packet, int(header["round"]))
        require(arrays and arrays_digest(arrays) == header["base"], "the delivery does not match its digest")
        base = Base(str(header["run"]), int(header["round"]), str(header["base"]))
        if self._base is None or self._base.run != base.run or self._base.merged < base.merged:
            self._store(base, arrays)
        if self._protocol.deployment.trail:
            self._trail.add_delivery(header)
        return self._answer("ack", header, {})

    def _store(self, base: Base, arrays: _Arrays) -> None:
        if self._base == base:
            return
        header: Header = {"run": base.run, "merged": base.merged, "digest": base.digest}
        try:
            write_whole(self._path, Packet("base", header, arrays).to_bytes())
        except FedsweError as error:  # with a full or read-only disk the server sends the base with every job
            log.warning("client %d cannot store its state: %s", self.client, error)
        else:
            self._base = base

    def _stored_base(self) -> Base | None:
        """What the stored file says it is; its arrays are read, and checked, when a job needs them."""
        with suppress(OSError):  # a read-only disk refuses this even if there is nothing to remove
            aside_of(self._path).unlink()
        try:
            with open(self._path, "rb") as file:
                kind, header = read_header(file.read(HEAD))
            _check(header, run=str, merged=int, digest=str)
        except (OSError, FedsweError):
            return None
        found = Base(str(header["run"]), int(header["merged"]), str(header["digest"]))
        return found if kind == "base" and found.merged >= NEVER else None

    def _stored_arrays(self, base: Base) -> _Arrays | None:
        """The arrays of the stored base; None if they are damaged or of another model: the server will send them."""
        packet = durable_files.load(self._path, "base")
        with suppress(FedsweError):
            arrays = {} if packet is None else self._base_arrays(packet, base.merged)
            if arrays and arrays_digest(arrays) == base.digest:
                return arrays
        self._base = None
        return None

    def _answer(self, kind: str, to: Header, more: Header, arrays: dict[str, torch.Tensor] | None = None) -> Packet:
        """The header repeats that of the message, and names the base this client has stored."""
        repeated: Header = {key: to[key] for key in ("run", "epoch", "round", "merged", "base") if key in to}
        stored = self._protocol.start_digest
        if self._base is not None and self._base.run == to.get("run"):
            stored = self._base.digest
        return Packet(kind, {**repeated, "client": self.client, "holds": stored, **more}, arrays or {})


def _check(header: Header, **wanted: type) -> None:
    for name, kind in wanted.items():
        require(type(header.get(name)) is kind, f"the header lacks {name}")
