"""Finding mistakes in Prometheus rules, Alertmanager configurations and Grafana dashboards that watch vLLM."""
