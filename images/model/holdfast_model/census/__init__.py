"""What a data set contains, before a model learns from it: counts by class and split, evenness, identical files.

Belongs here: reading the names and labels of a folder, a manifest or files of Parquet, and what they add up to.
Does not belong here: the contents of samples (evaluation reads them for a model); samplers of a training (data).
"""

from holdfast_model.census.errors import DataSetError
from holdfast_model.census.summary import Summary
from holdfast_model.census.survey import look

__all__ = ["DataSetError", "Summary", "look"]
