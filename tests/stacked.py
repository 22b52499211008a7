"""Run several experiments as one stack."""

from fedswe.experiment.runner import Runner, advance


def run_together(experiments):
    runners = [Runner(experiment) for experiment in experiments]
    for _ in advance(runners, threads=1):
        pass
    return [runner.history for runner in runners]
