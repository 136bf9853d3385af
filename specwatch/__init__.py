"""Launch, watch and alert on fleets of vLLM servers that use speculative decoding."""

__version__ = "0.1.0"
