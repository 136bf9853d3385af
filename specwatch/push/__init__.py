"""Bringing what is generated to where it is used."""
