"""The one error a user sees: a single line that says what is wrong and what to change."""


class FedsweError(ValueError):
    """Something the user gave cannot be used; the message is one line and names the remedy."""


def require(condition: object, message: str) -> None:
    """Raise ``FedsweError(message)`` unless ``condition`` holds."""
    if not condition:
        raise FedsweError(message)
