"""The noise that keeps records private, from the operating system's entropy; it may not touch a record.

`SystemNoise` is what a vault uses. `SeededNoise` repeats itself, exists for tests only, and turns the
standing of whatever it feeds to UNPROVEN. Importing this package does not import torch.
"""

from privot.noise.noise_source import NoiseSource, SeededNoise, SystemNoise

__all__ = [
    "NoiseSource",
    "SeededNoise",
    "SystemNoise",
]
