"""Studies of Rakotomamonjy & Ralaivola 2021, *Differentially Private Sliced Wasserstein Distance*."""
