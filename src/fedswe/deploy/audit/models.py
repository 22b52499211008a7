"""The models: stored ones against their digests, merges computed again where the reports were kept, and scores."""

from __future__ import annotations

import math
from pathlib import Path

from fedswe.deploy.audit.chain import LedgerInOrder
from fedswe.deploy.audit.findings import Part
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.durable_files import read_whole
from fedswe.deploy.evaluation import tally
from fedswe.deploy.ledger import file_digest
from fedswe.deploy.ledger_lines import Evaluation
from fedswe.deploy.packet import arrays_digest, encode
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.recomputation import Recomputation, kept_everything
from fedswe.deploy.server_files import ServerFiles, restorable
from fedswe.deploy.stored_run import StoredRun, model_file
from fedswe.engine.outputs import Outputs
from fedswe.results.history import Row
from fedswe.tasks.problem import Problem

_SCORES = 1e-5  # relative; evaluated with another number of threads, scores differ in their last digits


class ModelChecks:
    def __init__(
        self, folder: Path, ordered: LedgerInOrder, sound: set[str], protocol: RunProtocol, problem: Problem
    ) -> None:
        """`sound`: the files of rounds that have the digests in the ledger."""
        self._folder, self._ordered, self._protocol, self._problem = folder, ordered, protocol, problem
        self._entries, self._sound = ordered.contents.entries, sound
        starts = ordered.contents.starts
        self._config = protocol.deployment.scores_digest()
        self._steady = {start.scores for start in starts} <= {self._config}
        self._rows = {int(row["round"]): row for row in ordered.contents.rows}
        self._scored = set[int]()  # evaluations that were computed again
        self.models, self.merges, self.scores = Part("models"), Part("merges"), Part("evaluations")
        self.recomputed = 0

    def run(self) -> list[Part]:
        self.merges.attempt(self._recompute)
        self._stored_models()
        self._check_rows()
        self.models.attempt(self._final)
        return [self.models, self.merges, self.scores]

    # merges --------------------------------------------------------------------------------------------
    def _recompute(self) -> None:
        part = self.merges
        if not self._entries:
            return
        if not kept_everything(self._entries):
            part.skipped.append("the sums of the reports: deploy.trail = true keeps the reports of all rounds")
            return
        run = Recomputation(self._folder, self._protocol)
        self._evaluate(0, run.outputs)
        for entry in self._entries:
            wrong = run.step(entry)
            if not self._steady:  # averages over rounds began with another configuration
                wrong = [name for name in wrong if not name.startswith("outputs/")]
            part.failures += [f"round {entry.t}: {name} is not what the kept reports give" for name in wrong]
            if any(not name.startswith("outputs/") for name in wrong):
                part.skipped.append(f"the rounds after {entry.t}")
                break
            self.recomputed += 1
            self._evaluate(run.t, run.outputs)
            run.files.sweep({run.t: run.last})  # not before: a client that leaves now is part of the mean above
        part.checked = (
            f"{self.recomputed} of {len(self._entries)} rounds have the sums, models and replies of their reports"
        )

    # stored models -------------------------------------------------------------------------------------
    def _stored_models(self) -> None:
        part, entries = self.models, self._entries
        files, compared = ServerFiles(self._folder, entries), set[int]()
        for name, t in files.stored():
            if name not in self._sound:
                continue
            part.attempt(self._check_stored, files, name, t)
            if name.startswith(("trail/", "state/")):
                compared.add(t)
        for t in restorable(entries, self._protocol.membership, self._sound):
            if t not in self._scored and t in self._rows:
                self.scores.attempt(lambda t: self._evaluate(t, self._outputs_after(t)), t)
        part.checked = f"{len(compared)} of {len(entries)} server models are stored and have the digests in the ledger"
        if len(compared) < len(entries):
            part.skipped.append("the models that were not kept: deploy.trail = true keeps all of them")

    def _check_stored(self, files: ServerFiles, name: str, t: int) -> None:
        """The content of a file agrees with the digests of models and replies, not only with its own."""
        entry, protocol, part = self._entries[t - 1], self._protocol, self.models
        if name.startswith("versions/") and protocol.needs_base:
            found = arrays_digest(encode("reply", files.reply(t - 1, protocol.reply)))
            part.require(found == entry.reply, f"{name}.safetensors is not the reply that the ledger names")
        elif name.startswith(("trail/", "state/")):
            x = files.trail(t) if name.startswith("trail/") else files.state(t, protocol.server_init()).model
            assert x is not None
            part.require(
                arrays_digest({"x": x}) == entry.model, f"{name}.safetensors is not the model that the ledger names"
            )

    def _outputs_after(self, t: int) -> Outputs:
        return StoredRun(self._folder, self._protocol, self._entries[:t]).outputs(self._protocol)

    def _final(self) -> None:
        """model.safetensors is written when the last round is committed, or at the next start."""
        path, t = self._folder / "model.safetensors", len(self._entries)
        experiment = self._protocol.deployment.experiment
        problem = ""
        if t < experiment.rounds:
            problem = "model.safetensors is there, but the run is not finished" if path.exists() else ""
        elif not path.is_file():
            problem = "model.safetensors is missing"
        if problem and self._ordered.cut_short:
            self.models.notes.append(f"{problem}: the server ended before it was done; the next start corrects that")
        elif problem:
            self.models.failures.append(f"{problem}: the next start corrects that")
        if problem or t < experiment.rounds:
            return
        if t not in restorable(self._entries, self._protocol.membership, self._sound):
            self.models.skipped.append("model.safetensors: the files of the last round are damaged")
            return
        outputs, found = self._outputs_after(t), read_whole(path)

        def expected(rows: list[Row]) -> bytes:
            return model_file(outputs, rows, self._protocol.deployment, self._problem, t)

        if found == expected(self._ordered.contents.rows):
            return
        if isinstance(self._ordered.lines[-1], Evaluation) and found == expected(
            self._ordered.rows_before_the_last_line()
        ):
            self.models.notes.append(
                "model.safetensors has the choice of the evaluation before the last: the server ended before it was "
                "done; the next start corrects that"
            )
            return
        self.models.failures.append(
            "model.safetensors does not hold the models of the last round: the next start writes it again"
        )

    # evaluations ---------------------------------------------------------------------------------------
    def _evaluate(self, t: int, outputs: Outputs) -> None:
        """Compare the scores in the ledger with those of models, and the choices with the scores in the ledger."""
        row = self._rows.get(t)
        if row is None or self._ordered.scores.get(t) != self._config:
            return
        self._scored.add(t)
        stateful = [] if self._steady else outputs.stateful
        found: Row = dict(outputs.choice_columns([row for _, row in sorted(self._rows.items()) if row["round"] <= t]))
        for name, x in outputs.computed().items():
            if name not in stateful:
                found |= {f"{name}_{score}": value for score, value in self._problem.evaluate(x).items()}
        for column, value in found.items():
            self.scores.require(
                _close(row.get(column), value),
                f"the evaluation after {t} rounds: {column} is {row.get(column)}, the model gives {value}",
            )

    def _check_starts(self) -> None:
        """A start that names this deployment.toml evaluated what it says; and evaluations are complete."""
        part, contents, evaluate = self.scores, self._ordered.contents, self._protocol.deployment.experiment.evaluate
        present = file_digest(read_whole(self._folder / DEPLOYMENT_FILE))
        for start in contents.starts:
            part.require(
                start.files.get(DEPLOYMENT_FILE) != present or start.scores == self._config,
                f"the start at round {start.t} names another task or evaluation than its {DEPLOYMENT_FILE}",
            )
        if not self._rows:
            part.skipped.append("evaluations: the ledger has none")
        elif self._steady:
            due = range(min(self._rows), len(self._entries))
            missing = [t for t in due if t % evaluate.every == 0 and t not in self._rows]
            part.require(not missing, f"the evaluations after {_listed(missing)} rounds are missing")

    def _check_rows(self) -> None:
        part, before = self.scores, 0
        self._check_starts()
        for t, row in sorted(self._rows.items()):
            counts = tally(self._entries[before:t]).columns()
            wrong = [name for name, value in counts.items() if row.get(name) != value]
            part.require(
                not wrong, f"the evaluation after {t} rounds: {', '.join(wrong)} are not those of the rounds before it"
            )
            before = t
        part.checked = f"{len(self._scored)} of {len(self._rows)} evaluations computed again, the counts of all"
        if len(self._scored) < len(self._rows):
            part.skipped.append("scores of models that were not kept, or of another configuration")


def _close(a: float | None, b: float) -> bool:
    if a is None or math.isnan(a) or math.isnan(b):
        return a is not None and math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= _SCORES * max(1.0, abs(b))


def _listed(rounds: list[int]) -> str:
    return ", ".join(map(str, rounds[:5])) + ("..." if len(rounds) > 5 else "")
