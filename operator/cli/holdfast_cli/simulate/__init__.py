"""One job in a virtual cluster, on recorded and drawn Spot markets.

Belongs here: markets, the cluster, its nodes and pods, and plans. Does not belong here: the network, the file system
beyond traces, the wall clock; studies of policies (holdfast_research). Layers: imports core and api only,
so that what is simulated is the code that ships.
"""
