"""What `fedswe deploy up` sees in the run directory."""

from fedswe.cli.deploy_up import Progress
from tests.deploy.parts import Network, quadratic


def test_up_ends_with_a_server_that_an_operator_has_stopped(tmp_path):
    deployment = quadratic("fedswe", rounds=6, m=2, p=1.0)
    net = Network(tmp_path, deployment)
    net.server.record_start()
    net.server.change("stop")
    progress = Progress(net.server.directory, 6, deployment.experiment.evaluate)
    assert not progress.stopped  # that was an earlier server
    net.restart()
    net.server.record_start()
    assert not progress.stopped
    net.round()
    net.server.change("stop")
    assert progress.stopped


def test_up_sees_that_a_run_is_paused(tmp_path):
    deployment = quadratic("fedswe", rounds=6, m=2)
    net = Network(tmp_path, deployment)
    progress = Progress(net.server.directory, 6, deployment.experiment.evaluate)
    assert not progress.paused
    net.server.change("pause")
    assert progress.paused
