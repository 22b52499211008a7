"""The client: it trains what it receives on its own samples, and sends back the result."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from federated_digits.task import Net, partition, read, train
from fedswe.flower import mod

app = ClientApp(mods=[mod])  # only for SCAFFOLD and for `names`; other rules need no mod


def samples(node: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """From the site's own file, or in a simulation a part of the digits. Never made up: no samples, no answer."""
    if "data" in node:  # flower-supernode --node-config 'data="/data/digits.npz"'
        return read(str(node["data"]))
    if "partition-id" in node and "num-partitions" in node:  # set by Flower's simulation
        return partition(int(node["partition-id"]), int(node["num-partitions"]))
    raise ValueError("this site has no samples: start its node with --node-config 'data=\"/path/to/file.npz\"'")


@app.train()
def main(msg: Message, context: Context) -> Message:
    run = context.run_config
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    x, y = samples(context.node_config)
    loss = train(model, x, y, int(run["local-steps"]), int(run["batch-size"]), float(run["learning-rate"]))
    metrics = MetricRecord({"loss": loss, "num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=msg)
