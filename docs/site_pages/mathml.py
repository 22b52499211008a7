"""Formulas as MathML, by docutils: browsers draw it, and a page loads nothing from the network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.writers.html5 import HTML5Translator


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def mathml(text: str, block: bool) -> str:
    text = text.replace(r"\dots", r"\ldots")  # docutils knows the second
    text = re.sub(r"\\frac(\w)(\w)", r"\\frac{\1}{\2}", text)  # and fractions in braces
    return latex2mathml.tex2mathml(text, as_block=block)
