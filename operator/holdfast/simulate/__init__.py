"""Capacity policies on recorded and generated Spot markets.

Belongs here: markets, a virtual cluster, a small economy, baselines, the optimum, studies and their pictures. Does not
belong here: the network, the file system beyond traces and pictures, the wall clock. Layers: imports core and api only,
so that what is simulated is the code that ships.
"""
