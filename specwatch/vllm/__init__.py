"""What vLLM does, release by release: its flags, its metrics pages, its process."""
