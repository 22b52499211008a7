"""The same algorithms between processes: two state machines and the messages they exchange, without a transport.

One round, as a transport drives it::

    server = ServerEndpoint.open(directory, deployment)       # starts a run, or resumes at the first uncommitted round
    while not server.finished:
        for client, packet in server.jobs(connected).items():
            send(client, packet.to_bytes())
        for client, data in arriving_before(deployment.deadline):
            answer = server.receive(client, data)             # bytes or Packet; bad ones are rejected, counted, logged
            if answer is not None:
                send(client, answer.to_bytes())               # the same job with the client's base attached
        for client, packet in server.close().items():         # merged and on disk; then the eager deliveries
            send(client, packet.to_bytes())

    client = ClientEndpoint.open(directory, deployment, number, problem)
    answer = client.handle(data)                              # job -> report | decline | need_state; delivery -> ack

The transport may lose, delay, repeat and reorder messages, and either side may die at any moment. The server's
ledger is the authority: A^t is the set of reports *merged* in round t. What a client may start from is named by
content (the round of its last merge and a digest), so a client with the wrong, an old or no base never trains from
it, and no innovation is counted twice.

Where a client's state lives follows from the algorithm (see ``protocol``): with the client when it is a function of
the last reply (FedSWE, FedAWE, FedPBC) or empty (the FedAvg family), at the server otherwise (FedAU, F3AST, MIFA,
FedVARP, SCAFFOLD and its amplified variant), where a lost client disk cannot hurt the server's sums.
"""

from fedswe.deploy.client import ClientEndpoint
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.packet import Packet
from fedswe.deploy.server import ServerEndpoint

__all__ = ["ClientEndpoint", "Deployment", "Packet", "ServerEndpoint"]
