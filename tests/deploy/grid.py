"""Flower's Grid within one process: a message is answered by the real ClientApp when its reply is asked for."""

from flwr.app import Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class LocalGrid(Grid):
    def __init__(self, client_app, run_config, clients):
        self._app, self._config = client_app, run_config
        self.online = {1000 + i: i for i in range(clients)}  # node -> client
        self._waiting = {}
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # as Flower does in a ServerApp's process
        self.sent = 0

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.online)

    def get_nodes(self):
        return [NodeInfo(node_id=node) for node in self.online]

    def push_messages(self, messages):
        names = []
        for message in messages:
            self.sent += 1
            names.append(f"message {self.sent}")
            message.metadata.__dict__["_message_id"] = names[-1]
            self._waiting[names[-1]] = message
        return names

    def pull_messages(self, message_ids):
        return [self._answer(self._waiting.pop(name)) for name in message_ids if name in self._waiting]

    def _answer(self, message):
        node = message.metadata.dst_node_id
        if node not in self.online:
            return Message(Error(code=5, reason="Node unavailable"), reply_to=message)
        place = {"partition-id": self.online[node]}
        context = Context(run_id=1, node_id=node, node_config=place, state=RecordDict(), run_config=self._config)
        try:
            return self._app(message, context)
        except Exception as error:  # as Flower does: the ServerApp sees only that it failed
            return Message(Error(code=2, reason=repr(error)), reply_to=message)

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError
