"""Capacity policies on recorded and made-up Spot markets. Imports the code that ships, and nothing that talks."""
