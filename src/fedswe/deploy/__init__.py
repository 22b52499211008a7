"""The algorithms between processes: two endpoints, the messages they exchange, and rounds over any transport.

At the server::

    with ServerEndpoint.open(directory, deployment) as server:    # starts a run, or resumes it
        Rounds(server, transport).run()

At a client, for every message that the transport brings::

    client = ClientEndpoint.open(directory, deployment, number, problem)
    answer = client.handle(data)          # job -> report, decline or need_state; delivery -> ack

``flower`` is the transport for production; ``InMemoryTransport`` runs all clients in this process, to test an app.

A transport may lose, delay, repeat and reorder messages, and server and clients may crash at any time. The server's
ledger decides: A^t is the set of clients whose reports were *merged* in round t. The base that a client starts from is
identified by the round of its last merge and a digest, so a client with a wrong, old or missing base never trains from
it, and no report is counted twice.

Client state is kept at the client if the last reply determines it (FedSWE, FedAWE, FedPBC) or if it is empty (the
FedAvg family), and at the server otherwise (FedAU, F3AST, MIFA, FedVARP, SCAFFOLD): see ``protocol``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedswe.deploy.audit.verify import verify
    from fedswe.deploy.client import ClientEndpoint
    from fedswe.deploy.deployment import Deployment
    from fedswe.deploy.memory_transport import InMemoryTransport, run_in_memory
    from fedswe.deploy.packet import Packet
    from fedswe.deploy.rounds import Rounds
    from fedswe.deploy.server import ServerEndpoint
    from fedswe.deploy.transport import Arrival, Transport

__all__ = [
    "Arrival",
    "ClientEndpoint",
    "Deployment",
    "InMemoryTransport",
    "Packet",
    "Rounds",
    "ServerEndpoint",
    "Transport",
    "run_in_memory",
    "verify",
]

_MODULES = {  # of the public names; imported when a name is first used, since most of them import torch
    "Arrival": "fedswe.deploy.transport",
    "ClientEndpoint": "fedswe.deploy.client",
    "Deployment": "fedswe.deploy.deployment",
    "InMemoryTransport": "fedswe.deploy.memory_transport",
    "Packet": "fedswe.deploy.packet",
    "Rounds": "fedswe.deploy.rounds",
    "ServerEndpoint": "fedswe.deploy.server",
    "Transport": "fedswe.deploy.transport",
    "run_in_memory": "fedswe.deploy.memory_transport",
    "verify": "fedswe.deploy.audit.verify",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
