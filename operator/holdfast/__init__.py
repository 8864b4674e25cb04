"""Holdfast: a Kubernetes operator that keeps GPU training jobs alive."""
