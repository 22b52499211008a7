"""One decision per claim, by the claim's id: from the measurements alone, or exactly where nothing is measured."""

from fedswe_paper.decisions.exact import EXACT_DECISIONS
from fedswe_paper.decisions.main_table import STEADY_DECISIONS
from fedswe_paper.decisions.periodic import TURNS_DECISIONS
from fedswe_paper.decisions.sine import SINE_DECISIONS
from fedswe_paper.decisions.verdict import Decide

DECISIONS: dict[str, Decide] = {**EXACT_DECISIONS, **SINE_DECISIONS, **STEADY_DECISIONS, **TURNS_DECISIONS}
