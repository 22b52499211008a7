"""Escapes text for LaTeX, for every engine."""

from __future__ import annotations

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "[": "{[}", "*": "{*}",  # the last two: else arguments of a line break
    "—": "---", "–": "--", "…": r"\ldots{}", "’": "'",
    "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$", "≈": r"$\approx$", "≤": r"$\le$", "≥": r"$\ge$",
    "→": r"$\to$", "∞": r"$\infty$", "√": r"$\surd$", "²": "$^2$", "⁰": "$^0$", "₀": "$_0$", "Δ": r"$\Delta$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "η": r"$\eta$", "ρ": r"$\rho$",
    "σ": r"$\sigma$", "τ": r"$\tau$", "φ": r"$\phi$", "ν": r"$\nu$",
}  # fmt: skip


def escaped(text: str) -> str:
    """The text with LaTeX's special characters escaped; an unknown symbol is written as its code point."""
    return "".join(_SPECIAL.get(c, c if c.isascii() else f"{{[}}U+{ord(c):04X}]") for c in text)
