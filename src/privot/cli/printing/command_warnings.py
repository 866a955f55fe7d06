"""Warnings of a command: each is a sentence on standard error, and part of the answer that --json prints."""

from __future__ import annotations

import typer

warned: list[str] = []
"""What the running command warned of, oldest first."""


def warn(sentence: str) -> None:
    """Say a sentence on standard error, and keep it for the answer."""
    warned.append(sentence)
    typer.echo(f"Warning: {sentence}", err=True)


def with_warnings(answer: dict[str, object]) -> dict[str, object]:
    """The answer of a command that may warn, with `warnings`, which is empty where there were none."""
    return {**answer, "warnings": list(warned)}
