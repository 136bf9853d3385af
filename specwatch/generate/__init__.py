"""Rules, Alertmanager configuration and dashboards made from the catalogues."""
