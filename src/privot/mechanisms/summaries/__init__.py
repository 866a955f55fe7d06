"""Simple numbers of one column: count, mean, histogram, quantiles; each states ε and finds its own noise."""
