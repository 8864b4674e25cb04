"""What is seen: views of pods and nodes, the demand of a pod, the trainer's report, notices, an attempt's situation.

Belongs here: parsing, and small questions about one observed object. Does not belong here: any decision, any change of
status. Layers: the lowest room of core; imports api alone.
"""
