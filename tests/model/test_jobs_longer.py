"""The same as `test_jobs`, with 200 lives instead of 15."""

import pytest
from hypothesis import settings
from tests.model import test_jobs


@pytest.mark.thorough
class TestJobsLonger(test_jobs.Jobs.TestCase):
    """Breaks if a rare course of events ends a job, or leaves it without a word."""

    settings = settings(test_jobs.TestJobs.settings, max_examples=200)
