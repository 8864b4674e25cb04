"""What capacity policies cost: an economy, rules of others, the optimum, studies and their pictures.

Holdfast's own policies run as they ship, in the virtual cluster of holdfast_cli.simulate.
"""
