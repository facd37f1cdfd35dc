"""How a field of a VARIANT is named to Spark."""

from __future__ import annotations

from collections.abc import Sequence


def variant_path(steps: Sequence[str]) -> str | None:
    r"""The path of a field; None for a name with both kinds of quotes, which Spark's paths cannot express.

    >>> variant_path(["a", "b c", "it's"])
    '$[\'a\'][\'b c\']["it\'s"]'
    """
    if any("'" in step and '"' in step for step in steps):
        return None
    return "$" + "".join(f'["{step}"]' if "'" in step else f"['{step}']" for step in steps)
