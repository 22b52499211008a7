"""An ordinary ClientApp that trains a client of a problem of the simulator, so that both can be compared."""

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedswe.core.algorithm import Job
from fedswe.core.local import Local
from fedswe.engine.work import Work, train_one
from fedswe.flower import mod

LOCAL = Local(steps=4, batch_size=16, lr=0.05, schedule="constant")


def arrays(x, counter=True):
    """A model as a user's arrays: two of floating-point numbers and a counter between them."""
    x = np.asarray(x)
    found = {"a": x[:2].copy(), "count": np.array([5]), "b": x[2:].reshape(1, -1).copy()}
    return ArrayRecord({name: Array(value) for name, value in found.items() if counter or name != "count"})


def vector(record):
    return torch.from_numpy(np.concatenate([record["a"].numpy(), record["b"].numpy().ravel()]))


def trajectory(strategy, grid, start, rounds, **options):
    """The models that a strategy serves, x^0 the first."""
    found = []
    strategy.start(grid, start, rounds, evaluate_fn=lambda t, x: found.append(vector(x).numpy()), **options)
    return np.stack(found)


def reply(message, x, **metrics):
    counter = "arrays" not in message.content or "count" in message.content["arrays"]
    records = {"arrays": arrays(x, counter), "metrics": MetricRecord({"num-examples": 4, "loss": 1.0, **metrics})}
    return Message(RecordDict(records), reply_to=message)


def client_app(problem, local=LOCAL, mods=(mod,)):
    """Plain SGD by the simulator's own solver."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message, context):
        if "count" in message.content["arrays"]:
            assert int(message.content["arrays"]["count"].numpy()[0]) == 5
        client, t = context.node_config["partition-id"], message.content["config"]["server-round"] - 1
        work = Work(problem, Job(vector(message.content["arrays"])), np.array([client]), t, local)
        return reply(message, train_one(work).end)

    @app.evaluate()
    def evaluate(message, context):
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 4, "loss": 2.0})}), reply_to=message)

    return app


def torch_app(problem, local=LOCAL, optimizer=torch.optim.SGD, closure=(), **options):
    """The same with an optimiser of PyTorch, which the mod can change."""
    app = ClientApp(mods=[mod])

    @app.train()
    def train(message, context):
        client, t = context.node_config["partition-id"], message.content["config"]["server-round"] - 1
        start = vector(message.content["arrays"])
        a, b = torch.nn.Parameter(start[:2].clone()), torch.nn.Parameter(start[2:].clone().view(1, -1))
        steps = optimizer([a, b], lr=local.lr, **options)
        for batch in Work(problem, Job(start), np.array([client]), t, local).batches:
            gradient = problem.gradient(torch.cat([a.detach(), b.detach().ravel()]), batch[0], "fp32")
            a.grad, b.grad = gradient[:2].clone(), gradient[2:].clone().view(1, -1)
            steps.step(*closure)
        return reply(message, torch.cat([a.detach(), b.detach().ravel()]))

    return app
