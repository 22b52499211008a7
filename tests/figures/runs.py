"""Run directories with known numbers, written by hand."""

import csv
import io

import tomli_w

CONFIG = {
    "rounds": 40,
    "dtype": "float32",
    "algorithm": {"name": "fedswe", "k": 100.0},
    "availability": {"name": "sine", "period": 20},
    "task": {"name": "digits", "clients": 30},
    "local": {"lr": 0.1},
    "evaluate": {"model": ["server", "client_mean"]},
}


def write_run(path, seed=3, accuracy=0.9, every=10, size=650, rounds=40, finished=True, **sections):
    """Accuracy rises from 0.1 to the given one in the first ten rounds; ten of the clients report in every round."""
    import safetensors.torch
    import torch

    config = {**CONFIG, "seed": seed}
    for name, section in sections.items():  # of another class, nothing is kept
        config[name] = section if "name" in section else {**CONFIG[name], **section}
    path.mkdir(parents=True)
    (path / "config.toml").write_text(tomli_w.dumps(config))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    scores = [f"{model}_{score}" for model in ("server", "client_mean") for score in ("test_loss", "test_accuracy")]
    writer.writerow(["round", "available", "reported", *scores, "seconds"])
    for t in range(0, rounds + 1, every):
        reached = 0.1 + (accuracy - 0.1) * min(t / 10, 1)
        writer.writerow([t, 10 * (t > 0), 10 * (t > 0), 1 - reached, reached, 1 - reached, reached - 0.01, t / 5])
    (path / "history.csv").write_text(text.getvalue())
    if finished:
        models = {name: torch.zeros(size) for name in ("server", "client_mean")}
        (path / "model.safetensors").write_bytes(safetensors.torch.save(models))
    return path


def write_runs(path, accuracies):
    """Runs of algorithms by their names and seeds."""
    return [
        write_run(path / f"{name}-{seed}", seed, accuracy, algorithm={"name": name})
        for name, of in accuracies.items()
        for seed, accuracy in of.items()
    ]


def with_scores(run, **columns):
    """The run with other scores in the last evaluations."""
    head, *rows = ((line.split(",")) for line in (run / "history.csv").read_text().splitlines())
    for column, values in columns.items():
        for row, value in zip(rows[-len(values) :], values, strict=True):
            row[head.index(column)] = str(value)
    (run / "history.csv").write_text("\n".join(",".join(line) for line in [head, *rows]))
    return run
