"""Claims about privot itself: what its own result pages state, measured again."""
