"""Flower's own in-memory grid and link state, with the ClientApps of all nodes in this process."""

import secrets
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import HEARTBEAT_INTERVAL_INF, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid

from tests.flower.apps import vector


class LocalGrid(InMemoryGrid):
    """`clients` nodes with partitions 0, 1, ...; a node whose partition is in `offline` is not listed.

    `instead[partition](message, reply)` is what a client sends instead of its reply; None is silence. The clients that
    were asked are in `asked`, and `starts[round, partition]` is where one of them began to train.
    """

    def __init__(self, app, clients):
        super().__init__(LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory()), 0.0)
        run = Run.create_empty(run_id=7)
        run.federation_id = NOOP_FEDERATION_ID
        run.primary_task_id, self.state.task_store[1] = 1, Task(task_id=1, run_id=7)
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 7, 1
        self.state.run_ids[7] = RunRecord(run=run)
        self.set_run(run)
        self.app, self.nodes, self.offline, self.contexts = app, {}, set(), {}
        self.instead, self.asked, self.starts = {}, [], {}
        for partition in range(clients):
            self.add(partition)

    def add(self, partition):
        """A node with this partition: its id is drawn by Flower."""
        node = self.state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, secrets.token_bytes(32), HEARTBEAT_INTERVAL_INF)
        self.state.acknowledge_node_heartbeat(node, HEARTBEAT_INTERVAL_INF)
        self.nodes[node] = partition
        config = {"partition-id": partition}
        self.contexts[node] = Context(run_id=7, node_id=node, node_config=config, state=RecordDict(), run_config={})
        return node

    def get_node_ids(self):
        return [node for node in super().get_node_ids() if self.nodes[node] not in self.offline]

    def pull_messages(self, message_ids):
        for node in self.nodes:
            for message in self.state.get_message_ins(node_id=node, limit=None):
                reply = self.answer(message, self.contexts[node])
                if reply is not None:
                    reply.metadata.__dict__["_message_id"] = str(uuid4())
                    self.state.store_message_res(reply)
        return super().pull_messages(message_ids)

    def answer(self, message, context):
        content, partition, given = message.content, context.node_config["partition-id"], lambda message, reply: reply
        if "arrays" in content:  # it does not ask for a name
            self.asked.append(partition)
            given = self.instead.get(partition, given)
            if message.metadata.message_type == "train":
                self.starts[content["config"]["server-round"], partition] = vector(content["arrays"]).numpy()
        try:
            return given(message, self.app(message, context))
        except Exception as error:  # as Flower's node does
            return Message(Error(code=1, reason=f"{type(error)}:<'{error}'>"), reply_to=message)
