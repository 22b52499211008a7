"""One recipe per table and figure, in the order of the paper, and what is not among them."""

from fedswe_paper.illustrations import DRAWN
from fedswe_paper.publish import Recipe
from fedswe_paper.recipes.accuracy_tables import ALPHA, GAMMA, MAIN, OPEN_READINGS
from fedswe_paper.recipes.fair import FAIR
from fedswe_paper.recipes.motivating import MOTIVATING
from fedswe_paper.recipes.periodic import PERIODIC_RECIPES
from fedswe_paper.recipes.slowdown import SLOWDOWN
from fedswe_paper.recipes.speedup import SPEEDUP

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        DRAWN["fig1"],
        DRAWN["fig2"],
        MOTIVATING,
        DRAWN["fig4"],
        DRAWN["fig5"],
        *PERIODIC_RECIPES,
        DRAWN["fig13"],
        DRAWN["fig14"],
        DRAWN["fig15"],
        DRAWN["fig16"],
        MAIN,
        SLOWDOWN,
        GAMMA,
        ALPHA,
        FAIR,
        OPEN_READINGS,
        SPEEDUP,
    )
}
