"""The running service: scrape loop, API, page."""
