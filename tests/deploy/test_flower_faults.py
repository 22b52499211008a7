"""Real processes are killed, state is deleted, a client lies: the run finishes, and it is still the algorithm."""

import os
import shutil
import signal

import pytest

from fedswe.deploy.audit.verify import verify
from fedswe.deploy.packet import Packet
from tests.deploy.federation import Federation

pytestmark = pytest.mark.flower

# The ClientApp of the faults: client 2 lies in some rounds, and dies with its SuperNode when told to, its state written
# aside but not yet in its place.
LIAR = """
import os
import signal
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord

from fedswe.deploy.flower import client_app
from fedswe.deploy.packet import Packet

replace, fatal = os.replace, Path("{fatal}")


def dying(source, target):
    if str(target).endswith("client-2.safetensors") and fatal.exists():
        fatal.unlink()
        os.killpg(0, signal.SIGKILL)  # the whole node
    return replace(source, target)


os.replace = dying


def lies(message, context, call_next):
    reply = call_next(message, context)
    if context.node_config["partition-id"] != 2 or message.metadata.message_type != "train":
        return reply
    data = reply.content.array_records["packet"].to_numpy_ndarrays()[0].tobytes()
    packet = Packet.from_bytes(data)
    first = Path(context.node_config["state-dir"]) / "first.report"
    if packet.kind == "report" and packet.header["round"] == 0:
        first.write_bytes(data)
    if packet.header["round"] == 1:
        arrays = {name: torch.full_like(x, torch.nan) for name, x in packet.arrays.items()}
        data = Packet(packet.kind, packet.header, arrays).to_bytes()
    if packet.header["round"] == 2:
        data = Packet(packet.kind, {**packet.header, "round": 1}, packet.arrays).to_bytes()
    if packet.header["round"] == 3:
        data = first.read_bytes()
    reply.content.array_records["packet"] = ArrayRecord([np.frombuffer(data, dtype=np.uint8)])
    return reply


app = client_app(Path(__file__).parents[1], mods=[lies])
"""


def kept_round(fed, client):
    """The round of the reply a client keeps on its disk."""
    path = fed.run / "clients" / f"client-{client}" / f"client-{client}.safetensors"
    return Packet.from_bytes(path.read_bytes()).header["merged"] if path.is_file() else -1


def test_faults(tmp_path, monkeypatch):
    deploy = {"delivery": "eager", "min_clients": 3, "deadline": 90.0}
    with Federation(tmp_path, 3, rounds=6, deploy=deploy) as fed:
        fatal = tmp_path / "die-while-writing"
        (fed.app / "federation" / "client.py").write_text(LIAR.replace("{fatal}", str(fatal)))
        for client, t in ((0, 0), (0, 1), (1, 1), (1, 2), (0, 4), (0, 5)):
            fed.close_gate(client, t)
        fed.up()

        # round 0: SIGKILL of a SuperNode while it trains
        fed.until(lambda: fed.training(0, 0), "training of client 0")
        fed.supernode(0).kill()
        fed.open_gate(0, 0)
        fed.until_round(1)

        # round 1: SIGKILL between report and delivery; client 1 keeps the round open
        fed.until(lambda: fed.training(0, 1) and fed.training(1, 1), "training in round 1")
        before = fed.messages_sent(0)  # it cannot have reported: it stands at its gate
        fed.open_gate(0, 1)
        fed.until(lambda: fed.messages_sent(0) > before, "report of client 0")
        fed.supernode(0).kill()
        fed.open_gate(1, 1)
        fed.until_round(2)

        # round 2: SIGTERM of a SuperNode while it trains
        fed.until(lambda: fed.training(1, 2), "training of client 1")
        fed.supernode(1).terminate()
        fed.open_gate(1, 2)
        fed.until_round(3)

        # round 3: a client's state is deleted
        fed.until(lambda: kept_round(fed, 0) == 2, "delivery to client 0")
        shutil.rmtree(fed.run / "clients" / "client-0")
        fed.until_round(4)

        # round 4: SIGKILL of the SuperLink, and of a SuperNode at the same time; and of client 2's SuperNode while it
        # writes the reply to its first report since round 0
        fatal.touch()
        fed.until(lambda: fed.training(0, 4), "training of client 0")
        (superlink,) = fed.program("flower-superlink")
        superlink.kill()
        fed.supernode(1).kill()
        fed.open_gate(0, 4)
        fed.until_round(5)

        # round 5: SIGKILL of the server
        fed.until(lambda: fed.training(0, 5), "training of client 0")
        (server,) = fed.program("flwr-serverapp")
        os.kill(server.pid, signal.SIGKILL)
        fed.open_gate(0, 5)
        assert fed.end(300) == 0
        assert fed.alive() == []

        entries = fed.entries()
        assert not fatal.exists()
        assert [entry.rejected.get(2) for entry in entries[1:4]] == [{"not finite": 1}, {"round": 1}, {"round": 1}]
        assert [2 in entry.merged for entry in entries] == [True, False, False, False, True, True]
        assert entries[4].merged[2] == 0  # nothing it did meanwhile was counted
        assert all(0 in entry.merged for entry in entries if entry.t != 0)  # it was back in time, or it was not
        assert all(1 in entry.merged for entry in entries if entry.t != 2)
        assert "up need_state" in entries[3].traffic
        fed.find_task(monkeypatch)
        assert verify(fed.run).exact
