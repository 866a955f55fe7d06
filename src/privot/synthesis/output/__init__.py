"""The output folder: saved model, samples, figures, report; it sees what was released only."""
