"""FedWad and TriangleWad as published, with corrections; they protect nobody, and say so."""
