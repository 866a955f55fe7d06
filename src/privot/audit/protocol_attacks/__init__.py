"""Attacks on FedWad and TriangleWad as whole exchanges between two holders of open data. Nothing here protects anybody.

The protocols run as `privot.federation` runs them; attacks see the messages. Callers state that the records are open.
"""
