"""The alert catalogue, its evaluation, what is told of it, and delivery to people and Alertmanagers."""
