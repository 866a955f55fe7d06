"""FedWad and TriangleWad as published, with corrections. They protect nobody, and their results say so."""
