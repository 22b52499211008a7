"""One decision per claim, by the claim's id: from the measurements alone, or exactly where nothing is measured."""

from fedswe.reproduce.decisions.exact import EXACT_DECISIONS
from fedswe.reproduce.decisions.sine import SINE_DECISIONS
from fedswe.reproduce.decisions.steady import STEADY_DECISIONS
from fedswe.reproduce.decisions.turns import TURNS_DECISIONS
from fedswe.reproduce.decisions.verdict import Decide

DECISIONS: dict[str, Decide] = {**EXACT_DECISIONS, **SINE_DECISIONS, **STEADY_DECISIONS, **TURNS_DECISIONS}
