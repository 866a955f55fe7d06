"""From scores and counts to lower bounds on ε and rates with intervals; no mechanism is run here."""
