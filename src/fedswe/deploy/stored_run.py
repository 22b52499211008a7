"""A run directory, read without its server: the models after a committed round, and the availability that happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedswe.availability.schedule import Bools
from fedswe.core.aggregation import Server
from fedswe.core.algorithm import Algorithm
from fedswe.core.records import Vector
from fedswe.deploy import ledger
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.deployment import Deployment, from_table
from fedswe.deploy.durable_files import read_whole
from fedswe.deploy.ledger import Contents, merged_mask
from fedswe.deploy.ledger_lines import Entry
from fedswe.deploy.membership import Membership
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.engine.outputs import Outputs
from fedswe.errors import FedsweError, require
from fedswe.experiment import configuration
from fedswe.results.files import write_whole
from fedswe.results.history import Row
from fedswe.results.model_file import Models
from fedswe.tasks.problem import Problem


class CommittedRun:
    """The models of a run after some of its rounds, without a server; what outputs read."""

    algorithm: Algorithm
    t: int
    _server: Server
    _clients: ClientTable

    @property
    def m(self) -> int:
        return self._clients.m

    def server_model(self) -> Vector:
        return self._server.model

    def client_mean(self) -> Vector:
        return self._clients.mean()


class StoredRun(CommittedRun):
    """A run after the given rounds, whose files are still there."""

    def __init__(self, folder: Path, protocol: RunProtocol, entries: Sequence[Entry]) -> None:
        self.t, self.algorithm = len(entries), protocol.algorithm
        self.files = ServerFiles(folder, entries)
        self._clients = ClientTable(protocol, self.files)
        for entry in entries:
            self._clients = self._clients.after(entry)
        self._server = protocol.server_init()
        if entries:
            self._server = self.files.state(self.t, self._server)

    def outputs(self, protocol: RunProtocol) -> Outputs:
        """The evaluated models; averages over rounds begin here if their state is not stored."""
        return self._outputs(protocol)[0]

    def _outputs(self, protocol: RunProtocol) -> tuple[Outputs, bool]:
        """The evaluated models, and whether the state of the averages is stored."""
        outputs = Outputs(self, protocol.deployment.experiment.evaluate.outputs())
        state = (self.files.outputs(self.t) if self.t else None) or {}
        stored = state.keys() == outputs.state().keys()
        if stored:
            outputs.load(state)
        return outputs, stored or not self.t

    def models(self, protocol: RunProtocol, rows: Sequence[Row]) -> dict[str, Vector]:
        """Server model, client mean and the evaluated models, the last only if their state is stored."""
        models = {"server": self.server_model(), "client_mean": self.client_mean()}
        outputs, stored = self._outputs(protocol)
        return {**models, **outputs.models(rows)} if stored else models


def model_file(outputs: Outputs, rows: Sequence[Row], deployment: Deployment, problem: Problem, t: int) -> bytes:
    """The content of model.safetensors after t rounds with these evaluations."""
    experiment = deployment.experiment
    models = Models.of(outputs.models(rows), problem.state_dict, outputs.chosen(rows), experiment.evaluate.served)
    return models.to_bytes(experiment.task, experiment.algorithm, t)


def stored_deployment(folder: Path, contents: Contents, instead: configuration.Table | None = None) -> Deployment:
    """The deployment of a run, with the sections of `instead` in place of its own.

    A file that the ledger does not name is not read: its task would be imported.
    """
    path = folder / DEPLOYMENT_FILE
    try:
        content = read_whole(path)
    except OSError as error:
        raise FedsweError(f"cannot read {path}: {error.strerror}") from None
    require(
        not contents.starts or ledger.file_digest(content) in contents.may_be(DEPLOYMENT_FILE),
        f"{path} is not the file that the last start in the ledger names: restore it from a backup",
    )
    return from_table({**configuration.read(path), **(instead or {})})


def snapshot(folder: Path, protocol: RunProtocol) -> tuple[list[Entry], dict[str, Vector]]:
    """The committed rounds and the models after the last; also while the server is running."""
    while True:
        contents = ledger.read(folder / ledger.FILE)
        protocol.membership = Membership.of(contents)
        numbers = protocol.membership.numbers
        require(
            protocol.m >= numbers, f"{folder}: the run has {numbers} clients, the task of its deployment {protocol.m}"
        )
        try:
            run = StoredRun(folder, protocol, contents.entries)
            return contents.entries, run.models(protocol, contents.rows)
        except FedsweError:
            # If the server has committed another round meanwhile, it has removed the files of the one before.
            if ledger.read(folder / ledger.FILE).size == contents.size:
                raise


def trace(directory: Path | str, out: Path | str) -> Bools:
    """Write the availability that happened to a file for ``availability.name=mask``; returns the mask [rounds, m]."""
    contents = ledger.read(Path(directory) / ledger.FILE)
    require(contents.entries, f"{directory}: no round was committed yet, there is nothing to export")
    mask = merged_mask(contents.entries, Membership.of(contents).numbers)
    lines = [",".join("01"[available] for available in row) for row in mask.astype(int)]
    write_whole(Path(out), "\n".join(lines) + "\n")
    return mask
