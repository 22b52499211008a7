"""One recipe per table and figure, in the order of the paper, and what is not among them."""

from fedswe_paper.illustrations import DRAWN
from fedswe_paper.publish import Recipe
from fedswe_paper.recipes.accuracy import ALPHA, GAMMA, MAIN, MOTIVATING, OPEN_READINGS, SLOWDOWN
from fedswe_paper.recipes.fair import FAIR
from fedswe_paper.recipes.periodic import PERIODIC_RECIPES
from fedswe_paper.recipes.speedup import SPEEDUP

_RECIPES = (
    DRAWN["fig1"], DRAWN["fig2"], MOTIVATING, DRAWN["fig4"], DRAWN["fig5"], *PERIODIC_RECIPES, DRAWN["fig13"],
    DRAWN["fig14"], DRAWN["fig15"], DRAWN["fig16"], MAIN, SLOWDOWN, GAMMA, ALPHA, FAIR, OPEN_READINGS, SPEEDUP,
)  # fmt: skip
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _RECIPES}
