"""`holdfast demo`: a training that loses three nodes and finishes, in a local cluster, on one screen."""
