"""One recipe per table and figure, in the order of the paper, and two tables of our own."""

from fedswe.reproduce.recipe import Recipe
from fedswe.reproduce.recipes.accuracy_tables import ALPHA, GAMMA, MAIN
from fedswe.reproduce.recipes.drawn import DRAWN
from fedswe.reproduce.recipes.fair import FAIR
from fedswe.reproduce.recipes.motivating import MOTIVATING
from fedswe.reproduce.recipes.periodic import PERIODIC_RECIPES
from fedswe.reproduce.recipes.readings import OPEN_READINGS
from fedswe.reproduce.recipes.slowdown import SLOWDOWN

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        DRAWN["fig2"],
        MOTIVATING,
        DRAWN["fig4"],
        DRAWN["fig5"],
        *PERIODIC_RECIPES,
        DRAWN["fig14"],
        DRAWN["fig15"],
        DRAWN["fig16"],
        MAIN,
        SLOWDOWN,
        GAMMA,
        ALPHA,
        FAIR,
        OPEN_READINGS,
    )
}
