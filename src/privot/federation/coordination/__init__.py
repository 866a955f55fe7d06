"""A coordinator's side: jobs, signed requests, answers, and the channel that carries them. It opens no vault."""
