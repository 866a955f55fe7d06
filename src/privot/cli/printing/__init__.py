"""How answers, charts, progress and errors are shown."""
