"""The alert catalogue, its evaluation, and delivery to Slack and PagerDuty."""
