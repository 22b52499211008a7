"""The server's half of the algorithm, computed again from the reports that deploy.trail = true keeps.

No client data are needed. Each file that the server wrote for a round is written again in memory, also those that were
removed since, and its digest is compared with that in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedswe.core.algorithm import received
from fedswe.core.records import Model, add
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.ledger import file_digest
from fedswe.deploy.ledger_lines import Entry
from fedswe.deploy.packet import arrays_digest, decode, encode
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles, needed
from fedswe.deploy.stored_run import CommittedRun
from fedswe.engine.outputs import Outputs
from fedswe.errors import require


class FilesInMemory(ServerFiles):
    """The files that the server would write, without a directory."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.contents: dict[str, bytes] = {}

    def sweep(self, kept: Mapping[int, Mapping[int, int]]) -> None:
        wanted = set[str]().union(*(needed(t, last) for t, last in kept.items()))
        self.contents = {name: content for name, content in self.contents.items() if name in wanted}

    def has_version(self, t: int) -> bool:
        return f"versions/{t}" in self.contents

    def _write(self, name: str, content: bytes) -> None:
        self.contents[name] = content
        self._written[name] = self._digests[name] = file_digest(content)

    def _read(self, name: str) -> bytes:
        return self.contents[name]


class Recomputation(CommittedRun):
    """A run of which `step` computes the next round from its kept reports."""

    def __init__(self, folder: Path, protocol: RunProtocol) -> None:
        self._reports, self._protocol = ServerFiles(folder), protocol
        self.t, self.algorithm = 0, protocol.algorithm
        self.files = FilesInMemory()
        self._server = protocol.server_init()
        self._clients = ClientTable(protocol, self.files)
        self.outputs = self._new_outputs()

    def _new_outputs(self) -> Outputs:
        return Outputs(self, self._protocol.deployment.experiment.evaluate.outputs())

    @property
    def last(self) -> dict[int, int]:
        """The last merge of each member when the next round opens."""
        return self._clients.opened(self.t).last

    def step(self, entry: Entry) -> list[str]:
        """Compute a round; what the ledger says otherwise about it."""
        protocol, t = self._protocol, self.t
        self._clients = self._clients.opened(t)
        down = protocol.downlink(self._server, t)
        found = {"down": arrays_digest(encode("down", down))}
        total, after = protocol.no_report, {}
        for client in sorted(entry.merged):
            arrays = self._reports.report(t, client)
            found[f"report of client {client}"] = arrays_digest(arrays)
            if protocol.home == "server":
                after[client], report, found[f"job of client {client}"] = self._at_server(client, down, arrays)
            else:
                report = decode("report", arrays, protocol.no_report)
            total = add(total, report)
        server, reply = protocol.merge(self._server, total, len(entry.merged), t)
        self.files.save_state(t + 1, server)
        if entry.merged:
            self.files.save_version(t, reply, received(down, reply))
        for client, state in after.items():
            settled = self.algorithm.settle(state, reply, protocol.at_client(client, t))
            self.files.save_client_state(client, t, settled)
        if f"trail/{t + 1}" in entry.files:
            self.files.save_trail(t + 1, server.model)
        found["reply"] = arrays_digest(encode("reply", reply)) if protocol.needs_base and entry.merged else ""
        found["model"] = arrays_digest({"x": server.model})
        self._server, self._clients, self.t = server, self._clients.after(entry), t + 1
        self.outputs.after_round()
        if state := self.outputs.state():
            self.files.save_outputs(self.t, state)
            if f"outputs/{self.t}" not in entry.files:  # averages of a later configuration begin after this round
                self.outputs = self._new_outputs()
        return self._differences(entry, found)

    def _at_server(self, client: int, down: Any, arrays: Any) -> tuple[Any, Any, str]:
        """State, report and digest of the job of a client whose state is kept at the server."""
        protocol, state = self._protocol, self._clients.state(client)
        end = decode("trained", arrays, Model(protocol.start)).x
        job = protocol.planned_job(client, self.t, state, down)
        return *protocol.report_of_end(client, self.t, state, down, end), arrays_digest(job)

    def _differences(self, entry: Entry, found: Mapping[str, str]) -> list[str]:
        ledger = {"down": entry.down, "reply": entry.reply, "model": entry.model}
        ledger |= {f"report of client {client}": known for client, known in entry.reports.items()}
        ledger |= {f"job of client {client}": known for client, known in entry.jobs.items()}
        wrong = [name for name, value in found.items() if ledger.get(name) != value]
        return wrong + [
            f"{name}.safetensors" for name, value in self.files.written().items() if entry.files.get(name) != value
        ]


def kept_everything(entries: Sequence[Entry]) -> bool:
    """Whether the reports of all rounds were kept."""
    return all(f"trail/{entry.t + 1}" in entry.files for entry in entries)


def rebuilt(folder: Path, protocol: RunProtocol, entries: Sequence[Entry]) -> Iterator[tuple[str, bytes]]:
    """The files that the round after the given ones needs, from the kept reports."""
    require(kept_everything(entries), "the reports were not kept")
    run = Recomputation(folder, protocol)
    for entry in entries:
        # The averages of another evaluate.model cannot be computed again; the caller compares those that it needs.
        wrong = [name for name in run.step(entry) if not name.startswith("outputs/")]
        require(not wrong, f"round {entry.t} cannot be computed again: {', '.join(wrong)}")
        run.files.sweep({run.t: run.last})
    yield from run.files.contents.items()
