"""Where the counters come from: targets and scraping."""
