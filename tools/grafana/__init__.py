"""Development only: Grafana's own schema and components, to check and to look at the generated dashboards."""
