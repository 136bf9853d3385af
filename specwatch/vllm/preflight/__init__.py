"""What can be known before vLLM starts: from configuration, tokenizers and headers of weights, in seconds.

``run.examine`` puts the checks together. Nothing is downloaded, no weight is read, and nothing of torch,
transformers or vLLM is imported.
"""
